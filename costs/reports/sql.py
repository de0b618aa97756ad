"""Sums of lines and of kept sums, as one statement: every report sees one moment of the ledger."""

# ruff: noqa: S608 - what is put into the statements stands in this file
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from typing import Any

from django.db import connection, transaction

from costs.models import Grain
from costs.models.rollups import ALL_TIME
from costs.reports.groups import PHASES, UNTOLD, Sums
from costs.reports.windows import CostWindow, Dates, Pieces, midnight

_AMOUNTS = ("amount_micro_usd", "starting_micro_usd", "running_micro_usd", "stopping_micro_usd")
_TOTALS = ", ".join(f"coalesce(sum({name}), 0)" for name in _AMOUNTS)
TEAM_LINES = "account LIKE 'team:%%'"
OVER_A_DAY = (
    "(started_at AT TIME ZONE 'UTC')::date < ((ended_at AT TIME ZONE 'UTC') - interval '1 microsecond')::date"
)
"""As the index of the few lines that are not within a day says it."""

KEYS = {
    "": "1",
    "team": "team_id",
    "user": "user_id",
    "project": "project",
    "flavor": "flavor_name",
    "price": "price_id",
    "workload": "workload_id",
    "day": "period",
    "month": "date_trunc('month', period::timestamp)::date",
    "account": "account",
    "kind and day": "split_part(account, ':', 1) || ' ' || period::text",
}


@contextmanager
def one_moment() -> Iterator[None]:
    """All statements inside see the rows of one moment: what is settled meanwhile is neither missed nor counted twice."""
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Whose lines are counted, by keys; None counts all."""

    teams: Collection[int] | None = None
    users: Collection[int] | None = None
    projects: Collection[str] | None = None
    flavors: Collection[str] | None = None
    prices: Collection[int] | None = None

    def conditions(self) -> tuple[str, list[Any]]:
        """SQL and its parameters."""
        chosen = {
            "team_id": self.teams,
            "user_id": self.users,
            "project": self.projects,
            "flavor_name": self.flavors,
            "price_id": self.prices,
        }
        named = {column: list(values) for column, values in chosen.items() if values is not None}
        texts = [f"{column} = ANY(%s)" for column in named]
        return " AND ".join(["true", *texts]), list(named.values())


@dataclass
class Statement:
    """Parts of a UNION ALL with their parameters."""

    texts: list[str]
    parameters: list[Any]

    def add(self, text: str, parameters: Sequence[Any]) -> None:
        self.texts.append(text)
        self.parameters += parameters


def sums(statement: Statement, scope: Scope, key: str) -> dict[Any, Sums]:
    """The sums by one of `KEYS`; only what is in the scope."""
    if not statement.texts:
        return {}
    where, parameters = scope.conditions()
    source = " UNION ALL ".join(
        f"SELECT {KEYS[key]} AS k, {', '.join(_AMOUNTS)} FROM ({text}) AS s WHERE {where}"
        for text in statement.texts
    )
    with connection.cursor() as cursor:
        # Each part has the scope's parameters after its own.
        cursor.execute(
            f"SELECT k, {_TOTALS} FROM ({source}) AS parts GROUP BY k",
            _interleaved(statement, parameters),
        )
        return {row[0]: _sums(row[1:]) for row in cursor.fetchall()}


def together(statements: Iterable[Statement]) -> Statement:
    """The parts of all of them."""
    found = Statement([], [])
    for each in statements:
        found.texts += each.texts
        found.parameters += each.parameters
    return found


def sums_of_workloads(
    statement: Statement, scope: Scope, live: Sequence[int], first: tuple[bool, int] | None
) -> tuple[dict[int, int], int]:
    """Micro-USD by workload, and of all; with `first` (dearest first or not, how many) only these and those of `live`."""
    if not statement.texts:
        return {}, 0
    where, parameters = scope.conditions()
    source = " UNION ALL ".join(
        f"SELECT workload_id AS k, amount_micro_usd FROM ({text}) AS s WHERE {where}"
        for text in statement.texts
    )
    way = "DESC" if first is None or first[0] else "ASC"
    with connection.cursor() as cursor:
        cursor.execute(
            f"""WITH g AS MATERIALIZED (
                SELECT k, sum(amount_micro_usd) AS total FROM ({source}) AS parts GROUP BY k
            )
            SELECT k, total FROM g WHERE k = ANY(%s)
            UNION ALL (SELECT k, total FROM g WHERE NOT k = ANY(%s) ORDER BY total {way} LIMIT %s)
            UNION ALL SELECT NULL, coalesce(sum(total), 0) FROM g""",
            [
                *_interleaved(statement, parameters),
                list(live),
                list(live),
                None if first is None else first[1],
            ],
        )
        found = {key: int(total) for key, total in cursor.fetchall()}
    return found, found.pop(None)


def sum_of_failed(statement: Statement, scope: Scope) -> int:
    """Micro-USD of the workloads of the statement that have failed."""
    if not statement.texts:
        return 0
    where, parameters = scope.conditions()
    source = " UNION ALL ".join(
        f"SELECT workload_id, amount_micro_usd FROM ({text}) AS s WHERE {where}" for text in statement.texts
    )
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT coalesce(sum(p.amount_micro_usd), 0) FROM ({source}) AS p"
            " JOIN workloads_workload AS w ON w.id = p.workload_id AND w.phase = 'Failed'",
            _interleaved(statement, parameters),
        )
        return int(cursor.fetchone()[0])


def _interleaved(statement: Statement, parameters: list[Any]) -> list[Any]:
    result: list[Any] = []
    at = 0
    for text in statement.texts:
        own = text.count("%s")
        result += [*statement.parameters[at : at + own], *parameters]
        at += own
    return result


def _sums(amounts: Sequence[int]) -> Sums:
    total, *parts = (int(each) for each in amounts)
    phases = dict(zip(PHASES, parts, strict=True))
    return Sums(posted=total, phases={**phases, UNTOLD: total - sum(parts)})


def rollups(facet: str, pieces: Pieces, *, account_kind: str = "team") -> Statement:
    """Sums that are kept, of the pieces' whole months and days, and lines of the rest."""
    statement = Statement([], [])
    for grain, dates in _grains(pieces):
        where, parameters = _periods(dates, "period")
        statement.add(
            f"SELECT * FROM costs_costrollup WHERE facet = '{facet}' AND grain = '{grain}'"
            f" AND account_kind = '{account_kind}' AND {where}",
            parameters,
        )
    for edge in pieces.edges:
        _add_edge(statement, edge, account_kind)
    return statement


