"""Admission: claim what the workload needs, or say why not. The interface that another engine would implement."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from controller.adapters import adapter_for
from quotas import queries, services
from quotas.policy import Judgement, Outcome, judge
from workloads.models import Workload
from workloads.services import hold, transition
from workloads.states import Phase, Priority, Reason

ADMISSION = "admission"


def explain(workload: Workload, *, now: datetime) -> Judgement:
    """What `admit` would say now; changes nothing."""
    demand = adapter_for(workload.kind).demand(workload)
    supply = queries.supply_for(
        team=workload.team,
        flavor=workload.flavor,
        demand=demand,
        priority=Priority(workload.priority),
        workload=workload,
        now=now,
    )
    return judge(demand, supply)


def admit(workload: Workload, *, now: datetime) -> Judgement:
    """Judge the queued workload under the lock of its quota; an admitted one leaves with its claim.

    The claim, the counter and the phase change in one transaction, or none of them does.
    """
    with transaction.atomic():
        hold(workload)
        quota = None
        if workload.flavor is not None and workload.units:
            quota = services.lock_quota(
                team=workload.team, flavor=workload.flavor, capacity_type=workload.capacity_type
            )
        judgement = explain(workload, now=now)
        if judgement.admitted and quota is not None:
            services.claim(workload=workload, quota=quota, units=workload.units, now=now)
        phase = Phase.ADMITTED if judgement.admitted else Phase.QUEUED
        transition(
            workload, to=phase, reason=_reason(judgement), message=judgement.message, actor=ADMISSION, now=now
        )
    return judgement


def release(workload: Workload, *, now: datetime) -> bool:
    """Give the claim back; True if there was one."""
    return services.release(workload=workload, now=now)


def position(workload: Workload, *, now: datetime) -> int:
    """Place in the queue of its quota, 1 is first."""
    if workload.flavor is None:
        return 1
    demand = adapter_for(workload.kind).demand(workload)
    ahead = queries.ahead_of(
        workload,
        team=workload.team,
        demand=demand,
        flavor=workload.flavor,
        priority=Priority(workload.priority),
        now=now,
    )
    return len(ahead) + 1


def _reason(judgement: Judgement) -> Reason:
    if judgement.outcome is Outcome.NEVER:
        # Accepted once, so nodes or the quota have vanished since; it waits for them to come back.
        return Reason.NO_MATCHING_FLAVOR
    return judgement.reason
