"""Whether a report of what was spent is as fast over ten million lines of the ledger as over a hundred thousand."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import connection

from benchmarks.history import GATE, GOAL, SMALL, Measured, copy_of_now, look, take_turns
from benchmarks.results import Result, Rounds, Row
from benchmarks.worlds import past_rows
from benchmarks.worlds.past_rows import Past
from costs.reports import sql
from costs.reports.focus import focus_rows
from costs.reports.groups import GROUPS, CostFilters
from costs.reports.windows import ALWAYS, pieces_of
from foundation import clock

COUNT = 1_000_000
LINES = 5
"""Of each usage interval, on either side of the ledger."""
COLD_GATE, WARM_GATE = 1.3, 0.02
MOST_MS = 100
COSTS = "/api/v1/costs/"
PAGES = {
    "home page of {whose}": "/",
    "page of a team, of {whose}": "/teams/past-000/",
    "page of costs, of {whose}": "/costs/",
    "page of costs by user, of {whose}": "/costs/?by=user",
}
PAGES_OF_ADMIN = {"page of what is idle and lost": "/costs/capacity/"}
ONE_GROUP_BY = """
SELECT team_id, flavor_name, price_id, (started_at AT TIME ZONE 'UTC')::date, sum(amount_micro_usd)
FROM costs_ledgerentry WHERE account LIKE 'team:%' GROUP BY 1, 2, 3, 4
"""
MAKE_ANEW = "SELECT costs_make_rollups_anew()"


def measure(*, rounds: int, count: int = COUNT) -> Result:
    past = Past(pods_of_ten=10, lines=LINES)
    past.until(max(count // 100, past_rows.LIVE * 2))
    copy_of_now()
    past.until(count)
    measured = {
        words.format(whose=whose): (user, Measured(path, path))
        for whose, user in (("a member", past.member), ("an admin", past.admin))
        for words, path in (_paths() | PAGES).items()
    }
    measured |= {name: (past.admin, Measured(path, path)) for name, path in PAGES_OF_ADMIN.items()}
    for user, address in measured.values():
        look(user, address)
    for _ in range(rounds):
        take_turns(measured.values(), little=SMALL)
    lines = _number("SELECT count(*) FROM costs_ledgerentry")
    shown = [_row(f"{name}, {lines:,} lines", address) for name, (_, address) in measured.items()]
    return Result(
        title="What was spent",
        question=f"Is `costs/` as fast with {lines:,} lines of the ledger as with a hundredth of them, and is a report over all of "
        f"{count:,} usage intervals as cheap as one `GROUP BY` over their lines, and exact?",
        method=f"{rounds} rounds in turn. Addresses by Django's own client; the limit is the same address in a copy of the database from when "
        "a hundredth was there. The month is this one, all time has no bound, a part begins and ends within a day. "
        "The report over all teams against one `GROUP BY` by day, team, flavor and price over the lines: from the lines "
        "alone (cold), and from what is kept (warm).",
        limits="One client at a time. The rows are made by PostgreSQL in bulk; their projects are as good as random, so that few lines share their sums.",
        rows=[*shown, *_reports(rounds), _export()],
    )


def _paths() -> dict[str, str]:
    now = clock.now()
    begin = (now - timedelta(days=2, hours=3, minutes=7)).strftime("%Y-%m-%dT%H:%M:%SZ")
    end = (now - timedelta(hours=5, minutes=13)).strftime("%Y-%m-%dT%H:%M:%SZ")
    month = {f"this month by {group}": f"{COSTS}?group_by={group}" for group in GROUPS}
    ever = {
        f"all time by {group}": f"{COSTS}?group_by={group}&from=0002-01-01T00:00:00Z"
        for group in GROUPS
        if group != "day"
    }
    part = {
        f"a part by {group}": f"{COSTS}?group_by={group}&from={begin}&to={end}"
        for group in ("team", "workload", "project")
    }
    crossed = {
        "this month, one project by user": f"{COSTS}?group_by=user&project=p17",
        "this month, one flavor by workload": f"{COSTS}?group_by=workload&flavor=past-card-1",
    }
    paths = month | ever | part | crossed
    return {f"`costs/` of {{whose}}, {words}": path for words, path in paths.items()}


def _row(name: str, address: Measured) -> Row:
    row = address.rounds.row(name, gate=GATE, goal=GOAL)
    ours = sorted(sample for turn in address.rounds.ours for sample in turn)
    quick = ours[len(ours) // 2] <= MOST_MS
    # Where more groups are summed, or lines of a whole day are read, there is more to do, whatever is kept.
    more = any(words in name for words in ("by project", "a part", "one project", "one flavor"))
    return Row(
        name=name,
        ours=f"{row.ours}, {address.queries} queries, {address.size / 1000:.0f} KB",
        limit=row.limit,
        ratio=row.ratio,
        gate=f"≤ {MOST_MS} ms" if more else f"{row.gate}; ≤ {MOST_MS} ms",
        passed=quick and (more or bool(row.passed)),
    )


def _reports(rounds: int) -> list[Row]:
    cold, warm = Rounds(), Rounds()
    for _ in range(rounds):
        one = [_milliseconds(ONE_GROUP_BY)]
        cold.limit.append(one)
        warm.limit.append(one)
        cold.ours.append([_took(_from_lines)])
        warm.ours.append([_took(_kept) for _ in range(5)])
    exact = _from_lines() == _kept()
    anew = _milliseconds(MAKE_ANEW)
    difference = _kept() == _from_lines()
    return [
        cold.row("report of all time, from the lines alone", gate=COLD_GATE, goal=1.0),
        warm.row("report of all time, from what is kept", gate=WARM_GATE, goal=0.01),
        Row(
            name="difference of the two, before and after all sums were made anew",
            ours="0" if exact and difference else "not 0",
            gate="0",
            passed=exact and difference,
        ),
        Row(name="all sums made anew from the lines", ours=f"{anew / 1000:.1f} s"),
    ]


def _from_lines() -> dict[int, int]:
    return {key: sums.posted for key, sums in sql.sums(sql.lines_of(ALWAYS), sql.Scope(), "team").items()}


def _kept() -> dict[int, int]:
    found = sql.sums(sql.rollups("l", pieces_of(ALWAYS)), sql.Scope(), "team")
    return {key: sums.posted for key, sums in found.items()}


def _export() -> Row:
    """Memory of a file of all lines of a month, which is read as it is sent."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun, rows = time.perf_counter(), 0
    for _ in focus_rows(teams=None, window=ALWAYS, filters=CostFilters()):
        rows += 1
        if rows == COUNT:
            break
    taken = time.perf_counter() - begun
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return Row(
        name=f"`costs/export.csv`, {rows:,} lines",
        ours=f"{taken:.0f} s, {grown:.0f} MB more at its most",
        gate="≤ 64 MB",
        passed=grown <= 64,
    )


def _took(report: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    report()
    return (time.perf_counter() - begun) * 1000


def _milliseconds(statement: str) -> float:
    begun = time.perf_counter()
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute(statement)
        cursor.fetchall()
    return (time.perf_counter() - begun) * 1000


def _number(statement: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return int(cursor.fetchone()[0])
