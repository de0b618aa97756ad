"""Who spent how much, on what and when: sums of the ledger, and what has come up since, to this second."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import date, datetime
from typing import Any

from django.db import connection
from django.db.models import Sum

from costs.models import Facet, Grain, LedgerEntry, Price
from costs.models.rollups import ALL_TIME
from costs.queries import PriceBook, spans_by_card
from costs.reports import sql
from costs.reports.groups import (
    BY_TIME,
    GROUPS,
    ORDERINGS,
    PHASES,
    UNTOLD,
    WAITING,
    CostFilters,
    CostGroup,
    CostReport,
    Sums,
)
from costs.reports.running import Running, running
from costs.reports.sql import Scope
from costs.reports.windows import ALWAYS, DAY, CostWindow, Dates, Pieces, midnight, pieces_of, whole_days
from teams.models import Team, User
from workloads.models import Workload

__all__ = [
    "ALWAYS",
    "GROUPS",
    "ORDERINGS",
    "CostFilters",
    "CostGroup",
    "CostReport",
    "CostWindow",
    "spent",
    "spent_with_days",
]

_NO_FILTERS = CostFilters()
TIES_MAX = 200
Extent = tuple[date | None, date | None]
NO_WORKLOAD = 0
"""In the place of a workload's key."""


def spent(
    *,
    teams: Collection[int] | None,
    window: CostWindow,
    group_by: str,
    now: datetime,
    limit: int | None = None,
    ordering: str = "",
    filters: CostFilters = _NO_FILTERS,
    prices: PriceBook | None = None,
) -> CostReport:
    """What teams spent in the window, by one of `GROUPS`, with what runs now up to `now`.

    `teams` are keys, None for all. Groups come dearest first, days and months in their order, or as one of `ORDERINGS`
    says; runs and endpoints are ordered by amount alone. At most `limit` of them; the totals are of all.
    """
    if group_by not in GROUPS:
        raise ValueError(f"There is no group {group_by}.")
    with sql.one_moment():
        return _report(
            teams,
            window,
            group_by,
            now=now,
            limit=limit,
            ordering=ordering,
            filters=filters,
            prices=prices,
        )


def _report(
    teams: Collection[int] | None,
    window: CostWindow,
    group_by: str,
    *,
    now: datetime,
    limit: int | None,
    ordering: str,
    filters: CostFilters,
    prices: PriceBook | None,
) -> CostReport:
    book = spans_by_card() if prices is None else prices
    scope = _scope(teams, filters)
    unposted = list(
        running(teams=teams, window=window, group_by=group_by, now=now, prices=book, filters=filters)
    )
    return _reported(scope, window, group_by, unposted, limit, ordering, extent=_extent())


def _reported(
    scope: Scope,
    window: CostWindow,
    group_by: str,
    unposted: list[Running],
    limit: int | None,
    ordering: str,
    *,
    extent: Extent,
    total: int | None = None,
) -> CostReport:
    """With the `total` that is posted, for who knows it already."""
    order = ordering or ("key" if group_by in BY_TIME else "-amount")
    known = _as_far_as_lines_go(window, extent)
    if group_by == "workload":
        found, total, complete = _by_workload(scope, known, unposted, limit, order, total)
    else:
        found = _posted(scope, known, group_by)
        total = sum(sums.posted for sums in found.values())
        _add_running(found, unposted, group_by)
        complete = True
    if limit is not None and order.endswith("amount") and len(found) > limit:
        # Names are read of those alone that are told, and of those that are as dear as the last of them.
        found, complete = _first(found, limit, descending=order.startswith("-")), False
    groups = _named(found, group_by)
    groups.sort(key=lambda group: group.key)
    if order.endswith("amount"):
        groups.sort(key=lambda group: group.amount_micro_usd, reverse=order.startswith("-"))
    elif order == "-key":
        groups.reverse()
    ahead = sum(amount for each in unposted for _, amount in each.parts)
    shown = groups if limit is None else groups[:limit]
    return CostReport(
        groups=shown,
        window=window,
        total_micro_usd=total + ahead,
        running_micro_usd=ahead,
        complete=complete and len(shown) == len(groups),
        unpriced=any(not each.priced for each in unposted),
    )


