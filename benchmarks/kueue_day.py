"""Kueue's baseline load over admission and PostgreSQL, with real run times, beside first come, first served."""
# ruff: noqa: RUF001 (times signs and ranges are for people)

from __future__ import annotations

import statistics
from collections.abc import Sequence

from django.db import connection

from benchmarks import fifo
from benchmarks.day import Day, Engine, Trace, run
from benchmarks.results import Result, Row
from benchmarks.worlds import rows
from benchmarks.worlds.kueue_load import (
    BORROWING_LIMIT,
    COHORTS,
    KINDS,
    NOMINAL,
    QUEUES,
    TOTAL,
    USAGE_MIN,
    WALL_MS_MAX,
    Kind,
    arrivals,
)

WALL_GATE = 1.5
NODE = 20


def measure(*, rounds: int, count: int = TOTAL) -> Result:
    """One day each way; shorter days, which take seconds, `rounds` times in turn."""
    day = _prepare(count)
    turns = rounds if count < TOTAL else 1
    ours: list[Trace] = []
    fifo: list[Trace] = []
    for _ in range(turns):
        ours.append(_one(day, Engine.ADMISSION))
        fifo.append(_one(day, Engine.FIFO))
    return _result(day, ours, fifo)


def _prepare(count: int) -> Day:
    teams, owner = rows.make_teams("kueue", count=COHORTS * QUEUES, cohorts=COHORTS), rows.make_owner()
    flavor = rows.make_flavor("kueue-card")
    rows.make_nodes(flavor, count=COHORTS * QUEUES * NOMINAL // NODE, units=NODE)
    for team in teams:
        rows.make_quota(team, flavor, nominal=NOMINAL, borrowing=BORROWING_LIMIT)
    with connection.cursor() as cursor:
        cursor.execute(fifo.INDEX)
    return Day(teams=teams, owner=owner, flavor=flavor, arrivals=arrivals(count))


def _one(day: Day, engine: Engine) -> Trace:
    rows.empty_queues()
    print(f"{engine.value}: {len(day.arrivals):,} workloads …", flush=True)
    trace = run(day, engine)
    print(f"{engine.value}: {trace.wall:.1f} s", flush=True)
    return trace


def _result(day: Day, ours: Sequence[Trace], fifo: Sequence[Trace]) -> Result:
    count, whole = len(day.arrivals), len(day.arrivals) == TOTAL
    work = sum(arrival.kind.units * arrival.kind.seconds for arrival in day.arrivals)
    best = max(work / (COHORTS * QUEUES * NOMINAL), day.arrivals[-1].at)
    return Result(
        title="Kueue's day",
        question=f"{count:,} workloads of {COHORTS} cohorts of {QUEUES} teams: how much of the quota is in use, and who waits how long?",
        method=f"The load of Kueue's own baseline benchmark (kubernetes-sigs/kueue, test/performance/scheduler/configs/baseline), "
        f"{count:,} of its {TOTAL:,} workloads: {NOMINAL} units for each team, which may borrow {BORROWING_LIMIT}; "
        + ", ".join(
            f"{kind.name} ({kind.units} units, {kind.seconds:g} s, one every {kind.interval:g} s for each team)"
            for kind in KINDS
        )
        + ". Rows are written when they are due; a process passes over the pool whenever it is due, as a worker does; each workload runs for "
        "its real time after its admission was told; two processes end them, each in one transaction with its release. A wait lasts "
        "from the row's commit until that word. Use counts from there until the release was committed. "
        "First come, first served takes the same rows, claims and releases, and holds up a team whose first does not fit. "
        + ("One day each." if len(ours) == 1 else f"{len(ours)} days each, in turn."),
        limits="No API server. Kueue's figures are those of its own machine, so they are landmarks of its gates; the ratio to first come, first "
        "served is measured. Pods ask for one unit each, so that quota and not nodes is what limits, as there. Nobody is "
        "made to leave: all runs are younger than the minimum run time.",
        rows=[
            *_usage(ours, whole=whole),
            *(_wait(kind, ours, fifo, whole=whole) for kind in KINDS),
            _wall(ours, fifo),
        ],
        notes=[
            (
                f"No wall can be less than {best:.0f} s: the work and the last arrival. Work alone, without the time until a run is seen to have ended, "
                f"is {_median([trace.work for trace in ours]):.0%} of the quota with admission and {_median([trace.work for trace in fifo]):.0%} with "
                "first come, first served."
            ),
            *(_passes("Admission", trace) for trace in ours[:1]),
            *(_passes("First come, first served", trace) for trace in fifo[:1]),
        ],
    )


def _passes(name: str, trace: Trace) -> str:
    return (
        f"{name}: {trace.passes:,} passes that admitted, {trace.pass_ms:.0f} ms each in the median, at most {trace.pass_ms_max:.0f} ms; "
        f"rows came at most {trace.late:.1f} s late; {trace.errors} errors."
    )


def _usage(ours: Sequence[Trace], *, whole: bool) -> list[Row]:
    least = [min(trace.usage) for trace in ours]
    mean = [statistics.mean(trace.usage) for trace in ours]
    return [
        Row(
            name="quota in use, mean of the cohorts; of the worst one",
            ours=f"{_median(mean):.0%}; {_median(least):.0%}",
            gate=f"≥ {USAGE_MIN:.0%}" if whole else "—",
            passed=_median(least) >= USAGE_MIN if whole else None,
        )
    ]


def _wait(kind: Kind, ours: Sequence[Trace], fifo: Sequence[Trace], *, whole: bool) -> Row:
    mine, theirs = ([trace.waits[kind.name] for trace in traces] for traces in (ours, fifo))
    return Row(
        name=f"mean wait, {kind.name}; limit: first come, first served",
        ours=f"{_median(mine):.1f} s",
        limit=f"{_median(theirs):.1f} s",
        gate=f"≤ {kind.wait_max:g} s" if whole else "—",
        passed=_median(mine) <= kind.wait_max if whole else None,
    )


def _wall(ours: Sequence[Trace], fifo: Sequence[Trace]) -> Row:
    ratios = [mine.wall / theirs.wall for mine, theirs in zip(ours, fifo, strict=True)]
    ratio = _median([trace.wall for trace in ours]) / _median([trace.wall for trace in fifo])
    return Row(
        name=f"wall, beside first come, first served (Kueue allows itself {WALL_MS_MAX // 1000} s)",
        ours=_seconds([trace.wall for trace in ours]),
        limit=_seconds([trace.wall for trace in fifo]),
        ratio=f"{ratio:.2f}× ({min(ratios):.2f}–{max(ratios):.2f})",
        gate=f"≤ {WALL_GATE:g}×",
        passed=ratio <= WALL_GATE,
    )


def _seconds(values: Sequence[float]) -> str:
    return f"{_median(values):.1f} s ({min(values):.1f}–{max(values):.1f})"


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)
