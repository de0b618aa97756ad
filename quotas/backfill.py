"""Who may go past somebody that waits: only those who cannot delay the first waiter of any team ahead of them.

A protected waiter has a shadow: the first time at which there is room for it, if everybody runs to the full time
limit. Who ends before that, or leaves it room even then, does no harm. Where no time is known because somebody
holds what is missing without end, there is nothing to protect.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from quotas.ordering import Line
from quotas.room import Holding, Pool, Room
from quotas.supply import Waiter
from quotas.timeline import End, Fits, Timeline


@dataclass(slots=True, eq=False)
class Protected:
    """The first blocked waiter of a team. `room` is what is free at its shadow, before it starts."""

    line: Line
    waiter: Waiter
    shadow: int
    room: Room


@dataclass(frozen=True)
class Denial:
    """`longest`: how many seconds it may run at most to start now; 0 where no limit would be short enough."""

    longest: int
    behind: Protected | None


class Guard:
    """What one pass has promised to those ahead."""

    __slots__ = (
        "_extra",
        "_grace",
        "_pool",
        "_protected",
        "_reserved",
        "_timeline",
        "_unknown",
        "after",
        "waiting",
    )

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._grace = pool.now + pool.supply.rules.grace_seconds
        self._protected: list[Protected] = []
        self._unknown: list[tuple[Line, Waiter, Protected | None]] = []
        self._reserved: list[Holding] = []
        self._extra: list[End] = []
        self._timeline: Timeline | None = None
        """None since something was started or reserved."""
        self.waiting: set[int] = set()
        """Lines whose first blocked waiter is known."""
        self.after = pool.room
        """What is free once everybody who is leaving has left; the pool's own room while nobody is."""
        for holding in pool.leaving:
            self.let_go(holding)

    def let_go(self, holding: Holding) -> None:
        """What a leaving one holds counts as free within the grace period."""
        self._timeline = None
        if self.after is self._pool.room:
            self.after = self._pool.room.copy()
        self.after.release(holding)
        for each in self._protected:
            if holding.ends is None or holding.ends > each.shadow:
                each.room.release(holding)

    def keep(self, holding: Holding) -> None:
        """Undo `let_go`."""
        self._timeline = None
        self.after.take(holding)
        for each in self._protected:
            if holding.ends is None or holding.ends > each.shadow:
                each.room.take(holding)

    def protect(self, line: Line, waiter: Waiter, behind: Protected | None) -> None:
        """Somebody waits: the first of each line must not be delayed by those behind it."""
        if line.index not in self.waiting:
            self.waiting.add(line.index)
            self._unknown.append((line, waiter, behind))

    def start(self, holding: Holding) -> Denial | None:
        """Count one that starts now, or say why it must not. Its places are taken in the pool's room already."""
        denial = self._spare(holding)
        if denial is not None:
            return denial
        if self.after is not self._pool.room and not self._share(holding):
            self._withdraw(holding, self._protected)
            return Denial(0, None)
        self._timeline = None
        return None

    def reserve(self, holding: Holding) -> Denial | None:
        """Count one that starts when those who are leaving have left; its places are taken of `after`."""
        denial = self._spare(holding)
        if denial is None:
            self._timeline = None
            self.after.count(holding, holding.units)
            self._reserved.append(holding)
            if holding.ends is not None:
                self._extra.append((holding.ends, holding.id, holding))
        return denial

    def _spare(self, holding: Holding) -> Denial | None:
        """Take of what is free at every shadow that it reaches, unless one of the protected would not fit then."""
        for number, each in enumerate(self._protected):
            if holding.ends is not None and holding.ends <= each.shadow:
                continue
            each.room.take(holding)
            if each.room.lack(each.line.place, each.waiter):
                self._withdraw(holding, self._protected[: number + 1])
                return Denial(self._longest(holding, each.shadow), each)
        return None

    def _longest(self, holding: Holding, shadow: int) -> int:
        """Seconds after which it would be in the way of somebody."""
        for each in self._protected:
            if each.shadow < shadow:
                each.room.take(holding)
                if each.room.lack(each.line.place, each.waiter):
                    shadow = each.shadow
                each.room.release(holding)
        return max(0, shadow - holding.since)

    @staticmethod
    def _withdraw(holding: Holding, protected: Iterable[Protected]) -> None:
        for each in protected:
            if holding.ends is None or holding.ends > each.shadow:
                each.room.release(holding)

    def _share(self, holding: Holding) -> bool:
        """Take of `after` too, moving what is reserved to other nodes where need be."""
        after = self.after
        if holding.line.place >= 0 and not holding.lent:
            if holding.units > after.tree.available_at(holding.line.place):
                return False
            if holding.units * after.per_unit > after.cards:
                return False
        if after.blocks.has(holding.places):
            after.take(holding)
            return True
        blocks = after.blocks.copy()
        for each in self._reserved:
            blocks.release(each.places)
        blocks.take(holding.places)
        moved = []
        for each in self._reserved:
            waiter = each.waiter
            places = blocks.place(waiter.units_each, waiter.pods) if waiter else None
            if places is None:
                return False
            moved.append(places)
        for each, places in zip(self._reserved, moved, strict=True):
            each.places = places
        after.blocks = blocks
        after.count(holding, holding.units)
        return True

    def look_ahead(self) -> None:
        """Find the shadows not known yet; before anything is taken for the one that may start."""
        wanted, self._unknown = self._unknown, []
        for line, waiter, behind in wanted:
            found = self._now_or_later().first(_beside(self._pool, line, waiter, behind))
            if found is not None:
                self._protected.append(Protected(line, waiter, *found))

    def _now_or_later(self) -> Timeline:
        if self._timeline is None:
            nobody_leaves = self.after is self._pool.room
            ends = self._pool.ends
            if self._extra:
                ends = sorted(ends + self._extra, key=_by_end)
            self._timeline = Timeline(self.after, self._pool.now if nobody_leaves else self._grace, ends)
        return self._timeline


def _beside(pool: Pool, line: Line, waiter: Waiter, behind: Protected | None) -> Fits:
    """Whether there is room for the waiter; from the shadow on of the one it must not delay, beside that one."""
    place = line.place
    if behind is None:
        return lambda room, time: not room.lack(place, waiter)
    first, since = behind, behind.shadow
    ends = None if first.waiter.seconds is None else since + first.waiter.seconds

    def fits(room: Room, time: int) -> bool:
        if time < since:
            return False
        if ends is not None and time >= ends:
            return not room.lack(place, waiter)
        if room.lack(place, waiter):
            return False
        both = room.copy()
        places = both.blocks.place(first.waiter.units_each, first.waiter.pods)
        if places is None:
            return False
        both.count(pool.holding_of(first.line, first.waiter, (), start=since, lent=False), first.waiter.units)
        return not both.lack(place, waiter)

    return fits


def _by_end(entry: End) -> tuple[int, str]:
    return entry[:2]
