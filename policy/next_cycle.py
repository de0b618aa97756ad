"""The time at which the passing of time alone changes what a pass decides, so that the next pass is due."""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter

from policy.backfill import PATIENCE_SECONDS
from policy.free_capacity import FreeCapacity, Holding, PoolInTime
from policy.ordering import TeamQueue
from policy.pool_snapshot import Waiter
from policy.preemption import lenders


class Moments:
    """The moments that one pass waits for. All times are seconds since the snapshot's `now`."""

    __slots__ = ("_of_age", "_pool", "_young")

    def __init__(self, pool: PoolInTime) -> None:
        self._pool = pool
        self._of_age: list[int] = []
        """When a run that others need to leave could be made to leave."""
        self._young: dict[int, list[tuple[int, Holding]]] | None = None
        """By line, the holdings that the minimum run time protects, and until when."""

    def note_start(self, waiter: Waiter) -> None:
        """The waiter is admitted now; another that waits for it to leave waits for its minimum run time at least."""
        if waiter.preemptible:
            self._of_age.append(self._pool.now + self._pool.snapshot.rules.minimum_run_seconds)

    def note_wait(self, after: FreeCapacity, line: TeamQueue, waiter: Waiter) -> None:
        """No run can be made to leave for the waiter now: note when the minimum run time of one that could is over."""
        if self._young is None:
            self._young = self._protected()
        if line.place < 0 or not self._young:
            return
        times = [at for at, holding in self._young.get(line.index, ()) if holding.priority < waiter.priority]
        if after.tree.within_guaranteed(line.place, waiter.units):
            for other in lenders(self._pool, after, line):
                times += [at for at, holding in self._young.get(other.index, ()) if not holding.lent]
        if times:
            self._of_age.append(min(times))

    def first(self) -> int | None:
        """The first time at which the minimum run time of a run is over, a waiter has waited long, or a run
        ends, as the estimates have it, at once or within the grace period of a run that would leave; None where none of
        these is to come.
        """
        pool = self._pool
        times = self._of_age.copy()
        for notice in (0, pool.snapshot.rules.grace_seconds):
            later = bisect_right(pool.ends, pool.now + notice, key=itemgetter(0))
            times += [ends_at - notice for ends_at, _, _ in pool.ends[later : later + 1]]
        times += [
            entry[1] + PATIENCE_SECONDS - pool.snapshot.now
            for line in pool.lines.lines
            for entry in line.waiters
            if entry[3] not in pool.holdings
        ]
        return min((moment for moment in times if moment > pool.now), default=None)

    def _protected(self) -> dict[int, list[tuple[int, Holding]]]:
        minimum, young_by_line = self._pool.snapshot.rules.minimum_run_seconds, {}
        for index, held in self._pool.victims.items():
            young = [
                (holding.since + minimum, holding)
                for holding in held
                if holding.since + minimum > self._pool.now and not holding.leaving
            ]
            if young:
                young_by_line[index] = young
        return young_by_line
