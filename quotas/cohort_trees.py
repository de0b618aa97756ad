"""The trees of cohorts as rows: locked together, derived together, written together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import connection
from django.db.models import Q

from foundation.errors import Invalid
from policy.arithmetic import Derived, LimitNode, derive
from quotas.checks import LIMITS
from quotas.models import Cohort, CohortUsage, Quota
from teams.models import Team

PoolKey = tuple[int, str]
"""Id of the flavor, and the capacity type."""

QUOTA_FIELDS = (*LIMITS, "local", "ceiling", "grandfathered")
USAGE_FIELDS = (
    "borrowing_limit",
    "lending_limit",
    "guaranteed",
    "local",
    "ceiling",
    "used",
    "grandfathered",
)
UNITS_MAX = 2_000_000_000
"""Most units of a pool that the teams of one tree may be promised: what a counter of the database holds."""
_ONE_AT_A_TIME = 4_717_203_881_604_021


def one_at_a_time() -> None:
    """Until this transaction ends, no other transaction changes a limit, a cohort or its members.

    Only people do that, so it is rare; claims go on meanwhile, and wait only where quotas are locked.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_ONE_AT_A_TIME])


class CohortTree:
    """Locked rows of some trees in some pools. Change limits on them, then `settle`."""

    def __init__(
        self, cohorts: Mapping[int, Cohort], quotas: Iterable[Quota], usages: Iterable[CohortUsage]
    ) -> None:
        self.cohorts = cohorts
        self.quotas = {(quota.team_id, quota.flavor_id, quota.capacity_type): quota for quota in quotas}
        self.usages = {(usage.cohort_id, usage.flavor_id, usage.capacity_type): usage for usage in usages}
        self._read = {id(row): _values(row) for row in (*self.quotas.values(), *self.usages.values())}

    @property
    def pools(self) -> list[PoolKey]:
        return sorted({(key[1], key[2]) for key in (*self.quotas, *self.usages)})

    def quota(self, team_id: int, pool: PoolKey) -> Quota | None:
        return self.quotas.get((team_id, *pool))

    def usage(self, cohort_id: int, pool: PoolKey) -> CohortUsage:
        return self.usages[cohort_id, *pool]

    def remove(self, quota: Quota) -> None:
        """Delete one of the quotas; `settle` afterwards."""
        del self.quotas[quota.team_id, quota.flavor_id, quota.capacity_type]
        quota.delete()

    def settle(self) -> None:
        """Derive every account anew and write what has changed.

        A ceiling below use is legal from here on for as long as that use lasts. Raises Invalid for sums that no
        counter holds.
        """
        for pool in self.pools:
            self._derive(pool)
        _write(Quota, QUOTA_FIELDS, [quota for quota in self.quotas.values() if self._changed(quota)])
        _write(CohortUsage, USAGE_FIELDS, [usage for usage in self.usages.values() if self._changed(usage)])

    def _changed(self, row: Quota | CohortUsage) -> bool:
        return self._read[id(row)] != _values(row)

    def _derive(self, pool: PoolKey) -> None:
        quotas = [quota for key, quota in self.quotas.items() if key[1:] == pool]
        usages = [usage for key, usage in self.usages.items() if key[1:] == pool]
        names = {usage.cohort_id: f"cohort:{usage.cohort_id}" for usage in usages}
        by_name = {self.cohorts[cohort_id].name: cohort_id for cohort_id in names}
        nodes = [
            LimitNode(
                name=names[usage.cohort_id],
                parent=names.get(self.cohorts[usage.cohort_id].parent_id or 0),
                nominal=None,
                borrowing_limit=usage.borrowing_limit,
                lending_limit=usage.lending_limit,
            )
            for usage in usages
        ]
        nodes += [
            LimitNode(
                name=f"quota:{quota.pk}",
                parent=names.get(by_name.get(quota.team.cohort_name, 0)),
                nominal=quota.nominal,
                borrowing_limit=quota.borrowing_limit,
                lending_limit=quota.lending_limit,
                held=quota.used,
            )
            for quota in quotas
        ]
        derived = derive(nodes)
        for quota in quotas:
            _put(quota, derived[f"quota:{quota.pk}"])
        for usage in usages:
            result = derived[names[usage.cohort_id]]
            usage.guaranteed, usage.used = result.guaranteed, result.used
            _put(usage, result)


