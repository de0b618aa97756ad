"""What is free when: the room of a pool as one holding after another ends at its full time limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quotas.room import Holding, Room

_STEP = 8
"""Ends between two rooms that are kept."""

End = tuple[int, str, Holding]
Fits = Callable[[Room, int], bool]


class Timeline:
    """Room only grows with time, so that the first time with room for somebody is found by halving.

    It is followed only as far as somebody asks, and every few ends a room is kept to go on from.
    """

    __slots__ = ("_ends", "_kept", "_times")

    def __init__(self, room: Room, start: int, ends: Sequence[End]) -> None:
        """`room` at `start`, when all that end before it have ended; `ends` first to last."""
        self._ends = ends
        first = room.copy()
        done = self._release(first, 0, start)
        self._kept: list[tuple[int, Room]] = [(done, first)]
        self._times = [start]

    def first(self, fits: Fits) -> tuple[int, Room] | None:
        """The first time for which `fits` says yes, as it then says for every later one, and a room of its own as
        of then; None where it never does.
        """
        low = high = 0
        step = 1
        while not fits(self._kept[high][1], self._times[high]):
            low = high
            high = self._extend(high + step)
            step *= 2
            if high == low:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            if fits(self._kept[middle][1], self._times[middle]):
                high = middle
            else:
                low = middle
        return self._between(low, fits)

    def _between(self, place: int, fits: Fits) -> tuple[int, Room]:
        """From one kept room on, end by end; somewhere on the way it fits."""
        done, kept = self._kept[place]
        time, room = self._times[place], kept.copy()
        while not fits(room, time):
            time = self._ends[done][0]
            done = self._release(room, done, time)
        return time, room

    def _extend(self, place: int) -> int:
        """Keep rooms up to that one, or as many as there are ends for; the last there is."""
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

    def _release(self, room: Room, done: int, time: int) -> int:
        ends, count = self._ends, len(self._ends)
        while done < count and ends[done][0] <= time:
            holding = ends[done][2]
            if not holding.leaving:
                room.release(holding)
            done += 1
        return done
