"""The order of turns: own guaranteed quota before borrowing, then priority, fair share, and queue time.

A waiter that would borrow comes after those that fit their team's guaranteed quota, because the owner would reclaim it at
once. Inside a team the order is priority, then queue time; a waiter that would borrow lets those behind it that would not
borrow go first, so that no waiter keeps its team from what is guaranteed to it. An admission counts in its team's use at
once, so that a burst of submissions cannot win before its use is measured.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Container, Iterable, Sequence
from fractions import Fraction
from heapq import heapify, heappop, heappush
from math import lcm

from policy.pool_snapshot import PoolSnapshot, TeamFacts, Waiter

ENTRY_PENALTY_SECONDS = 300

Key = tuple[int, int, int, int, str]
Within = Callable[["TeamQueue", Waiter], bool]
Defer = Callable[["TeamQueue", Waiter], None]
Compare = Callable[[Waiter, Waiter], bool]
InLine = tuple[int, int, int, str, Waiter]


class TeamQueue:
    """A team's waiters in order, and its share as an exact whole number that compares with every other team's."""

    __slots__ = (
        "_late",
        "_least",
        "_next",
        "_turns",
        "factor",
        "facts",
        "index",
        "lendable",
        "place",
        "slug",
        "use",
        "waiters",
    )

    def __init__(self, index: int, facts: TeamFacts, place: int) -> None:
        self.index, self.facts, self.slug = index, facts, facts.slug
        self.place = place
        """The place of its account in the tree; negative without one."""
        self.lendable = facts.lendable
        self.use = 0
        self.factor = 1
        self.waiters: list[InLine] = []
        self._turns: Sequence[InLine] = ()
        self._late: list[InLine] = []
        self._next = 0
        self._least: tuple[int, int] | None = None

    def begin(self, turns: Sequence[InLine]) -> None:
        """Start over with these waiters."""
        self._turns, self._late = turns, []
        self._next = 0

    def ready(self, within: Within, defer: Defer) -> bool:
        """Whether a waiter that need not borrow still awaits a turn; those before it that must borrow are deferred."""
        while self._next < len(self._turns):
            entry = self._turns[self._next]
            if within(self, entry[4]):
                return True
            self._late.append(entry)
            defer(self, entry[4])
            self._next += 1
        return False

    def begin_late(self) -> bool:
        """Start over with the deferred waiters; returns whether there are any."""
        self.begin(self._late)
        return bool(self._turns)

    @property
    def more(self) -> bool:
        """Whether a waiter has not had a turn."""
        return self._next < len(self._turns)

    def turn(self) -> Waiter:
        self._next += 1
        return self._turns[self._next - 1][4]

    def key(self) -> Key:
        """The key of its first waiter: the line with the smallest key has its turn."""
        rank, queued_at, sequence, _, _ = self._turns[self._next]
        return (rank, self.use * self.factor, queued_at, sequence, self.slug)

    def join(self, waiter: Waiter) -> None:
        """Insert a waiter by its priority and queue time."""
        insort(self.waiters, in_line(waiter), key=_order)
        self._least = None

    def drop(self, gone: Container[str]) -> None:
        """Take the waiters with these ids out of the line."""
        self.waiters = [entry for entry in self.waiters if entry[3] not in gone]
        self._least = None

    def least(self) -> tuple[int, int]:
        """The fewest units that any of its waiters claims, and the fewest in one pod."""
        if self._least is None:
            waiters = [entry[4] for entry in self.waiters]
            self._least = (
                min(waiter.units for waiter in waiters),
                min(waiter.units_each for waiter in waiters),
            )
        return self._least


class TeamQueues:
    """The lines of all teams of a pool, also those of waiters without a known team."""

    __slots__ = ("by_slug", "lines", "penalty", "unit_use")

    def __init__(self, teams: Sequence[TeamFacts], places: Sequence[int], gpu_fraction: Fraction) -> None:
        self.lines = [
            TeamQueue(index, facts, place)
            for index, (facts, place) in enumerate(zip(teams, places, strict=True))
        ]
        self.by_slug = {line.slug: line for line in self.lines}
        self.unit_use = gpu_fraction.numerator
        """What a unit adds to a line's use in a second."""
        self.penalty = ENTRY_PENALTY_SECONDS * self.unit_use
        common = lcm(*(max(1, facts.weight) for facts in teams))
        for line in self.lines:
            line.use = line.facts.use * gpu_fraction.denominator
            line.factor = common // max(1, line.facts.weight)

    def join(self, waiters: Iterable[Waiter]) -> None:
        for waiter in waiters:
            self.of(waiter.team).waiters.append(in_line(waiter))
        for line in self.lines:
            line.waiters.sort(key=_order)

    def of(self, slug: str) -> TeamQueue:
        """The line of a team; one that this pool does not know gets a line without an account."""
        line = self.by_slug.get(slug)
        if line is None:
            line = self.by_slug[slug] = TeamQueue(len(self.lines), TeamFacts(slug, ""), -1)
            self.lines.append(line)
        return line


