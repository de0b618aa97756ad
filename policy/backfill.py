"""Which waiters may start before others that wait: only those that cannot delay the first waiter of a team ahead of them.

A protected waiter has a shadow: the first time at which there is room for it, if every run takes its full time
limit. A run that ends before that second, or leaves the waiter room even then, does no harm. To end in that very second is
too late: of runs with one length, those that start now end with those that started just before, and each would put the
shadow off for as long as more come. Where no time is known because a workload without end holds what is missing, there is
nothing to protect.

A waiter that has waited long is protected from all that came later, even where a smaller share gives those their turn first:
shares that meet would take turns for ever, and leave a gang of whole nodes no node.

The first waiter is protected from its own team in one more way: while its team uses so much that it would borrow, other teams have
their turns first; its own must not keep it there past the time at which their guaranteed quota could take it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from policy.free_capacity import FreeCapacity, Holding, PoolInTime
from policy.ordering import TeamQueue, in_line
from policy.packing import Blocks, Places
from policy.pool_snapshot import Waiter
from policy.timeline import CapacityTimeline, End, Protected

PATIENCE_SECONDS = 3_600
"""A waiter that waits longer than this may become the elder of a pass."""


class Delayed(Enum):
    """Which waiter a start would delay; such a start is denied."""

    AHEAD = 1
    """The first waiter of a team whose turn comes earlier."""
    OWN = 2
    """A waiter of its own team that came first, and waits for what the team's guaranteed quota can take."""
    ELDER = 3


@dataclass(slots=True)
class OwnQuota:
    """At `free_at` a team uses so little that `spare` is left of its guaranteed quota beside its first waiter."""

    waiter: Waiter
    free_at: int
    spare: int

    def harmed_by(self, holding: Holding) -> bool:
        """Whether the holding takes what the waiter needs; only those behind it in the line must leave it that."""
        behind = holding.waiter is None or in_line(self.waiter)[:4] < in_line(holding.waiter)[:4]
        return behind and self._met_by(holding) and holding.units > self.spare

    def take(self, holding: Holding, *, back: bool = False) -> None:
        if self._met_by(holding):
            self.spare += holding.units if back else -holding.units

    def _met_by(self, holding: Holding) -> bool:
        return not holding.lent and (holding.ends is None or holding.ends >= self.free_at)


def own_quota(
    pool: PoolInTime, after: FreeCapacity, line: TeamQueue, waiter: Waiter, *, elder: bool
) -> OwnQuota | None:
    """When the guaranteed quota could take the waiter; None where it never could. Where it could now, this counts for the
    elder only: for others a short run of their own team that goes first costs no more than their turn.
    """
    spare = after.tree.guaranteed[line.place] - waiter.units
    used = after.tree.used[line.place]
    if spare < 0:
        return None
    if used <= spare:
        return OwnQuota(waiter, pool.now, spare - used) if elder else None
    for ends_at, _, holding in pool.ends:
        if holding.line is line and not holding.lent and not holding.leaving:
            used -= holding.units
            if used <= spare:
                return OwnQuota(waiter, ends_at, spare - used)
    return None


@dataclass(frozen=True)
class Denial:
    """`longest`: how many seconds the run may take at most to start now; 0 where no limit would be short enough."""

    longest: int
    whom: Delayed = Delayed.AHEAD
    pods_until: int | None = None
    """Until when its pods alone, at their places, are in the way of a waiter that all others come after."""


