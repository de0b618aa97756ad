"""When members of a sweep are stopped before their end, by a metric that they report. Pure.

The median rule is that of Google Vizier (Golovin et al., 2017, section 3.2.1), at tenths of the reported progress.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MINIMIZE, MAXIMIZE = "minimize", "maximize"
GOALS = (MINIMIZE, MAXIMIZE)
OTHERS_MIN = 3
"""Of fewer others the median says little."""
TENTH = 10
Milestones = Mapping[str, float]
"""The best value so far of a member's attempt at each tenth of its progress ("0" to "100") at which it reported one."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a member: its milestones, and the value by which it once reached the target."""

    milestones: Milestones
    reached: float | None = None

    @property
    def tenth(self) -> int:
        """How far it has come; -1 before it has reported anything."""
        return max(map(int, self.milestones), default=-1)

    def at(self, tenth: int) -> float | None:
        """The best value at a tenth; None where the member has not come that far, or had reported nothing by then."""
        if self.tenth < tenth:
            return None
        before = [int(known) for known in self.milestones if int(known) <= tenth]
        return self.milestones[str(max(before))] if before else None


@dataclass(frozen=True, slots=True)
class EarlyStop:
    """The metric, which way is better, and the rules."""

    metric: str
    goal: str = MINIMIZE
    target: float | None = None
    """Once a member reports it, the others are stopped."""
    worse_than_median_after: int | None = None
    """From this percentage of progress on a member is stopped that is worse than the median of the others there."""

    @classmethod
    def from_json(cls, value: Mapping[str, Any] | None) -> EarlyStop | None:
        if not value:
            return None
        return cls(
            metric=value["metric"],
            goal=value.get("goal") or MINIMIZE,
            target=value.get("target"),
            worse_than_median_after=value.get("worse_than_median_after"),
        )

    def better(self, one: float, other: float) -> float:
        """The better of two values."""
        return min(one, other) if self.goal == MINIMIZE else max(one, other)

    def reached(self, value: float) -> bool:
        """Whether a value is as good as the target, or better."""
        return self.target is not None and self.better(value, self.target) == value

    def after(self, milestones: Milestones, *, value: float, percentage: float | None) -> dict[str, float]:
        """The milestones after a report of the same attempt; one without a percentage counts for the last tenth, or 0."""
        known = {int(tenth): best for tenth, best in milestones.items()}
        at = max(known, default=0) if percentage is None else int(percentage // TENTH * TENTH)
        best = value
        for tenth, earlier in known.items():
            if tenth <= at:
                best = self.better(best, earlier)
        # Reports may overtake each other: one that comes late counts for what was reported after it, too.
        later = {tenth: self.better(then, value) for tenth, then in known.items() if tenth > at}
        return {str(tenth): each for tenth, each in sorted((known | later | {at: best}).items())}

    def stopped(self, members: Mapping[int, Standing], *, live: frozenset[int]) -> dict[int, str]:
        """Which of the live members are to be stopped, and why, in a sentence."""
        winner = next((key for key, member in members.items() if member.reached is not None), None)
        if winner is not None:
            value = members[winner].reached
            message = f"A member of its sweep reached {self.metric} {value:g}: the target is {self.target:g}."
            return dict.fromkeys(live - {winner}, message)
        if self.worse_than_median_after is None:
            return {}
        tenths = {members[key].tenth for key in live if key in members}
        there = {
            tenth: sorted(value for member in members.values() if (value := member.at(tenth)) is not None)
            for tenth in tenths
            if tenth >= self.worse_than_median_after
        }
        return {
            key: why for key in sorted(live) if key in members and (why := self._behind(members[key], there))
        }

    def _behind(self, member: Standing, there: Mapping[int, Sequence[float]]) -> str:
        """Why a member is to be stopped; `there` are the sorted values of all at each tenth, its own among them."""
        values = there.get(member.tenth, ())
        if len(values) <= OTHERS_MIN:
            return ""
        mine = member.milestones[str(member.tenth)]
        middle = _median_without(values, bisect_left(values, mine))
        if self.better(mine, middle) == mine:
            return ""
        own, theirs = (
            (f"{mine:g}", f"{middle:g}") if f"{mine:g}" != f"{middle:g}" else (repr(mine), repr(middle))
        )
        return (
            f"{self.metric} {own} at {member.tenth} % is worse than {theirs},"
            f" the median of {len(values) - 1} other members there."
        )


def _median_without(values: Sequence[float], left_out: int) -> float:
    """The median of sorted values but the one at that place."""
    count = len(values) - 1
    half = [place + (place >= left_out) for place in ((count - 1) // 2, count // 2)]
    return (values[half[0]] + values[half[1]]) / 2


def best_of(milestones: Milestones) -> float | None:
    """A member's best value so far."""
    return milestones[max(milestones, key=int)] if milestones else None