def workload_days(pieces: Pieces) -> Statement:
    """The same by workload, of pieces without months."""
    statement = Statement([], [])
    if pieces.days:
        where, parameters = _periods(pieces.days, "day")
        statement.add(f"SELECT *, day AS period FROM costs_workloadday WHERE {where}", parameters)
    for edge in pieces.edges:
        _add_edge(statement, edge, "team")
    return statement


def workload_months(pieces: Pieces) -> Statement:
    """The same of windows that are whole months; of no phase."""
    statement = Statement([], [])
    for grain, dates in _grains(pieces):
        where, parameters = _periods(dates, "period")
        empty = ", ".join(f"0::bigint AS {name}" for name in _AMOUNTS[1:])
        statement.add(
            f"SELECT *, {empty} FROM costs_workloadrollup WHERE grain = '{grain}' AND {where}", parameters
        )
    return statement


def lines_of(window: CostWindow, *, account_kind: str = "team") -> Statement:
    """The window's lines alone, whatever is kept of them."""
    statement = Statement([], [])
    bounds, parameters = _bounds(window)
    statement.add(
        f"SELECT {_LINE}, {_line_amounts()} FROM costs_ledgerentry"
        f" WHERE account LIKE '{account_kind}:%%' AND {bounds}",
        [*_bounded(window) * 4, *parameters],
    )
    return statement


_LINE = """coalesce(team_id, 0) AS team_id, coalesce(user_id, 0) AS user_id, project, flavor_name,
    coalesce(price_id, 0) AS price_id, coalesce(workload_id, 0) AS workload_id, account,
    (started_at AT TIME ZONE 'UTC')::date AS period"""
_PART = (
    "(costs_until(started_at, ended_at, amount_micro_usd, %s)"
    " - costs_until(started_at, ended_at, amount_micro_usd, %s))"
)


def _line_amounts() -> str:
    parts = [f"{_PART} AS amount_micro_usd"]
    parts += [f"CASE WHEN phase = '{name}' THEN {_PART} ELSE 0 END AS {name}_micro_usd" for name in PHASES]
    return ", ".join(parts)


def _bounded(window: CostWindow) -> list[Any]:
    return [window.end or "infinity", window.start or "-infinity"]


def _bounds(window: CostWindow) -> tuple[str, list[Any]]:
    texts, parameters = ["true"], []
    if window.end is not None:
        texts.append("started_at < %s")
        parameters.append(window.end)
    if window.start is not None:
        texts.append("(ended_at > %s OR started_at >= %s)")
        parameters += [window.start, window.start]
    return " AND ".join(texts), parameters


def _add_edge(statement: Statement, edge: CostWindow, account_kind: str) -> None:
    """The lines of a part of one day, each by its own index: those of the day, and those from before it."""
    if edge.start is None or edge.end is None:
        raise ValueError("A part of a day has two ends.")
    day = midnight(edge.start.date())
    line = _LINE.replace("(started_at AT TIME ZONE 'UTC')::date", f"'{day.date()}'::date")
    what = f"SELECT {line}, {_line_amounts()} FROM costs_ledgerentry WHERE account LIKE '{account_kind}:%%'"
    statement.add(
        f"{what} AND started_at >= %s AND started_at < %s AND (ended_at > %s OR started_at >= %s)",
        [*_bounded(edge) * 4, day, edge.end, edge.start, edge.start],
    )
    statement.add(
        f"{what} AND {OVER_A_DAY} AND started_at < %s AND ended_at > %s",
        [*_bounded(edge) * 4, day, edge.start],
    )


def _grains(pieces: Pieces) -> list[tuple[str, tuple[Dates, ...]]]:
    if pieces.always:
        return [(Grain.ALL.value, (Dates(ALL_TIME, None),))]
    found = ((Grain.MONTH.value, pieces.months), (Grain.DAY.value, pieces.days))
    return [(grain, dates) for grain, dates in found if dates]


def _periods(spans: Sequence[Dates], column: str) -> tuple[str, list[date]]:
    texts: list[str] = []
    parameters: list[date] = []
    for span in spans:
        bounds = [("true", None), (f"{column} >= %s", span.start), (f"{column} < %s", span.end)]
        texts.append(" AND ".join(text for text, value in bounds if text == "true" or value is not None))
        parameters += [value for _, value in bounds if value is not None]
    return "(" + " OR ".join(f"({text})" for text in texts) + ")", parameters
