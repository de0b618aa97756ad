"""Admission: claim what the workload needs, or say why not. The interface that another engine would implement."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from django.db import transaction

from controller import wakeups
from controller.adapters import adapter_for
from quotas import queries, services
from quotas.errors import QuotaExceeded
from quotas.models import ClaimPurpose
from quotas.policy import Judgement, Outcome, judge
from workloads.models import Workload
from workloads.services import hold, transition
from workloads.states import Phase, Priority, Reason

ADMISSION = "admission"
HINTS_MAX = 10


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

    The claim, the counter and the phase change in one transaction, or none of them does. The quota's row is locked
    first: who holds it may wake, and so update, every workload that waits for it.
    """
    with transaction.atomic():
        quota = None
        if workload.flavor is not None and workload.units:
            quota = services.lock_quota(
                team=workload.team, flavor=workload.flavor, capacity_type=workload.capacity_type
            )
        hold(workload)
        judgement = explain(workload, now=now)
        if judgement.admitted and quota is not None:
            services.claim(workload=workload, quota=quota, units=workload.units, now=now)
        phase = Phase.ADMITTED if judgement.admitted else Phase.QUEUED
        in_line = Reason(workload.reason) not in queries.OUT_OF_LINE
        transition(
            workload, to=phase, reason=_reason(judgement), message=judgement.message, actor=ADMISSION, now=now
        )
        if in_line and (judgement.admitted or _reason(judgement) in queries.OUT_OF_LINE):
            left_line(workload, now=now)
    return judgement


def left_line(workload: Workload, *, now: datetime) -> None:
    """Once this commits, let the first in line be looked at: this workload is no longer before it.

    Not in this transaction, which holds a row: a release that wakes the same line would meet it there.
    """
    transaction.on_commit(partial(_wake_first, workload, now))


def _wake_first(workload: Workload, now: datetime) -> None:
    if workload.flavor is None:
        return
    first = queries.queue(
        team=workload.team, flavor=workload.flavor, capacity_type=workload.capacity_type, now=now
    ).first()
    if first is not None:
        wakeups.wake_workload(first, now=now)


def release(workload: Workload, *, now: datetime) -> bool:
    """Give the claim back and hint the workers at who is next; True if there was one."""
    released = services.release(workload=workload, now=now)
    if released and workload.flavor is not None:
        line = queries.queue(
            team=workload.team, flavor=workload.flavor, capacity_type=workload.capacity_type, now=now
        )
        for public_id in line.values_list("public_id", flat=True)[:HINTS_MAX]:
            transaction.on_commit(partial(wakeups.send, public_id))
    return released


def admit_surge(workload: Workload, *, units: int, now: datetime) -> Judgement:
    """Claim what a rollout needs on top while it lasts: without it the pods of the old revision stay as they are."""
    if units == 0 or workload.flavor is None:
        return Judgement(Outcome.ADMIT, Reason.UPDATING, "This rollout needs nothing on top.")
    what = f"{units} more {workload.flavor.name} ({workload.capacity_type})"
    with transaction.atomic():
        quota = services.lock_quota(
            team=workload.team, flavor=workload.flavor, capacity_type=workload.capacity_type
        )
        hold(workload)
        if quota is None:
            return Judgement(
                Outcome.WAIT, Reason.UPDATING, f"The new revision waits: there is no quota for {what}."
            )
        try:
            services.claim(workload=workload, quota=quota, units=units, purpose=ClaimPurpose.SURGE, now=now)
        except QuotaExceeded:
            message = f"The new revision waits: its rollout needs {what}; {quota.used} of {quota.nominal} are in use."
            return Judgement(Outcome.WAIT, Reason.UPDATING, message)
    return Judgement(Outcome.ADMIT, Reason.UPDATING, f"The rollout may use {what}.")


def release_surge(workload: Workload, *, now: datetime) -> bool:
    """The rollout is over; True if it held something on top."""
    return services.release(workload=workload, purpose=ClaimPurpose.SURGE, now=now)


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
