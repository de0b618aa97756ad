"""Preemption requests: the row that records for which workload a run must stop, and the message to its owner.

A victim's own row is not changed here: its reconcile sees the request, stops it with its grace period, and queues
it again at its old place.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import partial

from django.db import transaction

from controller import wakeups
from policy.preemption import reclaim_headroom
from policy.verdicts import PreemptionCause, Victim
from quotas import evictions, services, snapshots
from quotas.models import Preemption
from quotas.queries import policy_of
from workloads.models import Attempt, Workload
from workloads.states import HOLDS_CLAIM, Phase

NEEDS = {
    PreemptionCause.IN_COHORT_RECLAMATION: "{who} takes back quota that was lent to this team",
    PreemptionCause.IN_CLUSTER_QUEUE: "{who} has a higher priority",
    PreemptionCause.HEADROOM_RECLAIMED: "{who} grows into the headroom that this run lives on",
    PreemptionCause.QUOTA_REDUCED: "The quota of this team was cut",
}


def ask_to_leave(*, victims: Iterable[Victim], preemptor: Workload | None, now: datetime) -> None:
    """Open a preemption request for each victim that has none, and wake the victims after the commit."""
    asked = evictions.ask_to_leave(
        victims=victims,
        preemptor=preemptor,
        message_of=lambda row, victim: request_message(row, preemptor, victim.cause),
        now=now,
    )
    for workload in asked:
        transaction.on_commit(partial(wakeups.wake_now, workload, now=now))


def request_message(victim: Workload, preemptor: Workload | None, cause: PreemptionCause) -> str:
    """Why the run must leave and which workload needs it; another team is named only if its policy shows its name."""
    return f"{NEEDS[cause].format(who=_called(victim, preemptor))} ({cause.value})."


def _called(victim: Workload, preemptor: Workload | None) -> str:
    if preemptor is None:
        return "Another workload"
    noun = preemptor.own_kind.noun.capitalize()
    if preemptor.team_id == victim.team_id:
        return f"{noun} {preemptor.name}"
    if policy_of(preemptor.team).shows_name:
        return f"{noun} {preemptor.name} of team {preemptor.team.slug}"
    return f"{'An' if noun[0] in 'AEIOU' else 'A'} {noun.lower()} of another team"


def open_request(workload: Workload) -> Preemption | None:
    """The workload's open preemption request; None if there is none."""
    return evictions.open_requests().filter(workload=workload).first()


def has_left(workload: Workload, *, now: datetime) -> Preemption | None:
    """Close the request when the last pod is gone, with the run's actual lost work. None if there is no request."""
    asked = workload.preemptions.filter(ended_at__isnull=True)
    request: Preemption | None = asked.first()
    if request is None:
        return None
    asked.exclude(pk=request.pk).update(ended_at=now)
    last: Attempt | None = workload.attempts.order_by("-number").first()
    request.ended_at = now
    request.lost_seconds = last.lost_seconds if last else 0
    request.save(update_fields=["ended_at", "lost_seconds"])
    return request


def unmet() -> list[Workload]:
    """Workloads with an open preemption request that have not begun to stop: their wake-up may be lost."""
    asked = Workload.objects.filter(pk__in=evictions.open_requests().values("workload"))
    return list(asked.filter(phase__in=HOLDS_CLAIM - {Phase.STOPPING}))


def take_back_headroom(endpoint: Workload, *, firm_units: int, now: datetime) -> int:
    """Reclaim the headroom that the endpoint's scaler needs for `firm_units`: preempt the runs that borrow it.

    Returns the units that are still lent; the endpoint's pods start when those runs have left.
    """
    with transaction.atomic():
        short = services.set_firm(workload=endpoint, units=firm_units, now=now)
        if short == 0 or endpoint.flavor is None:
            return 0
        snapshot = snapshots.pool_snapshot_of(
            flavor=endpoint.flavor, capacity_type=endpoint.capacity_type, now=now
        )
        mine = [holder for holder in snapshot.holders if holder.team == endpoint.team.slug]
        victims = reclaim_headroom(mine, short)
        ask_to_leave(victims=victims, preemptor=endpoint, now=now)
    return short
