"""Verdicts of a pass, written to the rows of those that were judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from controller.measures import admitted
from policy.verdicts import Outcome, Verdict
from workloads.bulk.transitions import Move, move_queued
from workloads.models import Workload
from workloads.states import Phase, Reason

ADMISSION = "admission"
NO_GPU = Verdict(Outcome.ADMIT, Reason.CREATING, "It asks for no GPU.", rule="no-gpu")
"""Admitted whatever room nodes have: its pods are made, so that node autoscalers see them."""


def write_verdicts(
    workloads: Iterable[Workload], verdicts: Mapping[int, Verdict], *, focus: Workload | None, now: datetime
) -> list[Workload]:
    """Write the verdicts to the rows; returns the workloads with a change visible to users."""
    changed, moves = [], []
    for workload in workloads:
        verdict = verdicts[workload.pk]
        phase = Phase.ADMITTED if verdict.admitted else Phase.QUEUED
        if (workload.phase, workload.reason, workload.message) == (
            phase.value,
            verdict.reason.value,
            verdict.message,
        ):
            continue
        changed.append(workload)
        if verdict.admitted:
            flavor = workload.flavor.name if workload.flavor else ""
            admitted(
                flavor=flavor, capacity_type=workload.capacity_type, queued_at=workload.queued_at, now=now
            )
        moves.append(Move(workload.pk, phase, verdict.reason, verdict.message, wake=workload is not focus))
    if moves:
        move_queued(workloads=changed, moves=moves, actor=ADMISSION, now=now)
    return changed