def spent_with_days(
    *,
    teams: Collection[int] | None,
    window: CostWindow,
    days: CostWindow,
    group_by: str,
    now: datetime,
    limit: int | None = None,
    ordering: str = "",
    prices: PriceBook | None = None,
) -> tuple[CostReport, CostReport]:
    """`spent` in the window, and by day in `days`, of one moment and with less asked than by each alone.

    Both windows are whole days, and `days` holds the other. Days and months are among the second: they are not asked for here.
    """
    book = spans_by_card() if prices is None else prices
    scope = _scope(teams, _NO_FILTERS)
    with sql.one_moment():
        by_day = list(
            running(teams=teams, window=days, group_by="day", now=now, prices=book, filters=_NO_FILTERS)
        )
        extent = _extent()
        of_days = _reported(scope, days, "day", by_day, None, "", extent=extent)
        within = [_within(each, window) for each in by_day]
        if group_by == "phase":
            # What is cut by days is not cut by phases.
            within = list(
                running(
                    teams=teams, window=window, group_by=group_by, now=now, prices=book, filters=_NO_FILTERS
                )
            )
        posted = sum(
            day.amount_micro_usd - day.running_micro_usd
            for day in of_days.groups
            if window.holds(midnight(date.fromisoformat(day.key)))
        )
        shown = [each for each in within if each.parts]
        report = _reported(scope, window, group_by, shown, limit, ordering, extent=extent, total=posted)
    return report, of_days


def _within(each: Running, window: CostWindow) -> Running:
    """Of the days of a pod those of the window."""
    parts = tuple(part for part in each.parts if window.holds(midnight(date.fromisoformat(part[0]))))
    return replace(each, parts=parts)


def _first(found: Mapping[Any, Sums], limit: int, *, descending: bool) -> dict[Any, Sums]:
    amounts = sorted((sums.posted + sums.running for sums in found.values()), reverse=descending)
    last = amounts[limit - 1]
    far = {
        key: sums
        for key, sums in found.items()
        if (sums.posted + sums.running >= last if descending else sums.posted + sums.running <= last)
    }
    # Where very many are as dear as the last one, it does not matter which of them are told.
    return dict(list(far.items())[: limit + TIES_MAX]) if len(far) > limit + TIES_MAX else far


def ledger_difference() -> int:
    """Sum over all postings, which must be 0, in micro-USD."""
    return LedgerEntry.objects.aggregate(total=Sum("amount_micro_usd"))["total"] or 0


def _scope(teams: Collection[int] | None, filters: CostFilters) -> Scope:
    chosen = None
    if filters.capacities is not None:
        of_them = Price.objects.filter(priced__capacity_type__in=list(filters.capacities))
        chosen = list(of_them.values_list("pk", flat=True))
    return Scope(
        teams=teams, users=filters.users, projects=filters.projects, flavors=filters.flavors, prices=chosen
    )


_FIRST_AND_LAST = """
SELECT (SELECT min(period) FROM costs_costrollup WHERE facet = 'l' AND grain = 'd'),
    (SELECT max(period) FROM costs_costrollup WHERE facet = 'l' AND grain = 'd')
"""


def _extent() -> Extent:
    """The first and the last day on which there are lines; None twice where there are none."""
    with connection.cursor() as cursor:
        cursor.execute(_FIRST_AND_LAST)
        first, last = cursor.fetchone()
    return first, last


def _as_far_as_lines_go(window: CostWindow, extent: Extent) -> CostWindow:
    """The window without bounds that no line lies beyond: fewer pieces are the same."""
    first, last = extent
    if first is None or last is None or window.is_empty:
        return window
    open_start = window.start is not None and window.start <= midnight(first)
    open_end = window.end is not None and window.end >= midnight(last + DAY)
    known = CostWindow(None if open_start else window.start, None if open_end else window.end)
    # A whole month is one period, and what is open on one side is many.
    return window if _one_period(pieces_of(window)) and not pieces_of(known).always else known


