"""One pass over a pool: every waiter in its turn, step by step, until one step decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from policy.backfill import PATIENCE_SECONDS, Delayed, Denial, Guard
from policy.findings import (
    BEYOND,
    BUDGET,
    CAPACITY,
    CEILING,
    LACKS,
    LARGEST_BLOCK,
    LARGEST_HOST,
    LEAVING,
    MAX_CEILING,
    MAX_OF_USER,
    MAX_QUOTA,
    MAX_TIME_LIMIT,
    NO_GPU,
    NO_QUOTA,
    PREEMPTION,
    STOPPED,
    UNSEEN,
    USER_LIMIT,
    Finding,
    denied,
)
from policy.free_capacity import QUOTA, PoolInTime
from policy.next_cycle import Moments
from policy.ordering import InLine, TeamQueue, Turns, comparisons, hidden_ahead, is_of_any
from policy.packing import Fits, Shape
from policy.pool_snapshot import Waiter
from policy.preemption import Chosen, choose, room_to_make
from policy.verdicts import Outcome
from workloads.states import Reason

QUICK_PROTECTED = 4
"""Lines whose first waiter a quick pass protects; a start that depends on more of them is rare."""
QUICK_TRIES = 2
"""Waiters of a line for which a quick pass looks for runs to leave."""

Sink = Callable[[TeamQueue, Waiter, Finding], None]


class SchedulingCycle:
    """Judges every waiter once; an admitted one holds its units in the pool from then on."""

    __slots__ = (
        "_denied",
        "_guard",
        "_hopeless",
        "_in_the_way",
        "_moments",
        "_no_better",
        "_no_easier",
        "_offered",
        "_pool",
        "_quick",
        "_refused",
        "_renewals",
        "_stuck",
        "_whole",
        "waiting",
    )

    def __init__(self, pool: PoolInTime, *, quick: bool = False) -> None:
        """`quick` protects the first waiters of a few lines only, and does not say how long one may run at most:
        for running the queue forward.
        """
        self._pool = pool
        self._guard = Guard(pool, most=QUICK_PROTECTED if quick else None)
        self._quick = quick
        self._in_the_way: dict[Shape, int] = {}
        """Shapes of pods that have no harmless place now, and until when."""
        flavor, capacity_type = pool.snapshot.flavor, pool.snapshot.capacity_type
        self._offered = capacity_type in flavor.capacity
        self._whole = Fits(pool.whole)
        self._no_easier, self._no_better = comparisons(beside=bool(pool.counted))
        self._hopeless: dict[int, list[Waiter]] = {}
        """By line: waiters for which no run can be made to leave."""
        self._refused: dict[int, list[Waiter]] = {}
        """By line: waiters that must not start even when those that are leaving, or could be made to, have left."""
        self._denied: dict[tuple[int, int, Shape], tuple[Denial, int]] = {}
        """By line and shape, with how much was promised to others then: more promises may shorten the time it may run."""
        self._stuck: set[int] = set()
        """Lines in which a waiter was judged and does not start."""
        self._moments = Moments(pool)
        self._renewals: list[int] = []
        """When periods of budgets end that somebody waits for."""
        self.waiting = 0
        """How many of those judged so far wait in line."""

    def run(self, sink: Sink, *, until: str | None = None) -> None:
        """Every waiter's turn, or turns until one waiter has had its own; `sink` gets each finding while the pool stands
        as that turn left it.

        Waiters that nothing could start come last.
        """
        aside = []
        for line in sorted(self._pool.lines.lines, key=_by_slug):
            turns = []
            for entry in line.waiters:
                finding = self._out_of_line(line, entry[4]) if entry[4].units else None
                if finding is None:
                    turns.append(entry)
                else:
                    aside.append((line, entry[4], finding))
                    self._stuck.add(line.index)
            line.begin(turns)
        self._take_turns(sink, until)
        for refusal in aside:
            sink(*refusal)

    def run_for_starts(self, sink: Sink) -> None:
        """The same admissions and reservations, without a finding for those that surely wait.

        Room only shrinks during a pass: a waiter that does not fit at its beginning is left out, unless it may have to
        be protected.
        """
        lines = self._pool.lines.lines
        fits = Fits(self._guard.after.blocks)
        able = [self._able(line, fits) for line in lines]
        if not any(able):
            return
        for line, entries in zip(lines, able, strict=True):
            line.begin(entries or self._first(line))
        self._take_turns(sink)

    def _take_turns(self, sink: Sink, until: str | None = None) -> None:
        self._honour_elder()
        turns = Turns(self._pool.lines.lines, self._pool.within_guaranteed, self._guard.wait_for_own)
        while (turn := turns.next()) is not None:
            finding = self._judge(*turn)
            sink(*turn, finding)
            if finding.outcome is not Outcome.ADMIT and finding is not BEYOND:
                self._stuck.add(turn[0].index)
            if finding.outcome is Outcome.WAIT and finding.holds_up:
                self.waiting += 1
                if finding is not BEYOND:
                    self._guard.wait_for_own(*turn)
            if turn[1].id == until:
                return

    def _able(self, line: TeamQueue, fits: Fits) -> list[InLine]:
        """Waiters that may fit now or once others have left, or for which others may be made to leave."""
        if line.place < 0 or not line.waiters:
            return []
        after, tree = self._guard.after, self._guard.after.tree
        units = max(line.lendable, tree.available_at(line.place))
        units_each = fits.largest
        least = line.least()
        reclaimable, above = room_to_make(self._pool, after, line)
        if (
            reclaimable < least[0]
            and above >= -line.waiters[0][0]
            and (units < least[0] or units_each < least[1])
        ):
            return []
        entries: list[InLine] = []
        tries, kept = QUICK_TRIES, set[tuple[bool, ...]]()
        for entry in line.waiters:
            waiter = entry[4]
            asked = waiter.units
            if asked > units or not fits[self._pool.shape(waiter)]:
                # The first of each standing may have to be protected, from its own team too, whatever nodes could take.
                own = asked <= tree.guaranteed[line.place]
                standing = own, self._pool.within_guaranteed(line, waiter), self._possible(waiter)
                if tries and (asked <= reclaimable or above < -entry[0]):
                    tries -= 1
                elif standing in kept:
                    continue
                if not self._limited(line) or self._out_of_line(line, waiter) is None:
                    kept.add(standing)
                    entries.append(entry)
            elif not self._limited(line) or self._out_of_line(line, waiter) is None:
                entries.append(entry)
        return entries

    def _first(self, line: TeamQueue) -> list[InLine]:
        """For a line in which none can start: waiters that may have to be protected, the first of either standing."""
        entries: dict[bool, InLine] = {}
        if line.place >= 0:
            for entry in line.waiters:
                standing = self._pool.within_guaranteed(line, entry[4])
                if standing in entries or not self._possible(entry[4]):
                    continue
                if self._out_of_line(line, entry[4]) is None:
                    entries[standing] = entry
                    if len(entries) == 2:
                        break
        return list(entries.values())

    def _possible(self, waiter: Waiter) -> bool:
        """Whether empty nodes could take all its pods at once; a waiter that needs nodes to come is not protected."""
        return self._whole[self._pool.shape(waiter)]

    def _honour_elder(self) -> None:
        """Find the elder among those that have waited long for what their team's guaranteed quota covers: the highest
        priority first, then the one that came first.
        """
        lines = [line for line in self._pool.lines.lines if line.waiters and line.place >= 0]
        least = min((line.least()[0] for line in lines), default=0)
        eldest = [entry for line in lines if (entry := self._longest_waiting(line, least)) is not None]
        self._guard.honour((entry[3], entry[4]) for entry in sorted(eldest, key=_by_age))

    def _longest_waiting(self, line: TeamQueue, least: int) -> tuple[int, int, int, TeamQueue, Waiter] | None:
        """The first of a line that has waited long. A waiter that fits now and needs the least of all is left out: it is in
        no other's way, and its share says when its turn is.
        """
        pool = self._pool
        since = pool.snapshot.now + pool.now - PATIENCE_SECONDS
        for rank, queued_at, sequence, _, waiter in line.waiters:
            if queued_at > since or not 0 < waiter.units <= pool.room.tree.guaranteed[line.place]:
                continue
            if not self._possible(waiter) or self._out_of_line(line, waiter) is not None:
                continue
            if waiter.units > least or pool.room.lack(line.place, waiter):
                return rank, queued_at, sequence, line, waiter
        return None

    def _judge(self, line: TeamQueue, waiter: Waiter) -> Finding:
        if not waiter.units:
            return NO_GPU
        if self._limited(line) and (finding := self._too_much(line, waiter)) is not None:
            return finding
        return self._in_line(line, waiter)

    def _limited(self, line: TeamQueue) -> bool:
        """Whether an admission may bring another waiter of the line to a limit beside the line."""
        pool = self._pool
        return line.facts.user_limit is not None or line.index in pool.ceilings or line.index in pool.money

    def _out_of_line(self, line: TeamQueue, waiter: Waiter) -> Finding | None:
        """What keeps it from starting however much is free; those behind it are not held up."""
        if line.place < 0 or not self._offered:
            return NO_QUOTA if self._offered else CAPACITY
        if waiter.units_each > self._pool.snapshot.largest_block:
            return LARGEST_BLOCK if self._pool.snapshot.nodes_seen else UNSEEN
        if too_large := self._pool.reach[waiter.units_each, waiter.beside]:
            return LARGEST_HOST[too_large]
        if line.facts.stopped:
            return STOPPED
        return self._too_much(line, waiter)

    def _too_much(self, line: TeamQueue, waiter: Waiter) -> Finding | None:
        facts = line.facts
        if waiter.units > self._pool.room.tree.ceiling[line.place]:
            return MAX_QUOTA
        if facts.max_time_limit_seconds is not None and (waiter.seconds or 0) > facts.max_time_limit_seconds:
            return MAX_TIME_LIMIT
        rule = self._pool.above_ceiling(line, waiter)
        if rule in MAX_CEILING:
            return MAX_CEILING[rule]
        if facts.user_limit is not None:
            if waiter.units > facts.user_limit:
                return MAX_OF_USER
            held = self._pool.held_by.get((line.slug, waiter.owner), 0)
            if held + waiter.units > facts.user_limit:
                return USER_LIMIT
        return CEILING[rule] if rule else self._too_dear(line, waiter)

    def _too_dear(self, line: TeamQueue, waiter: Waiter) -> Finding | None:
        """What is left of its team's budget does not pay for the least that it must run."""
        if (left := self._pool.money.get(line.index)) is None:
            return None
        if self._pool.need(line, waiter).least <= left:
            return None
        if line.facts.budget is not None:
            self._renewals.append(line.facts.budget.ends_at)
        return replace(BUDGET, longest=self._pool.longest(line, waiter))

    def _in_line(self, line: TeamQueue, waiter: Waiter) -> Finding:
        snapshot = self._pool.snapshot
        # While all judged waiters of its team start, those between may start too: they are shown next. Where one does
        # not, this waiter is a backfill like any other.
        if snapshot.beyond and line.index not in self._stuck and hidden_ahead(snapshot, waiter):
            return BEYOND
        room = self._pool.room
        lack = room.lack(line.place, waiter)
        if not lack:
            return self._start(line, waiter, lent=False)
        if lack == QUOTA and self._can_borrow_headroom(line, waiter):
            return self._start(line, waiter, lent=True)
        return self._make_room(line, waiter, lack)

    def _can_borrow_headroom(self, line: TeamQueue, waiter: Waiter) -> bool:
        if not waiter.preemptible or waiter.units > line.lendable:
            return False
        return self._pool.room.blocks.fits(waiter.units_each, waiter.pods, waiter.beside)

    def _start(self, line: TeamQueue, waiter: Waiter, *, lent: bool) -> Finding:
        """Admit the waiter, unless that could delay one ahead."""
        pool = self._pool
        if not self._quick:
            # A waiter protected by now may have an earlier shadow than those that a known denial names.
            self._guard.look_ahead()
        known = self._known_denial(line, waiter)
        if known is not None:
            return denied(known)
        if waiter is not self._guard.elder:
            until = self._in_the_way.get(pool.shape(waiter))
            if until is not None and (waiter.seconds is None or pool.now + waiter.seconds >= until):
                return denied(Denial(0))
        self._guard.look_ahead()
        blocks = pool.room.blocks
        places = blocks.place(waiter.units_each, waiter.pods, waiter.beside) or ()
        holding = pool.holding_of(line, waiter, places, start=pool.now, lent=lent)
        denial = self._guard.start(holding)
        if denial is None:
            self._in_the_way.clear()
            pool.admit(holding)
            self._moments.note_start(waiter)
            rule = "headroom" if lent else "fits"
            return Finding(rule, Outcome.ADMIT, Reason.CREATING, backfilled=self.waiting > 0)
        blocks.release(places)
        shape = pool.shape(waiter)
        self._denied[line.index, waiter.units, shape] = denial, self._guard.promised
        if self._quick and denial.pods_until is not None:
            self._in_the_way[shape] = denial.pods_until
        return denied(denial)

    def _known_denial(self, line: TeamQueue, waiter: Waiter) -> Denial | None:
        """The denial of a waiter of the same shape in this pass, where it goes for this one too."""
        known = self._denied.get((line.index, waiter.units, self._pool.shape(waiter)))
        if known is None or waiter is self._guard.elder:
            return None
        denial, promised = known
        if promised != self._guard.promised:
            return None
        if denial.whom is Delayed.ELDER and _came_before(waiter, self._guard.elder):
            return None
        return denial if waiter.seconds is None or waiter.seconds > denial.longest else None

    def _make_room(self, line: TeamQueue, waiter: Waiter, lack: str) -> Finding:
        """Wait for those that are leaving, make others leave, or wait in line."""
        guard, hopeless = self._guard, self._hopeless.setdefault(line.index, [])
        if self._quick and len(hopeless) >= QUICK_TRIES:
            return LACKS[lack]
        refused = self._refused.setdefault(line.index, [])
        if is_of_any(self._no_easier, waiter, hopeless) or is_of_any(self._no_better, waiter, refused):
            return LACKS[lack]
        after = guard.after
        chosen: list[Chosen] | None = []
        if after is self._pool.room or after.lack(line.place, waiter):
            chosen = choose(self._pool, after, line, waiter)
        finding = None if chosen is None else self._reserve(line, waiter, chosen)
        if finding is not None:
            return finding
        (hopeless if chosen is None else refused).append(waiter)
        if not self._quick:
            self._moments.note_wait(after, line, waiter)
        if self._possible(waiter):
            guard.protect(line, waiter)
        return LACKS[lack]

    def next_at(self) -> int | None:
        """When another pass could decide otherwise by the passing of time alone, in seconds since the epoch."""
        first = self._moments.first() if self.waiting else None
        times = self._renewals if first is None else [*self._renewals, self._pool.snapshot.now + first]
        return min(times, default=None)

    def _reserve(self, line: TeamQueue, waiter: Waiter, chosen: list[Chosen]) -> Finding | None:
        """Keep for the waiter what is free when the chosen, and all that are leaving already, have left; None where that
        could delay a waiter ahead.
        """
        guard = self._guard
        guard.look_ahead()
        for holding, _ in chosen:
            guard.let_go(holding)
            holding.leaving = True
        pool, blocks = self._pool, guard.after.blocks
        places = blocks.place(waiter.units_each, waiter.pods, waiter.beside) or ()
        start = pool.now + pool.snapshot.rules.grace_seconds
        own = pool.holding_of(line, waiter, places, start=start, lent=False)
        if guard.harm_of(own, later=True) is None and not (chosen and guard.harm_anew(own)):
            self._in_the_way.clear()
            guard.reserve(own)
            return replace(PREEMPTION, chosen=tuple(chosen)) if chosen else LEAVING
        blocks.release(places)
        for holding, _ in chosen:
            guard.keep(holding)
            holding.leaving = False
        return None


def _by_slug(line: TeamQueue) -> str:
    return line.slug


def _by_age(entry: tuple[int, int, int, TeamQueue, Waiter]) -> tuple[int, int, int, str]:
    rank, queued_at, sequence, line, _ = entry
    return rank, queued_at, sequence, line.slug


def _came_before(waiter: Waiter, elder: Waiter | None) -> bool:
    """Whether it may delay the elder, which is protected only from those that came later."""
    return elder is None or (waiter.queued_at, waiter.sequence) < (elder.queued_at, elder.sequence)
