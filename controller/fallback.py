"""Spot first: who asked for it and gets no spot capacity in time waits for on-demand from then on."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Max

from controller import admission
from foundation.models import PlatformSettings
from quotas.counters import mark_due
from quotas.models import Quota
from workloads import services
from workloads.models import Workload
from workloads.states import Phase, Reason

ACTOR = "spot-fallback"


def falls_back_at(workload: Workload) -> datetime | None:
    """When it gives up on spot; None for what did not ask for that, or waits for on-demand already.

    An attempt for which no node came does not begin the wait anew; one that ran does.
    """
    if not workload.fallback_capacity:
        return None
    ran = workload.attempts.filter(started_at__isnull=False).aggregate(last=Max("ended_at"))["last"]
    since = max(workload.queued_at, ran) if ran is not None else workload.queued_at
    return since + timedelta(seconds=PlatformSettings.current().spot_fallback_seconds)


def fall_back(workload: Workload, *, now: datetime) -> bool:
    """Move what waits into the line of its other capacity type; True if it went. It keeps its queue time.

    It stays where the team has no quota of that: there it would wait for ever.
    """
    flavor, spot, other = workload.flavor, workload.capacity_type, workload.fallback_capacity
    if flavor is None or workload.phase != Phase.QUEUED.value:
        return False
    if not Quota.objects.filter(team=workload.team, flavor=flavor, capacity_type=other).exists():
        return False
    with transaction.atomic():
        services.hold(workload)
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
        admission.hint_of(flavor, spot)
    return True
