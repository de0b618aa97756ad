"""Who may start, and why not: one pure judgement used by admission, preview and the waiting card alike.

These are its questions; `scheduling_cycle` takes the steps, and `findings` says what a step found.

The steps, first to last: what is never possible (capacity type, quota row, block of a node), a stopped queue, more
than the team, its user or its time limit may ever have, the user's own limit, then quota, cards and blocks, lent
headroom, room that others leave or are made to leave, and at last whether it could delay somebody ahead.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from policy.findings import Finding
from policy.free_capacity import PoolInTime
from policy.messages import Messages
from policy.ordering import TeamQueue, hidden_ahead
from policy.pool_snapshot import PoolSnapshot, Waiter
from policy.scheduling_cycle import SchedulingCycle
from policy.verdicts import CyclePlan, Verdict
from workloads.states import OUT_OF_REACH, Reason

POLICY = "admission/3"
"""Names these rules in stored decisions; another name wherever a verdict could differ."""
REPLAYED = frozenset({"admission/2", POLICY})
"""Policies whose stored inputs this one judges alike. Those of admission/2 say of nodes and pods nothing but units, and
what is not known refuses nothing."""

Told = Callable[[Waiter, Finding], bool]
"""Whether somebody gets to read the verdict of this waiter."""

_OUT_OF_LINE = frozenset({*OUT_OF_REACH, Reason.QUEUE_STOPPED})


def plan(snapshot: PoolSnapshot, *, told: Told | None = None) -> CyclePlan:
    """A verdict for every waiter, in the order in which they have their turn; the same for the same snapshot.

    With `told`, only those of whom it is true have a message and evidence.
    """
    pool = PoolInTime(snapshot)
    words = Messages(pool)
    walk = SchedulingCycle(pool)
    verdicts: dict[str, Verdict] = {}

    def note(line: TeamQueue, waiter: Waiter, finding: Finding) -> None:
        if told is None or told(waiter, finding):
            verdicts[waiter.id] = words.verdict(line, waiter, finding, walk.waiting)
        else:
            verdicts[waiter.id] = words.bare(finding)

    walk.run(note)
    return CyclePlan(verdicts=MappingProxyType(verdicts), order=tuple(verdicts), next_at=walk.next_at())


def judge(snapshot: PoolSnapshot, waiter_id: str) -> Verdict:
    """The verdict for one waiter of the snapshot, as `plan` has it; KeyError where it has no such waiter."""
    pool = PoolInTime(snapshot)
    words = Messages(pool)
    walk = SchedulingCycle(pool)
    found: dict[str, Verdict] = {}

    def note(line: TeamQueue, waiter: Waiter, finding: Finding) -> None:
        if waiter.id == waiter_id:
            found[waiter_id] = words.verdict(line, waiter, finding, walk.waiting)

    walk.run(note, until=waiter_id)
    return found[waiter_id]


def ahead(snapshot: PoolSnapshot, waiter_id: str, *, cycle_plan: CyclePlan | None = None) -> tuple[str, ...]:
    """Who has a turn before this waiter and goes on waiting in line, first to last.

    Left out are those who hold nobody up: what can never start, stopped queues, more than the most there is, and a
    user at the own limit. `cycle_plan` is the plan of this very snapshot, for callers who have it.
    """
    known = cycle_plan or plan(snapshot)
    before: list[str] = []
    for each in known.order:
        if each == waiter_id:
            return tuple(before)
        if _holds_up(known.verdicts[each]):
            before.append(each)
    raise KeyError(waiter_id)


def position(snapshot: PoolSnapshot, waiter_id: str, *, cycle_plan: CyclePlan | None = None) -> int:
    """Place in the line, from 1: after everybody `ahead`, and after those of its own team that the snapshot only
    counts and whose priority is higher, or equal where the waiter is not submitted yet.
    """
    waiter = next(each for each in snapshot.waiters if each.id == waiter_id)
    return 1 + len(ahead(snapshot, waiter_id, cycle_plan=cycle_plan)) + hidden_ahead(snapshot, waiter)


def positions(snapshot: PoolSnapshot, *, cycle_plan: CyclePlan) -> dict[str, int]:
    """The `position` of everybody, by id. `cycle_plan` is the plan of this very snapshot."""
    waiters = {waiter.id: waiter for waiter in snapshot.waiters}
    found, before = {}, 0
    for each in cycle_plan.order:
        found[each] = 1 + before + hidden_ahead(snapshot, waiters[each])
        before += _holds_up(cycle_plan.verdicts[each])
    return found


def _holds_up(verdict: Verdict) -> bool:
    """Whether those behind may see it as somebody ahead of them."""
    in_line = verdict.reason not in _OUT_OF_LINE and verdict.rule != "user-limit"
    return in_line and not verdict.admitted
