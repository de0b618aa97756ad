"""What the pure policy costs: microseconds of CPU for each waiter of a pool."""
# ruff: noqa: RUF001 (ranges are for people)

from __future__ import annotations

import signal
import statistics
import time
from collections.abc import Callable
from types import FrameType

from benchmarks.results import Result, Row
from benchmarks.worlds.supplies import Shape, snapshot
from policy.estimates import estimate, simulate
from policy.judge import plan
from policy.pool_snapshot import PoolSnapshot

SHAPES = (Shape(1, 8, 10), Shape(30, 300, 1_000), Shape(100, 1_000, 3_200))


def _simulate_to_limits(pool: PoolSnapshot) -> object:
    return simulate(pool, expected=False)


def _estimate_in_the_middle(pool: PoolSnapshot) -> object:
    return estimate(pool, _middle(pool))


def _middle(pool: PoolSnapshot) -> str:
    """The waiter whose turn is in the middle of the line."""
    order = plan(pool).order
    return order[len(order) // 2]


WHAT: dict[str, Callable[[PoolSnapshot], object]] = {
    "`plan()`": plan,
    "`simulate()` to the end, all to their time limits": _simulate_to_limits,
    "`estimate()` of the one in the middle, with its plan": _estimate_in_the_middle,
}

CUT_SECONDS = 20.0
"""A call that takes more CPU is stopped, and not tried again."""


class CutError(Exception):
    """The call has taken all the CPU time that it was given."""


def measure(*, rounds: int) -> Result:
    pools = {shape: snapshot(shape) for shape in SHAPES}
    spent: dict[tuple[str, Shape], list[float]] = {(name, shape): [] for name in WHAT for shape in SHAPES}
    for _ in range(rounds):
        for (name, shape), samples in spent.items():
            if not samples or samples[0] < CUT_SECONDS:
                samples.append(_cpu_of(WHAT[name], pools[shape]))
    return Result(
        title="The policy alone",
        question="How much CPU does a pass over a pool take, and running its queue forward, without any database?",
        method=f"{rounds} rounds over all rows, one call each, `time.process_time()`. The pools are generated: every quota is in use but for one unit, "
        "teams lend to each other in cohorts of six, two nodes are free, a third of what runs may be asked to leave.",
        limits="One process. Nothing is read or written.",
        rows=[_row(name, shape, samples) for (name, shape), samples in spent.items()],
        notes=[f"{shape}: a pass admits {len(plan(pool).admitted)}." for shape, pool in pools.items()],
    )


def _cpu_of(call: Callable[[PoolSnapshot], object], pool: PoolSnapshot) -> float:
    """Seconds of CPU; `CUT_SECONDS` or a little more for a call that was stopped."""
    begun = time.process_time()
    signal.signal(signal.SIGPROF, _cut)
    signal.setitimer(signal.ITIMER_PROF, CUT_SECONDS)
    try:
        call(pool)
    except CutError:
        return max(CUT_SECONDS, time.process_time() - begun)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return time.process_time() - begun


def _cut(_number: int, _frame: FrameType | None) -> None:
    raise CutError


def _row(name: str, shape: Shape, samples: list[float]) -> Row:
    if samples[0] >= CUT_SECONDS:
        return Row(name=f"{name}; {shape}", ours=f"more than {CUT_SECONDS:g} s of CPU, stopped")
    per_waiter = [sample / shape.waiters * 1e6 for sample in samples]
    return Row(
        name=f"{name}; {shape}",
        ours=f"{statistics.median(per_waiter):,.0f} µs per waiter ({min(per_waiter):,.0f}–{max(per_waiter):,.0f}), "
        f"{statistics.median(samples) * 1000:,.1f} ms in all",
    )
