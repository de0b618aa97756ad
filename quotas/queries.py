"""Questions about quotas; nothing here writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db import connection
from django.db.models import (
    Avg,
    Case,
    Exists,
    F,
    FloatField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
    Value,
    When,
)
from django.db.models.functions import Coalesce, JSONObject

from policy.arithmetic import Tree
from policy.pool_snapshot import Account
from quotas.models import (
    Claim,
    ClaimPurpose,
    ClaimState,
    CohortUsage,
    Decision,
    Preemption,
    Quota,
    StartEstimate,
    TeamPolicy,
)
from teams.models import Team
from teams.permissions import visible_teams
from workloads.models import ResourceFlavor, Workload
from workloads.nodes.capacity import foreign_units
from workloads.placement import NodeFacts, matching_nodes
from workloads.states import HOLDS_CLAIM, Desired, Phase

HIT_RATE_DAYS = 30


def policy_of(team: Team) -> TeamPolicy:
    """The team's rules; the defaults, unsaved, where none was ever changed."""
    return TeamPolicy.objects.filter(team=team).first() or TeamPolicy(team=team)


def holds_surge(workload: Workload) -> bool:
    """Whether it holds units on top of its own, for a rollout."""
    claims = Claim.objects.filter(workload=workload, purpose=ClaimPurpose.SURGE)
    return claims.exclude(state=ClaimState.RELEASED).exists()


def held_claim(workload: Workload) -> Claim | None:
    """Its own open claim, without what a rollout takes on top."""
    claims = Claim.objects.filter(workload=workload, purpose=ClaimPurpose.WORKLOAD)
    return claims.exclude(state=ClaimState.RELEASED).first()


def nameable_teams(user: Any) -> frozenset[str]:
    """Slugs that the user may read: of teams that they may see, and of teams that show their name to all."""
    shown = TeamPolicy.objects.filter(shows_name=True).values("team")
    teams = Team.objects.filter(Q(pk__in=visible_teams(user).values("pk")) | Q(pk__in=shown))
    return frozenset(teams.values_list("slug", flat=True))


@dataclass(frozen=True)
class QuotaFigures:
    """A quota and what follows from its cohort, in units of the flavor.

    `available` is what one claim may still take, borrowing included; negative after a cut below use. `over_use` is
    what is used above the ceiling. `pending` is what the team's queue waits for, `held` what is held of the
    flavor, as `held_of` reads it.
    """

    quota: Quota
    cohort: str
    borrowed: int
    lent: int
    pending: int
    ceiling: int
    available: int
    over_use: int
    held: Mapping[str, Any]


def team_quotas(team: Team) -> list[QuotaFigures]:
    """Every quota of the team, with its figures; in one query.

    `lent` shares out what is borrowed: each team that lends carries a part of all that teams of the tree use above their
    nominal quotas, in proportion to what it lends and leaves unused.
    """
    figures = []
    for quota, tree, name in _trees(team, _with_what_it_holds(_seen_by(team), team)):
        figures.append(
            QuotaFigures(
                quota=quota,
                cohort=quota.cohort_name,
                borrowed=tree.borrowed(name),
                lent=_lent(tree, name),
                pending=quota.pending,
                ceiling=quota.ceiling,
                available=tree.available(name),
                over_use=max(0, quota.used - quota.ceiling),
                held=quota.held,
            )
        )
    return figures


def available_to(team: Team) -> list[tuple[Quota, int]]:
    """Every quota of the team, and what one claim may take of it as in its figures, for a fraction of their price; in one
    query.
    """
    return [(quota, tree.available(name)) for quota, tree, name in _trees(team, _seen_by(team))]


