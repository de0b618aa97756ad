"""What a team may hold of CPU, memory, ephemeral storage, pods and volumes: its own ceilings, or the platform's.

Amounts are in the order of `policy.pool_snapshot.Amounts`: millicores, bytes, bytes, pods. What is held is the sum of open
claims, so that no counter can differ from them; who adds to it holds the team's row until the transaction ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from django.db.models import Q, Subquery, Sum
from django.db.models.functions import JSONObject

from foundation.models import PlatformSettings
from policy.ceilings import told
from quotas.counters import mark_due, rows
from quotas.errors import QuotaExceeded
from quotas.models import Claim, ClaimState, TeamPolicy
from teams.models import Team
from workloads.models import Workload
from workloads.observations import storage_by_namespace, storage_in
from workloads.podrequests import CPU, MEMORY, PODS, STORAGE, quantity_of
from workloads.services import wake
from workloads.states import Desired, Phase, Reason

CEILING_MAX = 1_000_000_000
GIB = 1024**3
VOLUMES, VOLUME_STORAGE = "persistentvolumeclaims", "storage"


@dataclass(frozen=True)
class Ceiling:
    """A column of a team's policy and of the platform's settings; `resource` is Kubernetes' name, `each` an amount of one."""

    column: str
    resource: str
    label: str
    each: int = 1


CEILINGS = (
    Ceiling("ceiling_cpus", CPU, "CPU cores", 1000),
    Ceiling("ceiling_memory_gib", MEMORY, "Memory, GiB", GIB),
    Ceiling("ceiling_ephemeral_storage_gib", STORAGE, "Ephemeral storage, GiB", GIB),
    Ceiling("ceiling_pods", PODS, "Pods"),
    Ceiling("ceiling_volumes", VOLUMES, "Volumes"),
    Ceiling("ceiling_volume_storage_gib", VOLUME_STORAGE, "Storage of volumes, GiB", GIB),
)
CLAIMED = CEILINGS[:4]
"""What claims hold; volumes are counted by the rows of what is in the cluster."""
_UNIT = {ceiling.resource: PODS if ceiling.each == 1 else ceiling.resource for ceiling in CEILINGS}
"""Of what `quantity_of` writes it."""
COLUMNS = tuple(ceiling.column for ceiling in CEILINGS)

_JSON = ", ".join(ceiling.column for ceiling in CLAIMED)
OWN = f"json_build_array({_JSON})"
"""SQL for the columns of CLAIMED of the row of a team's policy, or of the platform's settings."""
PLATFORM = f"(SELECT {OWN} FROM foundation_platformsettings WHERE id = 1)"  # noqa: S608 (the parts are constants)
HELD = "json_build_array(coalesce(sum(cpu), 0), coalesce(sum(memory), 0), coalesce(sum(storage), 0), coalesce(sum(pods), 0))"
"""SQL for what open claims hold of these together."""


def in_force(
    own: Sequence[int | None] | None, platform: Sequence[int | None] | None, of: Sequence[Ceiling] = CLAIMED
) -> tuple[int | None, ...]:
    """The ceilings as amounts, None for none: the team's own, and the platform's where it has none of its own."""
    if platform is None:
        platform = values_of(PlatformSettings(), of)
    together = zip(own or (None,) * len(of), platform, of, strict=True)
    chosen = ((mine if mine is not None else others, ceiling) for mine, others, ceiling in together)
    return tuple(None if value is None else value * ceiling.each for value, ceiling in chosen)


def values_of(row: TeamPolicy | PlatformSettings, of: Sequence[Ceiling] = CEILINGS) -> tuple[int | None, ...]:
    """The row's own values, in its units."""
    return tuple(getattr(row, ceiling.column) for ceiling in of)


def ceilings_of(teams: Iterable[Team]) -> Mapping[int, tuple[int | None, ...]]:
    """All CEILINGS in force as amounts, by the teams' primary keys; two queries."""
    platform = values_of(PlatformSettings.current())
    own = {
        row.team_id: values_of(row) for row in TeamPolicy.objects.filter(team__in=[team.pk for team in teams])
    }
    return MappingProxyType({team.pk: in_force(own.get(team.pk), platform, CEILINGS) for team in teams})


@dataclass(frozen=True)
class CeilingLine:
    """One of CEILINGS as people read it: `ceiling` is None for none, `own` whether it is the team's own."""

    resource: str
    label: str
    ceiling: str | None
    held: str
    own: bool


def ceiling_lines(policy: TeamPolicy) -> list[CeilingLine]:
    """All CEILINGS of the policy's team, with what it holds; one query."""
    return ceilings_seen(policy)[1]


def ceilings_seen(policy: TeamPolicy) -> tuple[PlatformSettings, list[CeilingLine]]:
    """The same behind the platform's settings, which the same query reads."""
    team = policy.team
    held_now = Claim.objects.exclude(state=ClaimState.RELEASED).filter(team=team).order_by().values("team")
    sums = JSONObject(**{name: Sum(name) for name in ("cpu", "memory", "storage", "pods")})
    row, claimed, volumes = Team.objects.values_list(
        PlatformSettings.as_json(),
        Subquery(held_now.annotate(sums=sums).values("sums")),
        Subquery(storage_in(team.namespace_name)),
    ).get(pk=team.pk)
    settings = PlatformSettings.of_json(row)
    return settings, _lines(policy, settings, {**(claimed or {}), **(volumes or {})})


