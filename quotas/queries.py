"""Questions about quotas; nothing here writes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db.models import Case, IntegerField, Q, QuerySet, Value, When

from quotas.models import Quota
from quotas.policy import Demand, QuotaFacts, Supply, Waiter
from teams.models import Team
from workloads.models import NodeRecord, ResourceFlavor, Workload
from workloads.placement import NodeFacts
from workloads.states import PRIORITY_VALUE, Desired, Phase, Priority, Reason

OUT_OF_LINE = frozenset({Reason.EXCEEDS_MAX_QUOTA, Reason.NO_MATCHING_FLAVOR})

_RANK = Case(
    *[When(priority=name.value, then=Value(value)) for name, value in PRIORITY_VALUE.items()],
    output_field=IntegerField(),
)


def nodes() -> list[NodeFacts]:
    """Every node that was last observed to exist."""
    return [record.facts for record in NodeRecord.objects.filter(gone_at__isnull=True)]


def queue(*, team: Team, flavor: ResourceFlavor, capacity_type: str, now: datetime) -> QuerySet[Workload]:
    """Who waits for this quota, first in line first.

    Left out, because they must not block those behind them: who wants more than the quota will ever give or
    any node can hold, and who rests in a back-off.
    """
    resting = Q(reason=Reason.BACKOFF_WAITING.value, next_reconcile_at__gt=now)
    return (
        Workload.objects.filter(
            team=team, flavor=flavor, capacity_type=capacity_type, phase=Phase.QUEUED.value
        )
        .filter(desired=Desired.RUN.value)
        .exclude(reason__in=[reason.value for reason in OUT_OF_LINE])
        .exclude(resting)
        .order_by(_RANK.desc(), "queued_at", "id")
    )


def ahead_of(
    workload: Workload | None,
    *,
    team: Team,
    demand: Demand,
    flavor: ResourceFlavor,
    priority: Priority,
    now: datetime,
) -> list[Waiter]:
    """Waiters before this workload, or before a new one of that priority when `workload` is None."""
    higher = [each.value for each, value in PRIORITY_VALUE.items() if value > PRIORITY_VALUE[priority]]
    line = queue(team=team, flavor=flavor, capacity_type=demand.capacity_type, now=now)
    if workload is None:
        line = line.filter(priority__in=[*higher, priority.value])
    else:
        earlier = Q(queued_at__lt=workload.queued_at) | Q(queued_at=workload.queued_at, pk__lt=workload.pk)
        line = line.filter(Q(priority__in=higher) | Q(priority=priority.value) & earlier)
    return [Waiter(str(row.public_id), row.units) for row in line.only("public_id", "units")]


def supply_for(
    *,
    team: Team,
    flavor: ResourceFlavor | None,
    demand: Demand,
    priority: Priority,
    workload: Workload | None,
    now: datetime,
    known_nodes: Sequence[NodeFacts] | None = None,
) -> Supply:
    """What `quotas.policy.judge` looks at, read once."""
    if flavor is None:
        return Supply(quota=None, nodes=())
    observed = nodes() if known_nodes is None else known_nodes
    quota = Quota.objects.filter(team=team, flavor=flavor, capacity_type=demand.capacity_type).first()
    facts = QuotaFacts(nominal=quota.nominal, used=quota.used) if quota else None
    ahead = ahead_of(workload, team=team, demand=demand, flavor=flavor, priority=priority, now=now)
    return Supply(quota=facts, nodes=observed, ahead=ahead)
