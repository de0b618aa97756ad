"""The load of Kueue's own scheduler benchmark: who submits what, and when.

Parameters: kubernetes-sigs/kueue, test/performance/scheduler/configs/baseline/generator.yaml; what is asked of the
answer: rangespec.yaml beside it (both of 2026-07). Every class of every queue is created by itself, one after
another, each after its interval.
"""

from __future__ import annotations

from dataclasses import dataclass

from workloads.states import Priority

COHORTS, QUEUES = 5, 6
NOMINAL, BORROWING_LIMIT = 20, 100
WALL_MS_MAX = 425_000
USAGE_MIN = 0.55


@dataclass(frozen=True)
class Kind:
    """A class of workloads. Its priorities 50, 100 and 200 are this portal's low, normal and high."""

    name: str
    count: int
    interval: float
    units: int
    seconds: float
    priority: Priority
    wait_max: float
    """Mean seconds from creation to admission that Kueue allows itself."""


KINDS = (
    Kind("large", 50, 1.2, 20, 1.0, Priority.HIGH, 11.0),
    Kind("medium", 100, 0.5, 5, 0.5, Priority.NORMAL, 90.0),
    Kind("small", 350, 0.1, 1, 0.2, Priority.LOW, 260.0),
)
PER_QUEUE = sum(kind.count for kind in KINDS)
TOTAL = COHORTS * QUEUES * PER_QUEUE


@dataclass(frozen=True)
class Arrival:
    """One workload of the load: `at` seconds after the beginning, in the queue of that number."""

    at: float
    queue: int
    kind: Kind


def arrivals(total: int) -> list[Arrival]:
    """The load in the order of arrival; with less than the whole `total`, the first part of every class."""
    share = total / TOTAL
    load = [
        Arrival((number + 1) * kind.interval, queue, kind)
        for queue in range(COHORTS * QUEUES)
        for kind in KINDS
        for number in range(max(1, round(kind.count * share)))
    ]
    return sorted(load, key=lambda arrival: arrival.at)