class Guard:
    """What one pass has promised to the waiters ahead."""

    __slots__ = (
        "_eldest",
        "_entitled",
        "_extra",
        "_first",
        "_grace",
        "_known",
        "_most",
        "_moved",
        "_own",
        "_pool",
        "_protected",
        "_reserved",
        "_timeline",
        "_unknown",
        "after",
        "elder",
        "waiting",
    )

    def __init__(self, pool: PoolInTime, *, most: int | None = None) -> None:
        """`most`: in how many lines the first waiter is protected; None for all of them."""
        self._pool = pool
        self._most = most
        self._grace = pool.now + pool.snapshot.rules.grace_seconds
        self._protected: list[Protected] = []
        self._unknown: list[tuple[TeamQueue, Waiter, bool]] = []
        self.elder: Waiter | None = None
        """The waiter that has waited longest."""
        self._eldest: list[tuple[TeamQueue, Waiter]] = []
        self._reserved: list[Holding] = []
        self._extra: list[End] = []
        self._entitled: set[int] = set()
        """Lines in which a waiter reserved what its guaranteed quota covers; the quota must go on to cover it."""
        self._own: dict[int, OwnQuota | None] = {}
        """For lines whose first blocked waiter waits for their guaranteed quota; None where that has no end."""
        self._first: dict[int, Waiter] = {}
        self._timeline: CapacityTimeline | None = None
        """None after something was started or reserved."""
        self._known = self._moved = 0
        """How many shadows were determined and places reserved so far, and how many shadows were given up for later ones."""
        self.waiting: set[int] = set()
        """Lines whose first blocked waiter is known."""
        self.after = pool.room
        """What is free once all that are leaving have left; the pool's own room while none is leaving."""
        for holding in pool.leaving:
            self.let_go(holding)

    @property
    def promised(self) -> int:
        """Another number once a denial may not hold any more. In a quick pass: once a waiter may even run longer."""
        return self._known if self._most is None else self._moved

    def let_go(self, holding: Holding) -> None:
        """What a leaving run holds counts as free within the grace period."""
        self._timeline = None
        if self.after is self._pool.room:
            self.after = self._pool.room.copy()
        self.after.release(holding)
        for protected in self._protected:
            if protected.reached_by(holding):
                protected.release(holding)

    def keep(self, holding: Holding) -> None:
        """Undo `let_go`."""
        self._timeline = None
        self.after.take(holding)
        for protected in self._protected:
            if protected.reached_by(holding):
                protected.take(holding)

    def harm_anew(self, holding: Holding) -> bool:
        """Whether a waiter that makes others leave does harm, as in `harm_of`, now that they have left. A waiter ahead may
        start sooner by that, and must not be delayed then either: the next pass would give it what they left, and others
        would have to leave again.
        """
        self._timeline = None
        self.after.blocks.release(holding.places)
        borrows = holding.waiter is not None and not self._pool.within_guaranteed(
            holding.line, holding.waiter
        )
        fresh = []
        harmed = False
        for protected in self._protected:
            again = self._find(protected.line, protected.waiter, elder=protected.elder) or protected
            fresh.append(again)
            if again.waiter is not holding.waiter and again.met_by(holding) and again.harmed_by(holding):
                harmed = again.binds(holding.waiter, None, borrows=borrows)
                if harmed:
                    break
        self.after.blocks.take(holding.places)
        if not harmed:
            self._protected = fresh
        return harmed

    def protect(self, line: TeamQueue, waiter: Waiter) -> None:
        """The waiter goes on waiting: the first of each line must not be delayed by those behind it."""
        if line.index in self.waiting:
            return
        self.waiting.add(line.index)
        if waiter is self.elder:
            # From here on it is protected from all others, as every first waiter is.
            self._unknown = [(at, who, elder and who is not waiter) for at, who, elder in self._unknown]
            for protected in self._protected:
                protected.elder = protected.elder and protected.waiter is not waiter
        elif self._most is None or len(self.waiting) <= self._most:
            self._unknown.append((line, waiter, False))

    def wait_for_own(self, line: TeamQueue, waiter: Waiter) -> None:
        """A waiter that its team's guaranteed quota could take goes on waiting: the first of each line counts."""
        if line.place < 0 or line.index in self._own:
            return
        if waiter.units <= self.after.tree.guaranteed[line.place]:
            self._first.setdefault(line.index, waiter)

    def honour(self, eldest: Iterable[tuple[TeamQueue, Waiter]]) -> None:
        """The waiters that have waited longest: the first of them that can ever start is the elder."""
        self._eldest = list(eldest)
        self._next_elder()

    def _next_elder(self) -> None:
        self.elder = None
        if self._eldest:
            line, self.elder = self._eldest.pop(0)
            self._unknown.append((line, self.elder, True))

    def start(self, holding: Holding) -> Denial | None:
        """Count a run that starts now, or say why it must not. Its places are taken in the pool's room already."""
        denial = self.harm_of(holding)
        if denial is not None:
            return denial if self._may_be_shorter(holding) else replace(denial, longest=0)
        self._take(holding)
        if self.after is not self._pool.room and not self._share(holding):
            for protected in self._met(holding):
                protected.release(holding)
            own = self._own_quota(holding.line)
            if own is not None:
                own.take(holding, back=True)
            return Denial(0)
        self._timeline = None
        return None

    def reserve(self, holding: Holding) -> None:
        """Count a run that harms no waiter once those that are leaving have left; its places are taken in `after` already."""
        waiter = holding.waiter
        if waiter is not None and self.after.tree.within_guaranteed(holding.line.place, waiter.units):
            self._entitled.add(holding.line.index)
        self._take(holding)
        self._timeline = None
        self.after.count(holding, holding.units)
        self._reserved.append(holding)
        self._known += 1
        if holding.ends is not None:
            self._extra.append((holding.ends, holding.id, holding))

    def harm_of(self, holding: Holding, *, later: bool = False) -> Denial | None:
        """The denial, if a protected waiter that it must not delay would not fit at its shadow any more.

        `later`: it starts when others have left. Then the elder goes past no other waiter: by that time it may not be the
        elder any more, and a run would have left in vain.
        """
        elder = None if later else self.elder
        own = self._own_quota(holding.line)
        if own is not None and not own.harmed_by(holding):
            own = None
        waiter = holding.waiter
        borrows = waiter is not None and not self._pool.within_guaranteed(holding.line, waiter)
        harmed = [
            protected
            for protected in self._met(holding)
            if protected.harmed_by(holding) and protected.binds(waiter, elder, borrows=borrows)
        ]
        first = min(harmed, key=_by_shadow, default=None)
        if own is not None:
            until = own.free_at if first is None else min(own.free_at, first.shadow)
            return Denial(max(0, until - 1 - holding.since), Delayed.OWN)
        if first is None:
            return None
        pods = harmed[0].shadow if harmed[0].loses_pods(holding) and not harmed[0].elder else None
        whom = Delayed.ELDER if first.elder else Delayed.AHEAD
        return Denial(max(0, first.shadow - 1 - holding.since), whom, pods)

    def _may_be_shorter(self, holding: Holding) -> bool:
        """Whether a shorter time limit could help: not where there is no room beside those that are reserved. It is not
        checked where no one gets to read the answer.
        """
        unread = self._most is not None or self.after is self._pool.room
        return unread or self._may_share(holding)

    def _met(self, holding: Holding) -> list[Protected]:
        waiter = holding.waiter
        return [
            protected
            for protected in self._protected
            if protected.met_by(holding) and protected.waiter is not waiter
        ]

    def _take(self, holding: Holding) -> None:
        """Take what it holds from what is free at every shadow that it reaches."""
        for protected in self._met(holding):
            protected.take(holding)
        own = self._own_quota(holding.line)
        if own is not None:
            own.take(holding)
        if self.elder is not None:
            self._settle(self.elder, holding.waiter)

    def _settle(self, elder: Waiter, started: Waiter | None) -> None:
        """The elder is served, or a waiter went past another that it need not wait for: find the shadow of the other again."""
        for protected in self._protected.copy():
            if protected.waiter is elder and started is elder:
                self._protected.remove(protected)
            elif not protected.fits:
                self._moved += 1
                self._protected.remove(protected)
                self._unknown.append((protected.line, protected.waiter, protected.elder))

    def _own_quota(self, line: TeamQueue) -> OwnQuota | None:
        waiter = self._first.pop(line.index, None)
        if waiter is not None:
            self._own[line.index] = own_quota(
                self._pool, self.after, line, waiter, elder=waiter is self.elder
            )
        return self._own.get(line.index)

    def _share(self, holding: Holding) -> bool:
        """Take its units from `after` too; what is reserved moves to other nodes where need be."""
        after = self.after
        if not self._leaves_quota(holding):
            return False
        if after.blocks.has(holding.places):
            after.take(holding)
            return True
        moved = self._moved_for(holding)
        if moved is None:
            return False
        after.blocks, places = moved
        for reserved, at in zip(self._reserved, places, strict=True):
            reserved.places = at
        after.count(holding, holding.units)
        return True

    def _may_share(self, holding: Holding) -> bool:
        """Whether `_share` would find room for it; takes nothing."""
        if not self._leaves_quota(holding):
            return False
        return self.after.blocks.has(holding.places) or self._moved_for(holding) is not None

    def _leaves_quota(self, holding: Holding) -> bool:
        """Whether quota and cards are enough for it and those that are reserved."""
        if holding.lent:
            return True
        after, line = self.after, holding.line
        if line.index in self._entitled and not after.tree.within_guaranteed(line.place, holding.units):
            return False
        if holding.units > after.tree.available_at(line.place):
            return False
        return holding.units * after.per_unit <= after.cards

    def _moved_for(self, holding: Holding) -> tuple[Blocks, list[Places]] | None:
        """The nodes with it and all that are reserved, and the places of the reserved then; None where they have no
        places beside it.
        """
        blocks = self.after.blocks.copy()
        for reserved in self._reserved:
            blocks.release(reserved.places)
        blocks.take(holding.places)
        moved = []
        for reserved in self._reserved:
            waiter = reserved.waiter
            places = blocks.place(waiter.units_each, waiter.pods, waiter.beside) if waiter else None
            if places is None:
                return None
            moved.append(places)
        return blocks, moved

    def look_ahead(self) -> None:
        """Find the shadows not known yet; call it before anything is taken for the waiter that may start."""
        while self._unknown:
            line, waiter, elder = self._unknown.pop(0)
            protected = self._find(line, waiter, elder=elder)
            if protected is not None:
                self._protected.append(protected)
                self._known += 1
            elif waiter is self.elder:
                self._next_elder()

    def _find(self, line: TeamQueue, waiter: Waiter, *, elder: bool) -> Protected | None:
        """The waiter with its shadow; None where it is unknown when there will be room."""
        timeline = self._now_or_later()
        shadow = timeline.first(line.place, waiter)
        if shadow is None:
            return None
        ready = shadow[0] <= timeline.start
        borrows = not self._pool.within_guaranteed(line, waiter)
        return Protected(line, waiter, *shadow, elder=elder, ready=ready, borrows=borrows)

    def _now_or_later(self) -> CapacityTimeline:
        if self._timeline is None:
            none_leaves = self.after is self._pool.room
            ends = self._pool.ends
            if self._extra:
                ends = sorted(ends + self._extra, key=_by_end)
            self._timeline = CapacityTimeline(
                self.after, self._pool.now if none_leaves else self._grace, ends
            )
        return self._timeline


def _by_shadow(protected: Protected) -> int:
    return protected.shadow


def _by_end(entry: End) -> tuple[int, str]:
    return entry[:2]
