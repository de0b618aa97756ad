"""Periodic jobs of the portal itself."""

from __future__ import annotations

from typing import Any

from foundation import clock, heartbeats
from foundation.tasks import task


@task()
def worker_heartbeat(**_future: Any) -> None:
    """Prove that beat sends, the broker delivers and a worker consumes: one row, written through the queue."""
    heartbeats.beat(process="worker", now=clock.now())