def lock_tree(
    *,
    team_ids: Iterable[int] = (),
    cohort_names: Iterable[str] = (),
    pools: Iterable[PoolKey] | None = None,
) -> CohortTree:
    """Lock the quotas of these teams and of all teams that share a tree of cohorts with them or with these cohorts.

    In `pools`, or in all where any of them has a quota. Call `one_at_a_time` first: then what is read here holds.
    """
    every = {cohort.pk: cohort for cohort in Cohort.objects.all()}
    teams = list(team_ids)
    names = {*cohort_names, *Team.objects.filter(pk__in=teams).values_list("cohort_name", flat=True)}
    depths = _trees(every, names)
    cohorts = {cohort_id: every[cohort_id] for cohort_id in depths}
    members = Q(team__in=teams) | Q(team__cohort_name__in=[cohort.name for cohort in cohorts.values()])
    rows = Quota.objects.select_for_update(no_key=True, of=("self",)).select_related("team", "flavor")
    wanted = None if pools is None else _in_pools(pools)
    quotas = list(rows.filter(members, wanted or Q()).order_by("pk"))
    return CohortTree(cohorts, quotas, _lock_usages(depths, quotas, wanted, pools))


def _lock_usages(
    depths: Mapping[int, int], quotas: Iterable[Quota], wanted: Q | None, pools: Iterable[PoolKey] | None
) -> list[CohortUsage]:
    """The usages of these cohorts, deepest first; made where a pool is new to them."""
    there = CohortUsage.objects.filter(wanted or Q(), cohort__in=depths)
    known = set(there.values_list("cohort_id", "flavor_id", "capacity_type"))
    keys = (
        {key[1:] for key in known}
        | {(quota.flavor_id, quota.capacity_type) for quota in quotas}
        | {*(pools or ())}
    )
    CohortUsage.objects.bulk_create(
        CohortUsage(cohort_id=cohort_id, flavor_id=flavor_id, capacity_type=capacity_type)
        for cohort_id in sorted(depths)
        for flavor_id, capacity_type in sorted(keys)
        if (cohort_id, flavor_id, capacity_type) not in known
    )
    locked: list[CohortUsage] = []
    for depth in sorted(set(depths.values()), reverse=True):
        level = [cohort_id for cohort_id, its in depths.items() if its == depth]
        rows = CohortUsage.objects.select_for_update(no_key=True).filter(wanted or Q(), cohort__in=level)
        locked += rows.order_by("pk")
    return locked


def _trees(every: Mapping[int, Cohort], names: Iterable[str]) -> dict[int, int]:
    """All cohorts of the trees that these names are in, with how far below their root they are."""
    paths: dict[int, list[int]] = {}
    for cohort_id in every:
        path, above = [cohort_id], every[cohort_id].parent_id
        while above is not None and above not in path:
            path.append(above)
            above = every[above].parent_id
        paths[cohort_id] = path
    wanted = set(names)
    roots = {path[-1] for cohort_id, path in paths.items() if every[cohort_id].name in wanted}
    return {cohort_id: len(path) - 1 for cohort_id, path in paths.items() if path[-1] in roots}


def _in_pools(pools: Iterable[PoolKey]) -> Q:
    chosen = Q(pk__in=[])
    for flavor_id, capacity_type in pools:
        chosen |= Q(flavor=flavor_id, capacity_type=capacity_type)
    return chosen


def _put(row: Quota | CohortUsage, derived: Derived) -> None:
    if max(derived.guaranteed, derived.ceiling) > UNITS_MAX:
        message = f"The teams of one cohort may be promised {UNITS_MAX} units in all."
        raise Invalid.of_field("nominal", message, code="out_of_range")
    row.local, row.ceiling = derived.local, derived.ceiling
    row.grandfathered = derived.used if derived.used > derived.ceiling else 0


def _values(row: Any) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in (QUOTA_FIELDS if isinstance(row, Quota) else USAGE_FIELDS))


def _write(model: Any, fields: Iterable[str], rows: list[Any]) -> None:
    if rows:
        model.objects.bulk_update(rows, fields)
