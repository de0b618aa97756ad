"""The tasks of sweeps: one look, and the periodic one that finds what a lost message missed. Idle policies of templates."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from foundation import clock, leases
from foundation.tasks import task
from jobs.idle.services import apply_policies
from jobs.models import Sweep
from jobs.sweeps.services import advance_sweep as advance
from jobs.sweeps.wakeups import ADVANCE_TASK, send

LEASE_SECONDS = 8


@task(name=ADVANCE_TASK)
def advance_sweep(*, sweep_id: str, **_future: Any) -> None:
    """Let the sweep's rules act once."""
    advance(sweep_id=UUID(sweep_id), now=clock.now())


@task(name="jobs.tasks.advance_sweeps")
def advance_sweeps(**_future: Any) -> None:
    """Send a hint about every sweep that has not ended: one that fails keeps none of the others from going on."""
    with leases.periodic("run-sweeps", seconds=LEASE_SECONDS) as ours:
        if ours:
            for sweep_id in Sweep.objects.filter(finished_at=None).values_list("public_id", flat=True):
                send(sweep_id)


@task(name="jobs.tasks.apply_idle_policies")
def apply_idle_policies(**_future: Any) -> None:
    """Warn and stop runs that hold GPUs and do nothing, where their template says so."""
    with leases.periodic("idle-policies", seconds=45) as ours:
        if ours:
            apply_policies(now=clock.now())