def _posted(scope: Scope, window: CostWindow, group_by: str) -> dict[Any, Sums]:
    """By team key, user key, project, flavor, capacity, phase, day or month."""
    key = {"capacity": "price", "phase": ""}.get(group_by, group_by)
    by_user = group_by == "user" or scope.users is not None
    by_project = group_by == "project" or scope.projects is not None
    if by_user and by_project:
        found = sql.sums(sql.workload_days(whole_days(window)), scope, key)
    else:
        facet = Facet.USER if by_user else Facet.PROJECT if by_project else Facet.LANE
        found = sql.sums(sql.rollups(facet.value, _pieces(window, group_by)), scope, key)
    if group_by == "capacity":
        return _by_capacity(found)
    if group_by == "phase":
        return _by_phase(found)
    return found


def _pieces(window: CostWindow, group_by: str) -> Pieces:
    if group_by == "day":
        return whole_days(window)
    pieces = pieces_of(window)
    if group_by == "month" and pieces.always:
        # Of all time only the months tell the months.
        return Pieces(False, (Dates(None, None),), (), ())
    return pieces


def _by_capacity(found: Mapping[Any, Sums]) -> dict[Any, Sums]:
    capacity_of = dict(Price.objects.values_list("pk", "priced__capacity_type"))
    result: dict[Any, Sums] = {}
    for price, sums in found.items():
        result.setdefault(capacity_of.get(price, ""), Sums()).posted += sums.posted
    return result


def _by_phase(found: Mapping[Any, Sums]) -> dict[Any, Sums]:
    result: dict[Any, Sums] = {name: Sums() for name in (WAITING, *PHASES)}
    for sums in found.values():
        for name, amount in sums.phases.items():
            if name != UNTOLD or amount:
                result.setdefault(name, Sums()).posted += amount
    return result


_KEY_OF: dict[str, Callable[[Running], Any]] = {
    "team": lambda each: each.team_id,
    "user": lambda each: each.user_id,
    "project": lambda each: each.project,
    "flavor": lambda each: each.flavor_name,
    "capacity": lambda each: each.capacity_type,
    "workload": lambda each: each.workload_id,
}


def _add_running(found: dict[Any, Sums], unposted: Collection[Running], group_by: str) -> None:
    for each in unposted:
        for part, amount in each.parts:
            if group_by in BY_TIME:
                key: Any = date.fromisoformat(part)
            else:
                key = part if group_by == "phase" else _KEY_OF[group_by](each)
            found.setdefault(key, Sums()).running += amount


def _by_workload(
    scope: Scope,
    window: CostWindow,
    unposted: Collection[Running],
    limit: int | None,
    order: str,
    total: int | None,
) -> tuple[dict[Any, Sums], int, bool]:
    """The first of them in their order, the posted total of all, and whether those are all.

    Who has something that is not posted is always among them: their place is not known before the two are added.
    """
    found: dict[Any, Sums] = {}
    _add_running(found, unposted, "workload")
    # Nor is that of what no workload has cost: it has a row of each team.
    live = [*found, NO_WORKLOAD]
    pieces = pieces_of(window)
    period = _one_period(pieces)
    plain = scope.users is None and scope.projects is None and scope.flavors is None and scope.prices is None
    if limit is not None and period is not None and plain:
        if total is None:
            total = sum(sums.posted for sums in _posted(scope, window, "team").values())
        for workload, amount in _posted_of(live, scope, period):
            found.setdefault(workload, Sums()).posted += amount
        others = _first_of(scope, period, live, limit + 1, descending=order != "amount")
        for workload, amount in others:
            found[workload] = Sums(posted=amount)
        return found, total, len(others) <= limit
    if plain and not pieces.days and not pieces.edges:
        statement = sql.workload_months(pieces)
    else:
        statement = sql.workload_days(whole_days(window))
    first = None if limit is None else (order != "amount", limit + 1)
    posted, total = sql.sums_of_workloads(statement, scope, live, first)
    for workload, amount in posted.items():
        found.setdefault(workload, Sums()).posted += amount
    return found, total, limit is None or len(posted.keys() - set(live)) <= limit


