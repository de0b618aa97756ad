"""Who may go past somebody that waits: only those who cannot delay the first waiter of any team ahead of them.

A protected waiter has a shadow: the first time at which there is room for it, if everybody runs to the full time
limit. Who ends before that second, or leaves it room even then, does no harm: of runs with one length, those that
start now end with those that have started just before, and each would put the shadow off for as long as more come.
Where no time is known because somebody holds what is missing without end, there is nothing to protect.

Who has waited long is protected from all who came later, even where a smaller share gives those their turn first:
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
"""Who waits longer than that may become the elder of a pass."""


class Delayed(Enum):
    """Whom somebody would delay who must not start for that."""

    AHEAD = 1
    """The first waiter of a team that has its turn before."""
    OWN = 2
    """One of its own team that came first, and waits for what the team's guaranteed quota can take."""
    ELDER = 3


@dataclass(slots=True)
class OwnQuota:
    """At `free_at` a team uses so little that `spare` is left of its guaranteed quota beside its first waiter."""

    waiter: Waiter
    free_at: int
    spare: int

    def harmed_by(self, holding: Holding) -> bool:
        """Only those behind it in the line must leave it that."""
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
    """When the guaranteed quota could take the waiter; None where it never could. Where it could now, only the elder
    is kept there: for others a short run of their own team that goes first costs no more than their turn.
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
    """`longest`: how many seconds it may run at most to start now; 0 where no limit would be short enough."""

    longest: int
    whom: Delayed = Delayed.AHEAD
    pods_until: int | None = None
    """Where its pods alone are in the way of somebody behind whom all are: until when, at their places."""


class Guard:
    """What one pass has promised to those ahead."""

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
        """`most`: of how many lines the first waiter is protected; None for all of them."""
        self._pool = pool
        self._most = most
        self._grace = pool.now + pool.snapshot.rules.grace_seconds
        self._protected: list[Protected] = []
        self._unknown: list[tuple[TeamQueue, Waiter, bool]] = []
        self.elder: Waiter | None = None
        """Who has waited longest."""
        self._eldest: list[tuple[TeamQueue, Waiter]] = []
        self._reserved: list[Holding] = []
        self._extra: list[End] = []
        self._entitled: set[int] = set()
        """Lines of which somebody reserved what its guaranteed quota covers, and must go on to cover."""
        self._own: dict[int, OwnQuota | None] = {}
        """Of lines whose first blocked waiter waits for their guaranteed quota; None where that has no end."""
        self._first: dict[int, Waiter] = {}
        self._timeline: CapacityTimeline | None = None
        """None since something was started or reserved."""
        self._known = self._moved = 0
        """How many shadows were found and places reserved so far, and how many shadows were given up for later ones."""
        self.waiting: set[int] = set()
        """Lines whose first blocked waiter is known."""
        self.after = pool.room
        """What is free once everybody who is leaving has left; the pool's own room while nobody is."""
        for holding in pool.leaving:
            self.let_go(holding)

    @property
    def promised(self) -> int:
        """Another number once a denial may not hold any more. In a quick pass: once somebody may even run longer."""
        return self._known if self._most is None else self._moved

    def let_go(self, holding: Holding) -> None:
        """What a leaving one holds counts as free within the grace period."""
        self._timeline = None
        if self.after is self._pool.room:
            self.after = self._pool.room.copy()
        self.after.release(holding)
        for each in self._protected:
            if each.reached_by(holding):
                each.release(holding)

    def keep(self, holding: Holding) -> None:
        """Undo `let_go`."""
        self._timeline = None
        self.after.take(holding)
        for each in self._protected:
            if each.reached_by(holding):
                each.take(holding)

    def harm_anew(self, holding: Holding) -> bool:
        """`harm_of` one that makes others leave, now that they have: who is ahead may start sooner by that, and must
        not be delayed then either. The next pass would give it what they left, and others would have to leave again.
        """
        self._timeline = None
        self.after.blocks.release(holding.places)
        borrows = holding.waiter is not None and not self._pool.within_guaranteed(
            holding.line, holding.waiter
        )
        fresh = []
        harmed = False
        for each in self._protected:
            again = self._find(each.line, each.waiter, elder=each.elder) or each
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
        """Somebody waits: the first of each line must not be delayed by those behind it."""
        if line.index in self.waiting:
            return
        self.waiting.add(line.index)
        if waiter is self.elder:
            # From here on it is protected from everybody, as every first waiter is.
            self._unknown = [(at, who, elder and who is not waiter) for at, who, elder in self._unknown]
            for each in self._protected:
                each.elder = each.elder and each.waiter is not waiter
        elif self._most is None or len(self.waiting) <= self._most:
            self._unknown.append((line, waiter, False))

    def wait_for_own(self, line: TeamQueue, waiter: Waiter) -> None:
        """Somebody goes on waiting whom its team's guaranteed quota could take: the first of each line counts."""
        if line.place < 0 or line.index in self._own:
            return
        if waiter.units <= self.after.tree.guaranteed[line.place]:
            self._first.setdefault(line.index, waiter)

    def honour(self, eldest: Iterable[tuple[TeamQueue, Waiter]]) -> None:
        """Those have waited longest: the first of them that can ever start is the elder."""
        self._eldest = list(eldest)
        self._next_elder()

    def _next_elder(self) -> None:
        self.elder = None
        if self._eldest:
            line, self.elder = self._eldest.pop(0)
            self._unknown.append((line, self.elder, True))

    def start(self, holding: Holding) -> Denial | None:
        """Count one that starts now, or say why it must not. Its places are taken in the pool's room already."""
        denial = self.harm_of(holding)
        if denial is not None:
            return denial if self._may_be_shorter(holding) else replace(denial, longest=0)
        self._take(holding)
        if self.after is not self._pool.room and not self._share(holding):
            for each in self._met(holding):
                each.release(holding)
            own = self._own_quota(holding.line)
            if own is not None:
                own.take(holding, back=True)
            return Denial(0)
        self._timeline = None
        return None

    def reserve(self, holding: Holding) -> None:
        """Count one that harms nobody when those who are leaving have left; its places are taken of `after`."""
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
        """Whether one of the protected whom it must not delay would not fit at its shadow any more.

        `later`: it starts when others have left. Then the elder goes past nobody: by that time it may not be the
        elder any more, and somebody would have left in vain.
        """
        elder = None if later else self.elder
        own = self._own_quota(holding.line)
        if own is not None and not own.harmed_by(holding):
            own = None
        waiter = holding.waiter
        borrows = waiter is not None and not self._pool.within_guaranteed(holding.line, waiter)
        harmed = [
            each
            for each in self._met(holding)
            if each.harmed_by(holding) and each.binds(waiter, elder, borrows=borrows)
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
        """Whether a shorter time limit could help: not where there is no room beside those who are reserved. Not asked
        where nobody gets to read it.
        """
        nobody = self._most is not None or self.after is self._pool.room
        return nobody or self._may_share(holding)

    def _met(self, holding: Holding) -> list[Protected]:
        waiter = holding.waiter
        return [each for each in self._protected if each.met_by(holding) and each.waiter is not waiter]

    def _take(self, holding: Holding) -> None:
        """Of what is free at every shadow that it reaches."""
        for each in self._met(holding):
            each.take(holding)
        own = self._own_quota(holding.line)
        if own is not None:
            own.take(holding)
        if self.elder is not None:
            self._settle(self.elder, holding.waiter)

    def _settle(self, elder: Waiter, started: Waiter | None) -> None:
        """The elder is served, or somebody went past one whom it need not wait for: look for that one's start again."""
        for each in self._protected.copy():
            if each.waiter is elder and started is elder:
                self._protected.remove(each)
            elif not each.fits:
                self._moved += 1
                self._protected.remove(each)
                self._unknown.append((each.line, each.waiter, each.elder))

    def _own_quota(self, line: TeamQueue) -> OwnQuota | None:
        waiter = self._first.pop(line.index, None)
        if waiter is not None:
            self._own[line.index] = own_quota(
                self._pool, self.after, line, waiter, elder=waiter is self.elder
            )
        return self._own.get(line.index)

    def _share(self, holding: Holding) -> bool:
        """Take of `after` too, moving what is reserved to other nodes where need be."""
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
        for each, at in zip(self._reserved, places, strict=True):
            each.places = at
        after.count(holding, holding.units)
        return True

    def _may_share(self, holding: Holding) -> bool:
        """Whether `_share` would find room for it; takes nothing."""
        if not self._leaves_quota(holding):
            return False
        return self.after.blocks.has(holding.places) or self._moved_for(holding) is not None

    def _leaves_quota(self, holding: Holding) -> bool:
        """Whether quota and cards are enough for it and those who are reserved."""
        if holding.lent:
            return True
        after, line = self.after, holding.line
        if line.index in self._entitled and not after.tree.within_guaranteed(line.place, holding.units):
            return False
        if holding.units > after.tree.available_at(line.place):
            return False
        return holding.units * after.per_unit <= after.cards

    def _moved_for(self, holding: Holding) -> tuple[Blocks, list[Places]] | None:
        """The nodes as they are with it and all who are reserved, and where those are then; None where they find no
        places beside it.
        """
        blocks = self.after.blocks.copy()
        for each in self._reserved:
            blocks.release(each.places)
        blocks.take(holding.places)
        found = []
        for each in self._reserved:
            waiter = each.waiter
            places = blocks.place(waiter.units_each, waiter.pods, waiter.beside) if waiter else None
            if places is None:
                return None
            found.append(places)
        return blocks, found

    def look_ahead(self) -> None:
        """Find the shadows not known yet; before anything is taken for the one that may start."""
        while self._unknown:
            line, waiter, elder = self._unknown.pop(0)
            found = self._find(line, waiter, elder=elder)
            if found is not None:
                self._protected.append(found)
                self._known += 1
            elif waiter is self.elder:
                self._next_elder()

    def _find(self, line: TeamQueue, waiter: Waiter, *, elder: bool) -> Protected | None:
        """One with its shadow; None where nobody knows when there will be room."""
        timeline = self._now_or_later()
        found = timeline.first(line.place, waiter)
        if found is None:
            return None
        ready = found[0] <= timeline.start
        borrows = not self._pool.within_guaranteed(line, waiter)
        return Protected(line, waiter, *found, elder=elder, ready=ready, borrows=borrows)

    def _now_or_later(self) -> CapacityTimeline:
        if self._timeline is None:
            nobody_leaves = self.after is self._pool.room
            ends = self._pool.ends
            if self._extra:
                ends = sorted(ends + self._extra, key=_by_end)
            self._timeline = CapacityTimeline(
                self.after, self._pool.now if nobody_leaves else self._grace, ends
            )
        return self._timeline


def _by_shadow(protected: Protected) -> int:
    return protected.shadow


def _by_end(entry: End) -> tuple[int, str]:
    return entry[:2]
