"""What many runs at once cost the portal's processes in CPU, beside one run at a time; and whether all of them end, once."""
# ruff: noqa: RUF001 (times signs and ranges are for people)

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.results import Result, Row
from tests.crash.crowd import CLIENTS, Crowd, cpu_seconds, crowd
from tests.crash.fleet import KINDS, Fleet

COUNT = 500
UNITS = 48
"""All GPUs of the six nodes with the card: as many runs at once."""
SINGLES = 20
GATE = 1.5
WARM_UP = 5
REST_SECONDS = 30.0
PATIENCE_SECONDS = 1800.0

Used = Mapping[str, float]


@dataclass(frozen=True)
class Spent:
    """CPU seconds of each kind of process while `runs` went from their submission to the last end, in `wall` seconds."""

    runs: int
    wall: float
    used: Used
    accepted: float = 0.0

    def seconds_per_run(self, idle: Used | None = None) -> float:
        """CPU seconds of one run; without the use of the processes at rest, where `idle` states it."""
        rest = sum(idle.values()) * self.wall if idle else 0.0
        return (sum(self.used.values()) - rest) / self.runs


def measure(fleet: Fleet, *, count: int = COUNT) -> Result:
    """The fleet's team has to have `UNITS`."""
    with crowd(fleet) as group:
        _together(group, WARM_UP)
        idle = _at_rest(fleet)
        before = [_together(group, 1) for _ in range(SINGLES)]
        many = _together(group, count)
        after = [_together(group, 1) for _ in range(SINGLES)]
        wrong = group.wrong()
        jobs, runs = sum(map(len, group.seen.jobs.values())), len(group.accepted)
    return _result([*before, *after], many, idle, wrong=wrong, jobs=jobs, runs=runs)


def _at_rest(fleet: Fleet) -> Used:
    """CPU seconds a second while nothing happens."""
    begun, start = cpu_seconds(fleet), time.monotonic()
    time.sleep(REST_SECONDS)
    wall = time.monotonic() - start
    return {kind: (used - begun[kind]) / wall for kind, used in cpu_seconds(fleet).items()}


def _together(group: Crowd, count: int) -> Spent:
    begun, start = cpu_seconds(group.fleet), time.monotonic()
    accepted = group.submit(count, clients=min(count, CLIENTS))
    group.until_ended(PATIENCE_SECONDS)
    wall, ended = time.monotonic() - start, cpu_seconds(group.fleet)
    print(f"{count} runs: {wall:.1f} s", flush=True)
    return Spent(count, wall, {kind: ended[kind] - begun[kind] for kind in KINDS}, accepted)


def _result(
    singles: list[Spent], many: Spent, idle: Used, *, wrong: list[str], jobs: int, runs: int
) -> Result:
    ratio = many.seconds_per_run(idle) / _median(singles, idle)
    rows = [
        Row(
            name=f"CPU of a run, {many.runs} at once; limit: one at a time",
            ours=f"{many.seconds_per_run(idle) * 1000:.0f} ms",
            limit=f"{_median(singles, idle) * 1000:.0f} ms ({_range(singles, idle)})",
            ratio=f"{ratio:.2f}×",
            gate=f"≤ {GATE:g}×",
            passed=ratio <= GATE,
        ),
        Row(
            name="the same, with what the processes use at rest",
            ours=f"{many.seconds_per_run() * 1000:.0f} ms",
            limit=f"{_median(singles) * 1000:.0f} ms ({_range(singles)})",
            ratio=f"{many.seconds_per_run() / _median(singles):.2f}×",
        ),
        Row(
            name="lost, doubled, billed wrongly",
            ours=f"{len(wrong)} of {runs} runs",
            gate="0",
            passed=not wrong,
        ),
        Row(name="Jobs that the API server ever had", ours=str(jobs), limit=str(runs), passed=jobs == runs),
        Row(name=f"{many.runs} accepted, by {CLIENTS} clients", ours=f"{many.accepted:.1f} s"),
        Row(name=f"{many.runs} ended and billed", ours=f"{many.wall:.1f} s"),
        *(
            Row(
                name=f"{kind}, of a run",
                ours=f"{many.used[kind] / many.runs * 1000:.0f} ms",
                limit=f"{statistics.median(single.used[kind] for single in singles) * 1000:.0f} ms",
            )
            for kind in KINDS
        ),
    ]
    return Result(
        title="Many runs at once",
        question=f"What does a run cost the portal's own processes in CPU when {many.runs} are submitted at once, and does each end once?",
        method=f"{CLIENTS} clients submit {many.runs} runs of one GPU and one second by REST as fast as they are answered; {UNITS} GPUs are there, so the others wait. "
        f"Before and after, {SINGLES} runs one at a time. User and system time of web, live, worker, beat and watcher with their children, "
        "from the first request until the last run has ended and is in the ledger. What they use at rest, measured for "
        f"{REST_SECONDS:.0f} s, is subtracted for the time that it took. A watch of its own sees every Job and pod; "
        "rows, claims, bills and the API server are compared at the end.",
        limits="KWOK plays the kubelet and changes at most about 20 pods a second. How long it takes depends on what else the machine does, which its load tells. CPU of PostgreSQL, the broker and the "
        "cluster is not the portal's and not in it. Client, portal, databases and cluster share the machine.",
        rows=rows,
        notes=[
            (
                f"At rest the processes use {sum(idle.values()) * 1000:.0f} ms of CPU a second. Load of the machine at the end: "
                f"{os.getloadavg()[1]:.1f} (mean of five minutes)."
            ),
            *([f"Findings: {'; '.join(wrong[:5])}"] if wrong else []),
        ],
    )


def _median(singles: list[Spent], idle: Used | None = None) -> float:
    return statistics.median(single.seconds_per_run(idle) for single in singles)


def _range(singles: list[Spent], idle: Used | None = None) -> str:
    values = sorted(single.seconds_per_run(idle) * 1000 for single in singles)
    return f"{values[0]:.0f}–{values[-1]:.0f}"