def _trees(team: Team, seen: Iterable[Any]) -> Iterator[tuple[Any, Tree, str]]:
    """Each quota of the team with the tree that it stands in, and its name there."""
    rows = list(seen)
    beside = _members(rows)
    for quota in rows:
        if quota.team_id == team.pk:
            pool = (quota.flavor_id, quota.capacity_type)
            members = {member.pk: member for member in (*beside.get(pool, []), quota)}
            usages = [_Usage(**usage) for usage in quota.usages or ()]
            yield quota, Tree(_accounts(members.values(), usages)), f"quota:{quota.pk}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """Units that ready nodes have of a flavor, and those of them that are free: of all, and of each capacity type, of which
    `largest_of` are the units of the largest node.

    For lists of flavors; the waiting card computes more exactly, on which node what fits.
    """

    units: int
    free: int
    free_of: Mapping[str, int]
    largest_of: Mapping[str, int]


def held_of(flavor: str, resource: str) -> JSONObject:
    """What is held of a flavor, read with a row that has it as `flavor` and its resource as `resource`; for `stock_of`.

    Of workloads by the counters of all teams, and of pods that the portal did not make, as they were last observed.
    """
    claims = Quota.objects.filter(flavor=OuterRef(flavor)).order_by().values("capacity_type")
    claims = claims.annotate(total=Sum(F("used") + F("lent_headroom")))
    return JSONObject(
        claims=ArraySubquery(claims.values(claim=JSONObject(capacity_type="capacity_type", units="total"))),
        foreign=foreign_units(resource),
    )


def stock_of(flavor: ResourceFlavor, *, nodes: Sequence[NodeFacts], held: Mapping[str, Any]) -> Stock:
    """Of the nodes that take pods now; `held` is what `held_of` reads.

    A node may serve several capacity types: of one of them never more is free than of all.
    """
    facts = flavor.facts
    usable = [node for node in nodes if node.ready and not node.unschedulable]
    serving = {kind: matching_nodes(facts, kind, usable) for kind in facts.capacity}
    any_kind = list({node.name: node for there in serving.values() for node in there}.values())
    claimed = {claim["capacity_type"]: claim["units"] for claim in held["claims"]}

    def left(there: Sequence[NodeFacts], claims: int) -> int:
        names = {node.name for node in there}
        foreign: int = sum(pod["units"] for pod in held["foreign"] if pod["node"] in names)
        units: int = sum(node.allocatable[facts.resource] for node in there)
        return max(0, units - claims - foreign)

    free = left(any_kind, sum(claimed.values()))
    return Stock(
        units=sum(node.allocatable[facts.resource] for node in any_kind),
        free=free,
        free_of={kind: min(free, left(there, claimed.get(kind, 0))) for kind, there in serving.items()},
        largest_of={
            kind: max((node.allocatable[facts.resource] for node in there), default=0)
            for kind, there in serving.items()
        },
    )


def _seen_by(team: Team) -> QuerySet[Any]:
    """The team's quotas; if the team is in a cohort, with what cohorts count, and beside them the quotas of the same flavors
    of all teams in cohorts.
    """
    mine = Q(team=team)
    in_a_cohort = ~Q(team__cohort_name="")
    flavors = Quota.objects.filter(mine, in_a_cohort).values("flavor")
    rows = Quota.objects.annotate(
        cohort_name=F("team__cohort_name"), usages=Case(When(mine & in_a_cohort, then=_usages()))
    )
    return rows.filter(mine | (Q(flavor__in=flavors) & in_a_cohort))


def _with_what_it_holds(rows: QuerySet[Any], team: Team) -> QuerySet[Any]:
    """The same, those of the team also with what its queue waits for and what is held of their flavors."""
    queue = Workload.objects.filter(
        team=team, phase=Phase.QUEUED.value, desired=Desired.RUN.value, flavor=OuterRef("flavor")
    )
    waiting = queue.filter(capacity_type=OuterRef("capacity_type")).order_by().values("team")
    units = Subquery(waiting.annotate(units=Sum("units")).values("units"))

    def of_mine(value: Any) -> Case:
        return Case(When(team=team, then=value))

    held: QuerySet[Any] = rows.select_related("team", "flavor").annotate(
        pending=of_mine(Coalesce(units, 0)), held=of_mine(held_of("flavor", "flavor__resource"))
    )
    return held


def _members(quotas: Sequence[Any]) -> dict[Any, list[Any]]:
    """The quotas of teams in cohorts, by pool."""
    by_pool: dict[Any, list[Any]] = {}
    for quota in quotas:
        if quota.cohort_name:
            by_pool.setdefault((quota.flavor_id, quota.capacity_type), []).append(quota)
    return by_pool


@dataclass(frozen=True, slots=True)
class _Usage:
    """What one cohort counts of a pool, as CohortUsage has it."""

    cohort: int
    parent: int | None
    name: str
    guaranteed: int
    local: int
    ceiling: int
    used: int


def _usages() -> ArraySubquery:
    """What cohorts count of the pool of a quota; to be read with its row."""
    same = CohortUsage.objects.filter(flavor=OuterRef("flavor"), capacity_type=OuterRef("capacity_type"))
    columns = {name: name for name in ("guaranteed", "local", "ceiling", "used")}
    of_cohort = {"cohort": "cohort_id", "parent": "cohort__parent_id", "name": "cohort__name"}
    return ArraySubquery(same.order_by("cohort__name").values(usage=JSONObject(**of_cohort, **columns)))


def _accounts(quotas: Any, usages: Sequence[_Usage]) -> list[Account]:
    names = {usage.name: f"cohort:{usage.cohort}" for usage in usages}
    ids = {usage.cohort: names[usage.name] for usage in usages}
    accounts = [
        Account(
            ids[usage.cohort],
            ids.get(usage.parent or 0),
            usage.guaranteed,
            usage.local,
            usage.ceiling,
            usage.used,
        )
        for usage in usages
    ]
    return accounts + [
        Account(
            f"quota:{quota.pk}",
            names.get(quota.cohort_name),
            quota.nominal,
            quota.local,
            quota.ceiling,
            quota.used,
        )
        for quota in sorted(quotas, key=lambda row: row.pk)
    ]


def _lent(tree: Tree, name: str) -> int:
    own = tree.place(name)
    if tree.parent[own] < 0:
        return 0
    teams = [
        place
        for other, place in tree.index.items()
        if other.startswith("quota:") and tree.root[place] == tree.root[own]
    ]
    idle = {
        place: max(0, tree.guaranteed[place] - max(tree.used[place], tree.local[place])) for place in teams
    }
    borrowed = sum(tree.borrowed_at(place) for place in teams)
    return _shared_out(borrowed, idle)[own]


def _shared_out(units: int, among: Mapping[int, int]) -> dict[int, int]:
    """Whole parts in proportion to the sizes, none above its size; the largest remainders are rounded up."""
    whole = sum(among.values())
    units = min(units, whole)
    parts = {key: units * size // whole if whole else 0 for key, size in among.items()}
    left = units - sum(parts.values())
    for key in sorted(among, key=lambda key: (-(units * among[key] % whole) if whole else 0, key))[:left]:
        parts[key] += 1
    return parts


@dataclass(frozen=True)
class Leaks:
    """How often claims, workloads and counters contradict each other; all 0 while all is well."""

    claims_without_workload: int
    workloads_without_claim: int
    counters_off: int


# One statement sees one moment: claims that come and go meanwhile are no leaks.
_COUNTERS_OFF = """
WITH held AS (
    SELECT quota_id, sum(units) FILTER (WHERE NOT lent) AS used, sum(headroom) AS headroom,
        sum(units) FILTER (WHERE lent) AS lent
    FROM quotas_claim WHERE state <> 'released' AND quota_id IS NOT NULL GROUP BY quota_id
), overflows AS (
    SELECT cohort.id AS cohort_id, flavor_id, capacity_type, greatest(0, used - local) AS units
    FROM quotas_quota AS quota
    JOIN teams_team AS team ON team.id = team_id
    JOIN quotas_cohort AS cohort ON cohort.name = team.cohort_name
    UNION ALL
    SELECT cohort.parent_id, flavor_id, capacity_type, greatest(0, used - local)
    FROM quotas_cohortusage AS usage JOIN quotas_cohort AS cohort ON cohort.id = usage.cohort_id
    WHERE cohort.parent_id IS NOT NULL
), counted AS (
    SELECT cohort_id, flavor_id, capacity_type, sum(units) AS used FROM overflows GROUP BY 1, 2, 3
)
SELECT (
    SELECT count(*) FROM quotas_quota AS quota LEFT JOIN held ON quota_id = quota.id
    WHERE quota.used <> coalesce(held.used, 0) OR quota.headroom <> coalesce(held.headroom, 0)
        OR lent_headroom <> coalesce(lent, 0)
) + (
    SELECT count(*)
    FROM quotas_cohortusage AS usage FULL JOIN counted USING (cohort_id, flavor_id, capacity_type)
    WHERE coalesce(usage.used, 0) <> coalesce(counted.used, 0)
)
"""


def leaks() -> Leaks:
    """Inconsistencies, if any: open claims of workloads that hold nothing, workloads that run
    without a claim, and quotas and cohorts whose counters are not the sum of what is claimed.
    """
    holding = [phase.value for phase in HOLDS_CLAIM]
    still = Claim.objects.exclude(state=ClaimState.RELEASED)
    own = still.filter(workload=OuterRef("pk"), purpose=ClaimPurpose.WORKLOAD)
    running = Workload.objects.filter(phase__in=holding)
    with connection.cursor() as cursor:
        cursor.execute(_COUNTERS_OFF)
        ((counters_off,),) = cursor.fetchall()
    return Leaks(
        claims_without_workload=still.exclude(workload__phase__in=holding).count(),
        workloads_without_claim=running.exclude(Exists(own)).count(),
        counters_off=counters_off,
    )


def hit_rate(*, team: Team | None = None, now: datetime) -> float | None:
    """The share of estimates whose workload started by its p90, of those that were settled in the last 30 days.

    A workload that left the queue after its p90 without a start was promised too much as well. None while there is no
    such estimate, of this team or at all.
    """
    rate: float | None = _settled(now, team).aggregate(rate=_RATE)["rate"]
    return rate


@dataclass(frozen=True)
class Past:
    """History for a card: how often estimates held, and the last decision about the workload."""

    hit_rate: float | None
    decision: UUID | None
    """The public id of its newest receipt."""
    preempted: Preemption | None
    """The last time that it had to leave for another workload."""


def past_of(workload: Workload, *, now: datetime) -> Past:
    """The past of a waiting workload; one query."""
    rate = _settled(now, None).order_by().values(anyone=Value(1)).annotate(rate=_RATE).values("rate")
    decided = Decision.objects.filter(workload=OuterRef("pk")).order_by("-id").values("public_id")[:1]
    left = Preemption.objects.filter(workload=OuterRef("pk"))
    last = left.values(facts=JSONObject(**{name: name for name in _PREEMPTION_FIELDS}))[:1]
    columns = Workload.objects.filter(pk=workload.pk).values_list(
        Subquery(rate), Subquery(decided), Subquery(last)
    )
    share, decision, facts = columns.get()
    return Past(share, decision, None if facts is None else _preemption(facts))


_PREEMPTION_FIELDS = ("cause", "message", "lost_seconds", "at", "ended_at")
_RATE = Avg(Case(When(hit=True, then=Value(1.0)), default=Value(0.0), output_field=FloatField()))


def _preemption(facts: Mapping[str, Any]) -> Preemption:
    times = {
        name: datetime.fromisoformat(facts[name]) if facts[name] else None for name in ("at", "ended_at")
    }
    return Preemption(**{**facts, **times})


def _settled(now: datetime, team: Team | None) -> QuerySet[StartEstimate]:
    settled = StartEstimate.objects.alias(settled_at=Coalesce("started_at", "p90"))
    past = settled.filter(
        settled_at__gt=now - timedelta(days=HIT_RATE_DAYS), settled_at__lte=now, hit__isnull=False
    )
    return past if team is None else past.filter(team=team)