class Turns:
    """One walk over all waiters; only the key of the line that had its turn is computed anew.

    `defer` is called for a waiter that would borrow and is put off until all others have had their turns.
    """

    __slots__ = ("_defer", "_heap", "_last", "_late", "_lines", "_within")

    def __init__(self, lines: Sequence[TeamQueue], within: Within, defer: Defer) -> None:
        """The lines must have begun."""
        self._lines, self._within, self._defer = lines, within, defer
        self._last: TeamQueue | None = None
        self._late = False
        self._heap = [(line.key(), line) for line in lines if line.ready(within, defer)]
        heapify(self._heap)

    def next(self) -> tuple[TeamQueue, Waiter] | None:
        """The next waiter, given the changes since the last turn; None when all had one."""
        last = self._last
        if last is not None and (last.more if self._late else last.ready(self._within, self._defer)):
            heappush(self._heap, (last.key(), last))
        if not self._heap and not self._late:
            self._late = True
            self._heap = [(line.key(), line) for line in self._lines if line.begin_late()]
            heapify(self._heap)
        if not self._heap:
            return None
        _, self._last = heappop(self._heap)
        return self._last, self._last.turn()


def in_line(waiter: Waiter) -> InLine:
    return (-waiter.priority, waiter.queued_at, waiter.sequence, waiter.id, waiter)


def _order(entry: InLine) -> tuple[int, int, int, str]:
    return entry[:4]


def no_easier(waiter: Waiter, other: Waiter) -> bool:
    """Whether it needs no less than the other and has no higher priority: room useless to that is useless to it."""
    return (
        waiter.units >= other.units
        and waiter.units_each >= other.units_each
        and waiter.pods >= other.pods
        and waiter.priority <= other.priority
    )


def no_better(waiter: Waiter, other: Waiter) -> bool:
    """`no_easier`, and no shorter, so that it would be in the way just as long."""
    return not _shorter(waiter, other) and no_easier(waiter, other)


def no_easier_beside(waiter: Waiter, other: Waiter) -> bool:
    """`no_easier` where what pods ask for besides units counts too."""
    return no_easier(waiter, other) and no_less_beside(waiter, other)


def no_better_beside(waiter: Waiter, other: Waiter) -> bool:
    """`no_better` where what pods ask for besides units counts too."""
    return no_better(waiter, other) and no_less_beside(waiter, other)


def comparisons(*, beside: bool) -> tuple[Compare, Compare]:
    """`no_easier` and `no_better`, by what counts."""
    return (no_easier_beside, no_better_beside) if beside else (no_easier, no_better)


def no_less_beside(waiter: Waiter, other: Waiter) -> bool:
    """Whether its pods ask for no less of any resource; a waiter that says nothing asks for nothing."""
    mine, its = waiter.beside, other.beside
    if len(mine) != len(its):
        return not any(its)
    return all(amount >= least for amount, least in zip(mine, its, strict=True))


def _shorter(waiter: Waiter, other: Waiter) -> bool:
    return waiter.seconds is not None and (other.seconds is None or waiter.seconds < other.seconds)


def is_of_any(compare: Compare, waiter: Waiter, others: list[Waiter]) -> bool:
    """Whether `compare` is true of this waiter and any of the others; `any` would cost more than most comparisons."""
    for other in others:  # noqa: SIM110 (see above)
        if compare(waiter, other):
            return True
    return False


def hidden_ahead(snapshot: PoolSnapshot, waiter: Waiter) -> int:
    """How many of its own team are ahead of it that this snapshot does not show one by one.

    Those of higher priority; of equal priority those that the snapshot counts before it, which is all of them where the
    waiter is not submitted yet and so would come last.
    """
    last = 0 if waiter.id else 1
    higher = sum(
        beyond.count
        for beyond in snapshot.beyond
        if beyond.team == waiter.team and beyond.priority + last > waiter.priority
    )
    return higher + (snapshot.before_far if waiter.id and waiter.id == snapshot.far else 0)
