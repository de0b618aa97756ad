"""A queued workload, or one that a user may submit, as the policy sees it."""

from __future__ import annotations

from datetime import datetime

from policy.pool_snapshot import NEW, Amounts, Beside, Waiter
from workloads.models import Workload
from workloads.states import PRIORITY_VALUE, Priority

LAST = 2**62


def waiter_of(workload: Workload) -> Waiter:
    """The queued workload as the policy sees it."""
    left = left_of(workload.time_limit_seconds, workload.used_seconds)
    return Waiter(
        id=str(workload.public_id),
        team=workload.team.slug,
        owner=str(workload.owner_id),
        noun=workload.own_kind.noun,
        units=workload.units,
        units_each=workload.units_each,
        pods=workload.pod_count,
        priority=PRIORITY_VALUE[Priority(workload.priority)],
        queued_at=int(workload.queued_at.timestamp()),
        sequence=workload.pk,
        seconds=left,
        expected_seconds=left,
        preemptible=workload.preemptible,
        beside=workload.beside,
        most=workload.most,
    )


def new_waiter(
    *,
    team: str,
    owner_id: int,
    noun: str,
    units: int,
    units_each: int,
    pods: int,
    priority: Priority,
    seconds: int | None,
    preemptible: bool,
    beside: Beside = (),
    most: Amounts = (),
    now: datetime,
) -> Waiter:
    """A workload that would be submitted now: behind all others of the same standing."""
    return Waiter(
        id=NEW,
        team=team,
        owner=str(owner_id),
        noun=noun,
        units=units,
        units_each=units_each,
        pods=pods,
        priority=PRIORITY_VALUE[priority],
        queued_at=int(now.timestamp()),
        sequence=LAST,
        seconds=seconds,
        expected_seconds=seconds,
        preemptible=preemptible,
        beside=beside,
        most=most,
    )


def left_of(limit: int | None, used: int) -> int | None:
    """Seconds that are left of a time limit, at least one; None for no limit."""
    return None if limit is None else max(1, limit - used)
