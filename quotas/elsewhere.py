"""What a team holds outside of a pool: it counts below the team's ceilings, and is given back when it ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from django.db.models import F, OuterRef, Q, Subquery

from policy.ceilings import NUMBER
from policy.pool_snapshot import Holder, PoolSnapshot
from policy.verdicts import Verdict
from quotas.models import Claim, ClaimState
from workloads.models import Attempt
from workloads.states import PRIORITY_VALUE, Phase, Priority


def with_elsewhere(
    snapshot: PoolSnapshot, verdicts: Iterable[tuple[str, Verdict]], *, now: datetime
) -> PoolSnapshot:
    """The snapshot with what ends elsewhere of those teams, by slug, that wait for a ceiling: then it can be said when they
    start. One query, and none where nobody waits for one.
    """
    teams = {slug for slug, verdict in verdicts if verdict.rule in NUMBER}
    if not teams:
        return snapshot
    pool = Q(quota__flavor__name=snapshot.flavor.name, quota__capacity_type=snapshot.capacity_type)
    return replace(
        snapshot, holders=(*snapshot.holders, *_holders(teams, pool, snapshot.rules.grace_seconds, now))
    )


def holders_of(slug: str, *, grace_seconds: int, now: datetime) -> tuple[Holder, ...]:
    """All that the team holds, as it counts below its ceilings alone; one query."""
    return _holders({slug}, None, grace_seconds, now)


def _holders(teams: set[str], pool: Q | None, grace: int, now: datetime) -> tuple[Holder, ...]:
    claims = Claim.objects.exclude(state=ClaimState.RELEASED).filter(team__slug__in=teams)
    if pool is not None:
        claims = claims.exclude(pk__in=Claim.objects.filter(pool, team__slug__in=teams).values("pk"))
    began = Attempt.objects.filter(workload=OuterRef("workload"), ended_at__isnull=True).values("started_at")[
        :1
    ]
    rows = claims.select_related("workload").annotate(began=Subquery(began), slug=F("team__slug"))
    return tuple(_holder(claim, grace, now) for claim in rows.order_by("pk"))


def _holder(claim: Claim, grace: int, now: datetime) -> Holder:
    workload, began = claim.workload, claim.began  # type: ignore[attr-defined] # annotated above
    age = 0 if began is None else max(0, int((now - began).total_seconds()))
    limit = workload.time_limit_seconds
    left = None if limit is None else max(0, limit - workload.used_seconds - age)
    if workload.phase == Phase.STOPPING.value and workload.stopping_to != Phase.ADMITTED.value:
        left = grace if left is None else min(left, grace)
    return Holder(
        id=f"{workload.public_id}/{claim.pk}",
        team=claim.slug,  # type: ignore[attr-defined] # annotated above
        owner=str(workload.owner_id),
        noun=workload.own_kind.noun,
        units=0,
        units_each=0,
        priority=PRIORITY_VALUE[Priority(workload.priority)],
        preemptible=False,
        age_seconds=age,
        lost_seconds=0,
        ends_in=left,
        expected_in=left,
        most=claim.most,
    )
