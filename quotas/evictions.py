"""The requests to leave that victims of a preemption or of a cut are given: one open request for each run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from django.db.models import Exists, OuterRef

from quotas.models import Claim, ClaimState, Preemption
from quotas.verdicts import Victim
from workloads.models import Workload


def ask_to_leave(
    *,
    victims: Iterable[Victim],
    preemptor: Workload | None,
    told: Callable[[Workload, Victim], str],
    now: datetime,
) -> list[Workload]:
    """Open a request for each victim that holds something and has none open; those who are to be woken.

    Wake them after the transaction: who stops one of them holds its row, and waits for the quotas that are locked here.
    """
    # A second claim of a workload stands for itself in a Supply, but the workload leaves as a whole.
    chosen = {workload_of(each): each for each in victims}
    holding = Claim.objects.filter(workload=OuterRef("pk")).exclude(state=ClaimState.RELEASED)
    rows = (
        Workload.objects.select_related("team").filter(Exists(holding), public_id__in=chosen).order_by("pk")
    )
    asked = [(row, chosen[str(row.public_id)]) for row in rows]
    Preemption.objects.bulk_create(
        [
            Preemption(
                workload=row,
                preemptor=preemptor,
                cause=victim.cause.value,
                message=told(row, victim),
                lost_seconds=victim.lost_seconds,
                at=now,
            )
            for row, victim in asked
        ],
        ignore_conflicts=True,
    )
    return [row for row, _ in asked]


def workload_of(victim: Victim) -> str:
    """Public id of the workload that a holder of a Supply belongs to."""
    return victim.id.partition("/")[0]