def _lines(
    policy: TeamPolicy, settings: PlatformSettings, held_by_name: Mapping[str, int]
) -> list[CeilingLine]:
    own = values_of(policy)
    most = in_force(own, values_of(settings), CEILINGS)
    names = ("cpu", "memory", "storage", "pods", "volumes", "bytes")
    held = [int(held_by_name.get(name) or 0) for name in names]
    return [
        CeilingLine(
            ceiling.resource,
            ceiling.label,
            None if amount is None else quantity_of(_UNIT[ceiling.resource], amount),
            quantity_of(_UNIT[ceiling.resource], taken),
            value is not None,
        )
        for ceiling, value, amount, taken in zip(CEILINGS, own, most, held, strict=True)
    ]


def volumes_of(teams: Iterable[Team]) -> dict[str, tuple[int, int]]:
    """How many volumes there are in the teams' namespaces, by whomever they were made, and their bytes, by namespace."""
    return storage_by_namespace([team.namespace_name for team in teams])


_HELD_OF = f"""
SELECT team_id, {HELD} FROM quotas_claim WHERE state <> 'released' AND team_id = ANY(%(teams)s) GROUP BY team_id
"""  # noqa: S608 (the parts are constants)


def held_of(teams: Iterable[Team]) -> dict[int, list[int]]:
    """What the open claims of these teams hold, by their primary keys; teams without a claim are left out."""
    return {
        team: [int(amount) for amount in held]
        for team, held in rows(_HELD_OF, {"teams": [team.pk for team in teams]})
    }


_LOCK_TEAMS = """
SELECT id FROM teams_team WHERE id IN (SELECT team_id FROM workloads_workload WHERE id = ANY(%(workloads)s))
ORDER BY id FOR NO KEY UPDATE
"""
# What was added: claims that were open before are no news, whatever they hold.
_ABOVE = f"""
SELECT team.slug, {OWN}, {PLATFORM}, held.amounts, held.added
FROM teams_team AS team LEFT JOIN quotas_teampolicy AS own ON own.team_id = team.id
CROSS JOIN LATERAL (
    SELECT {HELD} AS amounts, json_build_array(sum(cpu) FILTER (WHERE fresh), sum(memory) FILTER (WHERE fresh),
        sum(storage) FILTER (WHERE fresh), sum(pods) FILTER (WHERE fresh)) AS added
    FROM (SELECT *, reserved_at = %(now)s AND workload_id = ANY(%(workloads)s) AS fresh FROM quotas_claim
          WHERE team_id = team.id AND state <> 'released') AS open
) AS held
WHERE team.id = ANY(%(teams)s)
"""  # noqa: S608 (the parts are constants)


def lock_teams(workload_ids: Iterable[int]) -> list[int]:
    """Hold the rows of the workloads' teams until the transaction ends, before any quota; their primary keys."""
    return [key for (key,) in rows(_LOCK_TEAMS, {"workloads": list(workload_ids)})]


def hold_team(team: Team) -> None:
    """Hold the team's row until the transaction ends: what is held below its ceilings grows by nobody else meanwhile."""
    Team.objects.select_for_update(no_key=True).get(pk=team.pk)


def check_ceilings(team_ids: Sequence[int], *, workload_ids: Iterable[int], now: datetime) -> None:
    """Raise QuotaExceeded where claims that were just made for these workloads bring a team, whose row is held, above a
    ceiling.
    """
    values = {"teams": list(team_ids), "workloads": list(workload_ids), "now": now}
    for slug, own, platform, held, added in rows(_ABOVE, values):
        check_amounts(slug, in_force(own, platform), held, added)


def check_amounts(
    slug: str, ceilings: Sequence[int | None], held: Sequence[int], added: Sequence[int | None]
) -> None:
    """Raise QuotaExceeded where `held`, which has `added` in it, is above a ceiling."""
    for number, (ceiling, amount, more) in enumerate(zip(ceilings, held, added, strict=True)):
        if ceiling is not None and more and amount > ceiling:
            raise QuotaExceeded(
                f"{told(number, int(more))} more do not fit: team {slug} may hold {told(number, ceiling)} and would hold "
                f"{told(number, int(amount))}."
            )


def wake_waiting(team_id: int, *, now: datetime) -> None:
    """Make due what waits for the team's ceilings: its pools, and what asks for no GPU. Outside any transaction: where this
    is lost, the next look of each finds it within a minute.
    """
    waiting = Workload.objects.filter(
        team=team_id,
        phase=Phase.QUEUED.value,
        desired=Desired.RUN.value,
    ).filter(Q(reason=Reason.WAITING_FOR_TEAM_CEILING.value) | Q(flavor=None))
    found: set[tuple[Any, str]] = set(waiting.order_by().values_list("flavor", "capacity_type").distinct())
    for flavor_id, capacity_type in sorted(key for key in found if key[0] is not None):
        mark_due(flavor_id=flavor_id, capacity_type=capacity_type, now=now)
    if any(flavor_id is None for flavor_id, _ in found):
        first = waiting.filter(flavor=None).order_by("queued_at", "pk").values_list("pk", flat=True)[:1]
        wake(workload_ids=list(first), now=now)
