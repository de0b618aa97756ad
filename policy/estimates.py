"""When a waiter starts: the queue run forward under the same policy, with no later arrivals.

p90 lets every run take its full time limit, p50 as long as reports and history say. Where the two are far apart, or
something ahead has no end, the answer is "unknown" with the reason, not a number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import heappop, heappush

from policy.findings import BUDGET, STUCK, Finding
from policy.free_capacity import Holding, PoolInTime
from policy.judge import judge, plan, position
from policy.ordering import TeamQueue, hidden_ahead
from policy.pool_snapshot import PoolSnapshot, Waiter
from policy.scheduling_cycle import SchedulingCycle
from policy.verdicts import CyclePlan, Outcome, Verdict

SIMULATED_MAX = 2_000
"""Waiters ahead of the one that is estimated; behind more than these, the queue is not run forward."""
EXACT_MOST = 64
COARSE_PART = 32
COARSE_SECONDS = 900
"""Up to so many waiters every pass is the whole one that admits. With more, ends that are closer together than a small
part of the wait so far, and than a quarter of an hour, are followed by one quick pass: it costs a tenth and moves the
typical start by a few percent."""
FAR_APART = 4
FAR_APART_SECONDS = 600
FREE_NOW = "free now"
RUN_FORWARD = "time limits and expected run times of those ahead"
NOT_ESTIMATED = "not estimated"
TOO_LONG = "The queue is too long to be run forward for this answer."
"""Why a start is unknown where it would have taken more effort than was allowed."""

_ENDS, _GONE, _LOOK = range(3)


@dataclass(frozen=True)
class Estimate:
    """Start times in whole seconds since the epoch; None where unknown, and then why."""

    p50: int | None
    p90: int | None
    basis: str
    unknown_because: str | None = None


def simulate(snapshot: PoolSnapshot, *, expected: bool, horizon: int | None = None) -> dict[str, int]:
    """When each waiter starts first, in seconds since the epoch; a waiter that never starts is left out.

    `expected`: every run ends when expected, otherwise at the full time limit. `horizon`: how many seconds to look
    ahead, or None to the end.

    With at most EXACT_MOST waiters it is what `plan` admits, asked again whenever a run ends, leaves or has had the
    minimum run time. Two things are not followed, in any queue: how past use fades, and the passes between those moments,
    which by the clock alone (shares that meet, an elder's patience) may start a waiter sooner and so move others.
    """
    forward = _Forward(snapshot, expected=expected)
    forward.run(horizon=horizon)
    return {waiter: snapshot.now + start for waiter, start in forward.starts.items()}


def estimate_now(snapshot: PoolSnapshot) -> Estimate:
    """The estimate for a waiter that is admitted."""
    return Estimate(snapshot.now, snapshot.now, FREE_NOW)


def estimate(
    snapshot: PoolSnapshot,
    waiter_id: str,
    *,
    cycle_plan: CyclePlan | None = None,
    horizon: int | None = None,
    effort: int | None = None,
) -> Estimate:
    """The start of one waiter of the snapshot.

    `cycle_plan` is the plan of this very snapshot, for callers who have it. `horizon`: seconds from now after which a start
    is of no interest and counts as unknown. `effort`: how many waiters may be looked at in all passes of a run; what
    would take more is unknown.
    """
    at_once = estimate_at_once(snapshot, waiter_id, cycle_plan=cycle_plan)
    if at_once is not None:
        return at_once
    waiter = next(waiting for waiting in snapshot.waiters if waiting.id == waiter_id)
    return _of_runs(snapshot, waiter, _runs_for(snapshot, waiter_id, horizon, effort))


def estimate_at_once(
    snapshot: PoolSnapshot, waiter_id: str, *, cycle_plan: CyclePlan | None = None
) -> Estimate | None:
    """What `estimate` answers where that needs no running forward: now, or not as things are; else None."""
    verdict = cycle_plan.verdicts[waiter_id] if cycle_plan else judge(snapshot, waiter_id)
    waiter = next(waiting for waiting in snapshot.waiters if waiting.id == waiter_id)
    crowded = len(snapshot.waiters) > SIMULATED_MAX
    place = position(snapshot, waiter_id, cycle_plan=cycle_plan) if crowded else 0
    return _without_running(snapshot, waiter, verdict, place)


def estimate_all(snapshot: PoolSnapshot, *, cycle_plan: CyclePlan | None = None) -> dict[str, Estimate]:
    """The start of every waiter of the snapshot, by id; each as `estimate` answers it, with the plan where it is known."""
    known = cycle_plan or plan(snapshot)
    waiters = {waiter.id: waiter for waiter in snapshot.waiters}
    runs = _Forward(snapshot, expected=False), _Forward(snapshot, expected=True)
    for forward in runs:
        forward.run()
    answers = {}
    for place, waiter_id in enumerate(known.order, start=1):
        verdict = known.verdicts[waiter_id]
        certain = _without_running(snapshot, waiters[waiter_id], verdict, place)
        answers[waiter_id] = certain or _of_runs(snapshot, waiters[waiter_id], runs)
    return answers


def _without_running(snapshot: PoolSnapshot, waiter: Waiter, verdict: Verdict, place: int) -> Estimate | None:
    """What is known without running the queue forward."""
    if verdict.admitted:
        return estimate_now(snapshot)
    if verdict.rule in STUCK:
        return _unknown(f"It cannot start as things are. {verdict.message}")
    if hidden_ahead(snapshot, waiter) or _last_shown(snapshot, waiter):
        return _unknown("More of its own team may wait ahead of it than are looked at.")
    if place > SIMULATED_MAX:
        return _unknown(f"More than {SIMULATED_MAX} wait ahead of it.")
    return None


def _last_shown(snapshot: PoolSnapshot, waiter: Waiter) -> bool:
    """Whether its team has more of its priority than the snapshot shows, and all that are shown are ahead of it."""
    if not any(
        (beyond.team, beyond.priority) == (waiter.team, waiter.priority) for beyond in snapshot.beyond
    ):
        return False
    place = (waiter.queued_at, waiter.sequence)
    return all(
        (shown.queued_at, shown.sequence) <= place
        for shown in snapshot.waiters
        if (shown.team, shown.priority) == (waiter.team, waiter.priority)
    )


def _runs_for(
    snapshot: PoolSnapshot, waiter_id: str, horizon: int | None, effort: int | None
) -> tuple[_Forward, _Forward]:
    full = _Forward(snapshot, expected=False)
    full.run(until=waiter_id, horizon=horizon, effort=effort)
    if waiter_id not in full.starts:
        # Without a p90 there is no estimate, whatever the usual run would say.
        return full, full
    usual = _Forward(snapshot, expected=True)
    usual.run(until=waiter_id, horizon=horizon, effort=effort)
    return full, usual


def _of_runs(snapshot: PoolSnapshot, waiter: Waiter, runs: tuple[_Forward, _Forward]) -> Estimate:
    late, early = (forward.starts.get(waiter.id) for forward in runs)
    if any(forward.gave_up for forward in runs):
        return _unknown(TOO_LONG)
    if any(waiter.id in forward.poor for forward in runs):
        return _unknown("When it could start, what is left of its team's budget may not pay for it.")
    if late is None or early is None:
        return _unknown("Something that it waits for is held by a workload without end.")
    for beyond in snapshot.beyond:
        if beyond.team != waiter.team and any(forward.ran_out(beyond.team, waiter.id) for forward in runs):
            return _unknown("Others that are not looked at one by one may go first by then.")
    # A run that ends sooner may let in another that ends later: the later answer is the careful one.
    late = max(early, late)
    if late > FAR_APART * early and late - early > FAR_APART_SECONDS:
        return _unknown(
            f"It may start in {early} s if what runs takes as long as usual, or only in {late} s if that takes all of its time: too far "
            "apart to promise a time."
        )
    return Estimate(snapshot.now + early, snapshot.now + late, RUN_FORWARD)


def _unknown(because: str) -> Estimate:
    return Estimate(None, None, NOT_ESTIMATED, because)


class _Forward:
    """Time goes from event to event; at each the same pass is made over the waiters that are left."""

    __slots__ = (
        "_coarse",
        "_emptied",
        "_entered",
        "_events",
        "_evicted",
        "_expected",
        "_held",
        "_never",
        "_pool",
        "_pushed",
        "_started",
        "_stopped",
        "_until",
        "_waiting",
        "gave_up",
        "poor",
        "starts",
    )

    def __init__(self, snapshot: PoolSnapshot, *, expected: bool) -> None:
        self._pool = PoolInTime(snapshot)
        self._expected = expected
        self._coarse = len(snapshot.waiters) > EXACT_MOST
        self._waiting = {waiter.id for waiter in snapshot.waiters}
        self.starts: dict[str, int] = {}
        """Seconds from now until the first start of each."""
        self.gave_up = False
        """Whether it took more effort than was allowed."""
        self.poor: set[str] = set()
        """Those whose team's budget had too little left for them at their turn."""
        self._started: dict[int, set[str]] = {}
        self._stopped: list[Holding] = []
        self._entered: list[tuple[TeamQueue, int]] = []
        """What the waiters that started in this walk were charged for it."""
        self._events: list[tuple[int, int, int, Holding]] = []
        self._pushed = 0
        self._held: dict[int, int] = {}
        self._until: dict[str, int] = {}
        """When each run ends by itself."""
        self._evicted: set[str] = set()
        self._never: set[str] = set()
        """Ids of waiters that cannot start as things are."""
        shown = {waiter.team for waiter in snapshot.waiters}
        self._emptied = {line.slug: 0 for line in self._pool.lines.lines if line.slug not in shown}
        """When the last waiter of a team had started."""
        for holder in snapshot.holders:
            holding = self._pool.holdings[holder.id]
            self._count(holding, holding.units)
            if holding.leaving:
                self._push(snapshot.rules.grace_seconds, _GONE, holding)
                continue
            ends = holder.ends_in
            if expected and holder.expected_in is not None:
                ends = holder.expected_in if ends is None else min(ends, holder.expected_in)
            if ends is not None:
                self._end(holding, max(0, ends))
            self._look_again(holding)

    def run(self, *, horizon: int | None = None, until: str | None = None, effort: int | None = None) -> None:
        self._pass()
        spent = 0
        while self._waiting and self._events and (until is None or until in self._waiting):
            first = self._events[0][0]
            if horizon is not None and first > horizon:
                return
            if effort is not None and spent > effort:
                self.gave_up = True
                return
            last = first + min(first // COARSE_PART, COARSE_SECONDS) if self._coarse else first
            changed = False
            while self._events and self._events[0][0] <= last:
                time, _, kind, holding = heappop(self._events)
                self._advance(time)
                changed |= self._happen(kind, holding)
            if changed:
                spent += len(self._waiting)
                self._pass()

    def ran_out(self, team: str, waiter_id: str) -> bool:
        """Whether all waiters of a team that the snapshot shows had started before this waiter did."""
        last = self._emptied.get(team)
        return last is not None and last <= self.starts[waiter_id]

    def _advance(self, time: int) -> None:
        seconds = time - self._pool.now
        if not seconds:
            return
        for index, units in self._held.items():
            self._pool.lines.lines[index].use += units * seconds * self._pool.lines.unit_use
        self._pool.now = time

    def _happen(self, kind: int, holding: Holding) -> bool:
        """Whether a waiter could start, or make another leave, because of it."""
        pool, name = self._pool, holding.id
        if pool.holdings.get(name) is not holding:
            return False
        if kind == _LOOK:
            return not self._coarse or self._wanted(holding)
        pool.remove(holding)
        self._count(holding, -holding.units)
        until = self._until.pop(name, None)
        unfinished = kind == _GONE and (holding.ends is None or holding.ends > pool.now)
        # The snapshot does not say why a run was leaving already: the careful answer lets it come back.
        if unfinished and holding.preemptible and (name in self._evicted or not self._expected):
            holding.line.join(self._rest(holding, until))
        return True

    def _wanted(self, holding: Holding) -> bool:
        line, tree = holding.line, self._pool.room.tree
        if holding.leaving:
            return False
        if line.waiters and -line.waiters[0][0] > holding.priority:
            return True
        return line.place >= 0 and tree.borrowed_at(line.place) > 0

    def _rest(self, holding: Holding, until: int | None) -> Waiter:
        """The run that was made to leave, back in its place in the queue with what is left of its time."""
        now = self._pool.now
        seconds = None if holding.ends is None else holding.ends - now
        expected = seconds if until is None else max(1, until - now)
        if holding.waiter is not None:
            return replace(holding.waiter, seconds=seconds, expected_seconds=expected)
        return Waiter(
            id=holding.id,
            team=holding.line.slug,
            owner=holding.owner,
            noun="run",
            units=holding.units,
            units_each=holding.units_each,
            pods=holding.units // holding.units_each if holding.units_each else 0,
            priority=holding.priority,
            # It is not known since when it had waited; earlier than all others is careful.
            queued_at=0,
            sequence=0,
            seconds=seconds,
            expected_seconds=expected,
            preemptible=True,
            beside=holding.beside,
            most=holding.most,
        )

    def _pass(self) -> None:
        self._started.clear()
        walk = SchedulingCycle(self._pool, quick=self._coarse)
        (walk.run_for_starts if self._coarse and self._pool.now else walk.run)(self._note)
        lines = self._pool.lines.lines
        for line, use in self._entered:
            line.use -= use
        self._entered.clear()
        for index, gone in self._started.items():
            lines[index].drop(gone)
            if all(entry[3] in self._never for entry in lines[index].waiters):
                self._emptied.setdefault(lines[index].slug, self._pool.now)
        for holding in self._stopped:
            self._pool.stop(holding)
            self._evicted.add(holding.id)
            left = self._pool.now + self._pool.snapshot.rules.grace_seconds
            self._push(left, _GONE, holding)
        self._stopped.clear()

    def _note(self, line: TeamQueue, waiter: Waiter, finding: Finding) -> None:
        if finding.outcome is Outcome.ADMIT:
            self._start(line, waiter)
        elif finding.rule in STUCK:
            gone = self._started.setdefault(line.index, set())
            # A whole pass looks at them too: a waiter that needs the least of all is no elder.
            if self._coarse:
                gone.add(waiter.id)
            self._never.add(waiter.id)
            if finding.rule == BUDGET.rule:
                self.poor.add(waiter.id)
            self._waiting.discard(waiter.id)
        elif finding.chosen:
            self._stopped += [holding for holding, _ in finding.chosen]

    def _start(self, line: TeamQueue, waiter: Waiter) -> None:
        pool = self._pool
        self._started.setdefault(line.index, set()).add(waiter.id)
        if waiter.id in self._waiting:
            self._waiting.discard(waiter.id)
            self.starts[waiter.id] = pool.now
        holding = pool.holdings.get(waiter.id)
        if holding is None:
            return
        self._count(holding, holding.units)
        # Its use is counted second by second from here on; for the rest of this walk what it took counts at once.
        self._entered.append((line, waiter.units * pool.lines.penalty))
        seconds = waiter.seconds
        if self._expected and waiter.expected_seconds is not None:
            seconds = waiter.expected_seconds if seconds is None else min(seconds, waiter.expected_seconds)
        if seconds is not None:
            self._end(holding, pool.now + max(1, seconds))
        if holding.preemptible:
            pool.may_leave(holding)
            self._look_again(holding)

    def _end(self, holding: Holding, at: int) -> None:
        self._until[holding.id] = at
        self._push(at, _ENDS, holding)

    def _push(self, at: int, kind: int, holding: Holding) -> None:
        self._pushed += 1
        heappush(self._events, (at, self._pushed, kind, holding))

    def _look_again(self, holding: Holding) -> None:
        """Once it has had its minimum run time, another waiter may want it to leave."""
        at = holding.since + self._pool.snapshot.rules.minimum_run_seconds
        if holding.preemptible and at > self._pool.now:
            self._push(at, _LOOK, holding)

    def _count(self, holding: Holding, units: int) -> None:
        self._held[holding.line.index] = self._held.get(holding.line.index, 0) + units
