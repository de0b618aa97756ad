"""Periodic work on GPUs."""

from __future__ import annotations

from typing import Any

from foundation import clock, leases
from foundation.tasks import task
from telemetry.services import look_at_gpus
from telemetry.summaries import write_summaries

LEASE_SECONDS = 45


@task(name="telemetry.look_at_gpus")
def look_at_all_gpus(**_future: Any) -> None:
    """Write who holds GPUs idle, which alerts hold, and what the GPUs of runs did that have ended."""
    with leases.periodic("gpus", seconds=LEASE_SECONDS) as ours:
        if ours:
            look_at_gpus(now=clock.now())
            write_summaries(now=clock.now())
