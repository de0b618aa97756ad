"""The requests to leave for victims of a preemption or of a cut: one open request for each run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from foundation import leases
from policy.verdicts import Victim
from quotas.models import Claim, ClaimState, Preemption
from workloads.models import Workload


def ask_to_leave(
    *,
    victims: Iterable[Victim],
    preemptor: Workload | None,
    message_of: Callable[[Workload, Victim], str],
    now: datetime,
) -> list[Workload]:
    """Open a request for each victim that holds something and has none open; the workloads that must be woken.

    Wake them after the transaction: a process that stops one of them holds its row, and waits for the quotas that are
    locked here.
    """
    # A second claim of a workload is a holder of its own in a snapshot, but the workload leaves as a whole.
    chosen = {workload_of(victim): victim for victim in victims}
    claims = Claim.objects.select_related("workload__team").exclude(state=ClaimState.RELEASED)
    held = {
        claim.workload_id: claim for claim in claims.filter(workload__public_id__in=chosen).order_by("-pk")
    }
    asked = [(held[key], chosen[str(held[key].workload.public_id)]) for key in sorted(held)]
    Preemption.objects.bulk_create(
        [
            Preemption(
                workload=claim.workload,
                claim=claim,
                preemptor=preemptor,
                cause=victim.cause.value,
                message=message_of(claim.workload, victim),
                lost_seconds=victim.lost_seconds,
                at=now,
            )
            for claim, victim in asked
        ],
        ignore_conflicts=True,
    )
    return [claim.workload for claim, _ in asked]


def open_requests() -> QuerySet[Preemption]:
    """The open requests whose run still holds their claim."""
    return Preemption.objects.filter(ended_at__isnull=True).exclude(claim__state=ClaimState.RELEASED)


def end_stale(*, now: datetime) -> int:
    """Close requests whose claim was released before they were written; returns how many."""
    late = Preemption.objects.filter(ended_at__isnull=True, claim__state=ClaimState.RELEASED)
    with transaction.atomic():
        leases.check()
        return late.update(ended_at=now)


def workload_of(victim: Victim) -> str:
    """Public id of the workload that a holder of a snapshot belongs to."""
    return victim.id.partition("/")[0]
