"""Whether a run comes near its time limit, and how much longer it may ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Final

from controller.reconcile.decide import seconds_with
from controller.services import longest_time_limit
from jobs.serializers import TIME_LIMIT_SECONDS_MAX
from workloads.models import Attempt, Workload
from workloads.states import Phase

WARNED_FROM: Final = Fraction(4, 5)
LONGER_BY: Final = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class RunningOut:
    """`left` until it is stopped; `longer` is the time limit that is offered instead, None where it has the longest
    there may be. In seconds.
    """

    left: int
    longer: int | None


def running_out(workload: Workload, attempts: Sequence[Attempt], *, now: datetime) -> RunningOut | None:
    """None while less than four fifths of its time limit are used, and of what does not run; `attempts` are its."""
    limit = workload.time_limit_seconds
    if limit is None or workload.phase != Phase.RUNNING.value:
        return None
    started = next((attempt.started_at for attempt in attempts if attempt.ended_at is None), None)
    if started is None:
        return None
    used = seconds_with(workload.used_seconds, started, now)
    if used < limit * WARNED_FROM:
        return None
    longest = longest_time_limit(workload)
    most = min(TIME_LIMIT_SECONDS_MAX, longest if longest is not None else TIME_LIMIT_SECONDS_MAX)
    longer = min(limit + int(limit * LONGER_BY), most)
    return RunningOut(left=max(0, limit - used), longer=longer if longer > limit else None)