def _one_period(pieces: Pieces) -> tuple[str, date] | None:
    """The month that the window is, or all time: the dearest of it are in the order of an index."""
    if pieces.always:
        return Grain.ALL.value, ALL_TIME
    if len(pieces.months) != 1 or pieces.days or pieces.edges:
        return None
    (months,) = pieces.months
    if months.start is None or months.end is None or (months.end - months.start).days > 31:
        return None
    return Grain.MONTH.value, months.start


_POSTED_OF = """
SELECT workload_id, sum(amount_micro_usd)::bigint FROM costs_workloadrollup
WHERE workload_id = ANY(%s) AND grain = %s AND period = %s AND {where} GROUP BY workload_id
"""
_FIRST = """
SELECT workload_id, amount_micro_usd FROM costs_workloadrollup
WHERE grain = %s AND period = %s AND NOT workload_id = ANY(%s)
ORDER BY amount_micro_usd {way} LIMIT %s
"""
# Of each team by its own part of the index.
_FIRST_OF_TEAMS = """
SELECT r.workload_id, r.amount_micro_usd FROM unnest(%s::bigint[]) AS t (team) CROSS JOIN LATERAL (
    SELECT workload_id, amount_micro_usd FROM costs_workloadrollup
    WHERE team_id = t.team AND grain = %s AND period = %s AND NOT workload_id = ANY(%s)
    ORDER BY amount_micro_usd {way} LIMIT %s
) AS r ORDER BY 2 {way} LIMIT %s
"""


def _posted_of(live: list[int], scope: Scope, period: tuple[str, date]) -> list[tuple[int, int]]:
    where, parameters = scope.conditions()
    with connection.cursor() as cursor:
        cursor.execute(_POSTED_OF.format(where=where), [live, *period, *parameters])
        found: list[tuple[int, int]] = cursor.fetchall()
    return found


def _first_of(
    scope: Scope, period: tuple[str, date], without: list[int], limit: int, *, descending: bool
) -> list[tuple[int, int]]:
    way = "DESC" if descending else "ASC"
    with connection.cursor() as cursor:
        if scope.teams is None:
            cursor.execute(_FIRST.format(way=way), [*period, without, limit])
        else:
            parameters: list[Any] = [list(scope.teams), *period, without, limit, limit]
            cursor.execute(_FIRST_OF_TEAMS.format(way=way), parameters)
        found: list[tuple[int, int]] = cursor.fetchall()
    return found


_OF_WORKLOAD = (
    *("public_id", "kind", "name", "phase", "units"),
    *("team__slug", "owner__username", "flavor__name"),
)
"""What is told of a workload beside its costs; a row of all its columns takes four times as long."""


def _named(found: Mapping[Any, Sums], group_by: str) -> list[CostGroup]:
    keys = list(found)
    workloads: dict[int, Workload] = {}
    names: dict[Any, tuple[str, str]] = {}
    match group_by:
        case "team":
            rows = Team.objects.filter(pk__in=keys).values_list("pk", "slug", "name")
            names = {key: (slug, name) for key, slug, name in rows}
        case "user":
            people = User.objects.filter(pk__in=keys)
            names = {each.pk: (each.username, each.get_full_name() or each.username) for each in people}
        case "workload":
            own = (
                Workload.objects.filter(pk__in=keys)
                .select_related("team", "owner", "flavor")
                .only(*_OF_WORKLOAD)
            )
            workloads = {each.pk: each for each in own}
            names = {key: (str(each.public_id), each.name) for key, each in workloads.items()}
        case "month":
            names = {key: (f"{key:%Y-%m}",) * 2 for key in keys}
    return [
        CostGroup(
            key=names.get(key, (_text(key),) * 2)[0],
            name=names.get(key, (_text(key),) * 2)[1],
            amount_micro_usd=sums.posted + sums.running,
            running_micro_usd=sums.running,
            workload=workloads.get(key),
        )
        for key, sums in found.items()
    ]


def _text(key: Any) -> str:
    """What a key without a row says; keys of rows that there are none of say nothing."""
    return "" if isinstance(key, int) else str(key)
