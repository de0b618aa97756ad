"""Spot fallback: a workload that asked for it and gets no spot capacity in time is queued for on-demand instead."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Max

from controller.admission import scheduler
from foundation.models import PlatformSettings
from policy.judge import judge
from policy.pool_snapshot import NEW
from policy.verdicts import Outcome
from quotas import snapshots
from quotas.counters import mark_due
from quotas.waiters import waiter_of
from workloads import locks, services
from workloads.models import ResourceFlavor, Workload
from workloads.states import OUT_OF_REACH, Phase, Reason

ACTOR = "spot-fallback"


def falls_back_at(workload: Workload) -> datetime | None:
    """The time at which the workload gives up on spot; None if it did not ask for that or is on on-demand already.

    An attempt that got no node does not restart the wait; one that ran does.
    """
    if not workload.fallback_capacity:
        return None
    ran = workload.attempts.filter(started_at__isnull=False).aggregate(last=Max("ended_at"))["last"]
    since = max(workload.queued_at, ran) if ran is not None else workload.queued_at
    return since + timedelta(seconds=PlatformSettings.current().spot_fallback_seconds)


def fall_back(workload: Workload, *, now: datetime) -> bool:
    """Move a queued workload to the queue of its other capacity type; True if it was moved. It keeps its queue time.

    It stays if it can never start there (no quota, too little quota, or no node): it would wait forever.
    """
    flavor, spot, other = workload.flavor, workload.capacity_type, workload.fallback_capacity
    if flavor is None or workload.phase != Phase.QUEUED.value:
        return False
    if not _in_reach(workload, flavor, other, now):
        return False
    with transaction.atomic():
        locks.hold(workload)
        Workload.objects.filter(pk=workload.pk).update(capacity_type=other, fallback_capacity="")
        workload.capacity_type, workload.fallback_capacity = other, ""
        services.transition(
            workload,
            to=Phase.QUEUED,
            reason=Reason.PENDING_EVALUATION,
            message=f"No {spot} capacity in time: it waits for {other} from now on.",
            actor=ACTOR,
            now=now,
        )
        for capacity_type in sorted((spot, other)):
            mark_due(flavor_id=flavor.pk, capacity_type=capacity_type, now=now)
        scheduler.hint_of(flavor, spot)
    return True


def _in_reach(workload: Workload, flavor: ResourceFlavor, capacity_type: str, now: datetime) -> bool:
    """Whether the workload could ever start there, even after a long wait."""
    waiter = replace(waiter_of(workload), id=NEW)
    snapshot = snapshots.pool_snapshot_of(flavor=flavor, capacity_type=capacity_type, now=now, extra=waiter)
    verdict = judge(snapshot, waiter.id)
    return verdict.outcome is not Outcome.NEVER and verdict.reason not in OUT_OF_REACH
