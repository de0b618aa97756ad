"""Free capacity over time: the room of a pool as each holding ends at its full time limit."""

from __future__ import annotations

from collections.abc import Sequence

from policy.free_capacity import FreeCapacity, Holding
from policy.ordering import TeamQueue
from policy.pool_snapshot import Waiter

_STEP = 8
"""Ends between two rooms that are kept."""

End = tuple[int, str, Holding]


class CapacityTimeline:
    """FreeCapacity only grows with time, so that the first time with room for a waiter is found by halving.

    It is followed only as far as callers ask, and every few ends a room is kept to go on from.
    """

    __slots__ = ("_ends", "_kept", "_times", "start")

    def __init__(self, room: FreeCapacity, start: int, ends: Sequence[End]) -> None:
        """`room` at `start`, when all that end before it have ended; `ends` first to last."""
        self._ends = ends
        self.start = start
        first = room.copy()
        done = self._release(first, 0, start)
        self._kept: list[tuple[int, FreeCapacity]] = [(done, first)]
        self._times = [start]

    def first(self, place: int, waiter: Waiter) -> tuple[int, FreeCapacity] | None:
        """The first time with room for a waiter of the account at `place`, and a copy of the room as of then; None
        where there never is.
        """
        low = high = 0
        step = 1
        while self._kept[high][1].lack(place, waiter):
            low = high
            high = self._extend(high + step)
            step *= 2
            if high == low:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            if self._kept[middle][1].lack(place, waiter):
                low = middle
            else:
                high = middle
        return self._between(low, place, waiter)

    def _between(self, number: int, place: int, waiter: Waiter) -> tuple[int, FreeCapacity]:
        """Go on from one kept room, end by end; somewhere on the way the waiter fits."""
        done, kept = self._kept[number]
        time, room = self._times[number], kept.copy()
        while room.lack(place, waiter):
            time = self._ends[done][0]
            done = self._release(room, done, time)
        return time, room

    def _extend(self, place: int) -> int:
        """Keep rooms up to `place`, or as many as there are ends for; the place of the last there is."""
        while len(self._kept) <= place:
            done, room = self._kept[-1]
            if done >= len(self._ends):
                break
            last = self._ends[min(done + _STEP, len(self._ends)) - 1][0]
            following = room.copy()
            done = self._release(following, done, last)
            self._kept.append((done, following))
            self._times.append(last)
        return len(self._kept) - 1

    def _release(self, room: FreeCapacity, done: int, time: int) -> int:
        ends, count = self._ends, len(self._ends)
        while done < count and ends[done][0] <= time:
            holding = ends[done][2]
            if not holding.leaving:
                room.release(holding)
            done += 1
        return done


class Protected:
    """A waiter that must not be delayed. `room` is what is free at its shadow, before it starts.

    `ready`: there is room for it at once, or when those that are leaving have left. `borrows`: it would use what others
    lend. `elder`: it has waited longest, and is protected from all that came later, whatever their share.
    """

    __slots__ = (
        "_gives_way",
        "_spare_cards",
        "_spare_pods",
        "_spare_units",
        "elder",
        "line",
        "ready",
        "room",
        "shadow",
        "waiter",
    )

    def __init__(
        self,
        line: TeamQueue,
        waiter: Waiter,
        shadow: int,
        room: FreeCapacity,
        *,
        elder: bool = False,
        ready: bool = False,
        borrows: bool = False,
    ) -> None:
        self.line, self.waiter, self.shadow, self.room = line, waiter, shadow, room
        self.elder, self.ready = elder, ready
        # A run that was made to leave must not keep the one it left for from its place.
        self._gives_way = borrows and waiter.preemptible
        self._measure()

    def _measure(self) -> None:
        room, waiter = self.room, self.waiter
        self._spare_units = room.tree.available_at(self.line.place) - waiter.units
        self._spare_cards = room.cards - waiter.units * room.per_unit
        pods = room.blocks.pods(waiter.units_each, waiter.beside) if waiter.units_each else 0
        self._spare_pods = pods - waiter.pods if waiter.units_each else 0

    def binds(self, waiter: Waiter | None, elder: Waiter | None, *, borrows: bool) -> bool:
        """Whether `waiter` must not delay this one: always, where its turn comes later, unless it is the `elder` or this
        one is. An elder is protected from those of no higher priority that came later. Among equals that fit at once shares
        decide, so that an elder for which there is room already keeps it only from smaller ones, which would take it piece
        by piece.
        """
        own = self.waiter
        if waiter is None or not (self.elder or waiter is elder):
            return True
        if self.elder and ((self.ready and waiter.units >= own.units) or (self._gives_way and not borrows)):
            return False
        before = (-own.priority, own.queued_at, own.sequence)
        if waiter is elder:
            # A waiter that can only borrow has the lower standing, however old.
            if own.units > self.room.tree.guaranteed[self.line.place]:
                return False
            return before < (-waiter.priority, waiter.queued_at, waiter.sequence)
        return waiter.priority <= own.priority and before[1:] < (waiter.queued_at, waiter.sequence)

    @property
    def fits(self) -> bool:
        """Whether there is still room for it at its shadow."""
        return min(self._spare_cards, self._spare_pods, self._spare_units) >= 0

    def reached_by(self, holding: Holding) -> bool:
        """Whether it still holds its units at the shadow."""
        return holding.ends is None or holding.ends > self.shadow

    def met_by(self, holding: Holding) -> bool:
        """Whether a run that starts now would be there at the shadow, or leave in that very second."""
        return holding.ends is None or holding.ends >= self.shadow

    def harmed_by(self, holding: Holding) -> bool:
        """Whether there is no room any more if it holds its units then."""
        if self.loses_pods(holding):
            return True
        if holding.lent:
            return False
        if holding.units * self.room.per_unit > self._spare_cards:
            return True
        tree, place, other = self.room.tree, self.line.place, holding.line.place
        if holding.units <= self._spare_units or tree.root[place] != tree.root[other]:
            return False
        tree.change_at(other, holding.units)
        short = tree.available_at(place) < self.waiter.units
        tree.change_at(other, -holding.units)
        return short

    def loses_pods(self, holding: Holding) -> bool:
        """Whether its own pods need the places of the holding."""
        waiter = self.waiter
        if not waiter.units_each:
            return False
        return self.room.blocks.lost(holding.places, waiter.units_each, waiter.beside) > self._spare_pods

    def take(self, holding: Holding) -> None:
        self.room.take(holding)
        self._measure()

    def release(self, holding: Holding) -> None:
        self.room.release(holding)
        self._measure()
