"""Kills the portal's processes: at each named point in turn, and at random instants; restarts them at once."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.crash.fleet import Fleet

# Every named point (foundation.crashpoints), with the process that passes it.
POINTS = {
    "web": ("submit-committed",),
    "worker": (
        "admitted",
        "attempt-opened",
        "primary-created",
        "dependant-created",
        "primary-let-go",
        "acted",
        "recorded",
    ),
    "watcher": ("watch-recorded", "settle-posted", "usage-recorded", "logs.file_stored"),
}
RANDOM = ("worker", "watcher", "web", "beat")
# The worker does most of the work, so most of the danger is there.
_WEIGHTS = (4, 2, 2, 1)
RANDOM_AFTER_SECONDS = (0.3, 3.0)
REACHED_SECONDS = 150.0
WIPE_EVERY_SECONDS = (3.0, 9.0)


@dataclass(frozen=True)
class Kill:
    """At the named point, or without one at a random instant."""

    kind: str
    point: str = ""


def plan(count: int, chance: random.Random) -> list[Kill]:
    """The kills: every point once as far as `count` goes, then points and random instants by chance."""
    points = [Kill(kind, point) for kind, names in POINTS.items() for point in names]
    chance.shuffle(points)
    kills = points[:count]
    while len(kills) < count:
        if chance.random() < 0.3:
            kills.append(chance.choice(points))
        else:
            kills.append(Kill(chance.choices(RANDOM, _WEIGHTS)[0]))
    return kills


@dataclass
class _Slot:
    """One kind of process: the process that runs, what will end it, and what comes after."""

    kind: str
    todo: list[Kill]
    now: Kill | None = None
    began: float = 0.0
    due: float = 0.0


@dataclass
class Storm:
    fleet: Fleet
    kills: Iterable[Kill]
    chance: random.Random
    # How many kills there may have been by now: where processes start slowly, each would be killed before it did a thing.
    allowed: Callable[[], int]
    done: Counter[Kill] = field(default_factory=Counter)
    wipes: int = 0
    seconds: float = 0.0

    def run(self) -> None:
        """Start the processes and kill them as planned; at the end all run, without crash points."""
        begun = time.monotonic()
        kills = list(self.kills)
        slots = [_Slot(kind, [kill for kill in kills if kill.kind == kind]) for kind in RANDOM]
        for slot in slots:
            self._next(slot)
        wipe_at = begun + self.chance.uniform(*WIPE_EVERY_SECONDS)
        while any(slot.now for slot in slots):
            time.sleep(0.02)
            for slot in slots:
                if slot.now is not None and self._is_over(slot, slot.now):
                    self.fleet.kill(slot.kind)
                    self.done[slot.now] += 1
                    self._next(slot)
            if time.monotonic() > wipe_at:
                self.fleet.wipe_broker()
                self.wipes += 1
                wipe_at = time.monotonic() + self.chance.uniform(*WIPE_EVERY_SECONDS)
        self.seconds = time.monotonic() - begun

    def _next(self, slot: _Slot) -> None:
        slot.now = slot.todo.pop(0) if slot.todo else None
        self.fleet.spawn(slot.kind, crash_point=slot.now.point if slot.now else "")
        slot.began = time.monotonic()
        slot.due = slot.began + self.chance.uniform(*RANDOM_AFTER_SECONDS)

    def _is_over(self, slot: _Slot, kill: Kill) -> bool:
        if kill.point:
            died = self.fleet.has_died(slot.kind)
            in_time = died or time.monotonic() - slot.began < REACHED_SECONDS
            assert in_time, f"{kill} was not reached; runs stand at {self.fleet.standings()}"
            return died
        assert not self.fleet.has_died(slot.kind), f"{slot.kind} ended by itself"
        return time.monotonic() >= slot.due and self.done.total() < self.allowed()

    def report(self) -> str:
        kinds = Counter[str]()
        for kill, times in self.done.items():
            kinds[f"{kill.kind} at {kill.point or 'a random instant'}"] += times
        lines = "".join(f"\n  {times:4d}  {what}" for what, times in sorted(kinds.items()))
        return (
            f"{self.done.total()} kills and {self.wipes} wipes of the broker in {self.seconds:.0f} s:{lines}"
        )
