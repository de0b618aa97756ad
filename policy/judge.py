"""Which waiters may start, and why the others may not: one pure judgement for admission, preview and the waiting card.

These are its questions; `scheduling_cycle` takes the steps, and `findings` says what a step found.

The steps, first to last: what is never possible (capacity type, quota row, block of a node), a stopped queue, more
than the team, its user or its time limit may ever have, the user's own limit, the team's ceilings and its budget, then quota, cards and blocks, lent
headroom, room that others leave or are made to leave, and at last whether it could delay a waiter ahead.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from policy.findings import OUT_OF_LINE, Finding
from policy.free_capacity import PoolInTime
from policy.messages import Messages
from policy.ordering import TeamQueue, hidden_ahead
from policy.pool_snapshot import PoolSnapshot, Waiter
from policy.scheduling_cycle import SchedulingCycle
from policy.verdicts import CyclePlan, Verdict

POLICY = "admission/7"
"""Names these rules in stored decisions; another name wherever a verdict could differ."""
REPLAYED = frozenset({"admission/2", "admission/3", "admission/4", "admission/5", "admission/6", POLICY})
"""Policies whose stored inputs this one judges alike. Inputs of admission/2 know only the units of nodes and pods, and
what is not known refuses nothing: before admission/5 that was what teams hold of their ceilings, and
before admission/6 what their budgets have left; before admission/7 the sentences were others. Older ones counted what they admitted as held already in their evidence, and had
other words."""

IsRead = Callable[[Waiter, Finding], bool]
"""Whether anyone gets to read the verdict of this waiter."""


def plan(snapshot: PoolSnapshot, *, is_read: IsRead | None = None) -> CyclePlan:
    """A verdict for every waiter, in the order in which they have their turn; the same for the same snapshot.

    With `is_read`, only the verdicts for which it is true have a message and evidence.
    """
    pool = PoolInTime(snapshot)
    words = Messages(pool)
    walk = SchedulingCycle(pool)
    verdicts: dict[str, Verdict] = {}

    def note(line: TeamQueue, waiter: Waiter, finding: Finding) -> None:
        if is_read is None or is_read(waiter, finding):
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
    verdicts: dict[str, Verdict] = {}

    def note(line: TeamQueue, waiter: Waiter, finding: Finding) -> None:
        if waiter.id == waiter_id:
            verdicts[waiter_id] = words.verdict(line, waiter, finding, walk.waiting)

    walk.run(note, until=waiter_id)
    return verdicts[waiter_id]


def ahead(snapshot: PoolSnapshot, waiter_id: str, *, cycle_plan: CyclePlan | None = None) -> tuple[str, ...]:
    """The ids of waiters that have a turn before this one and go on waiting in line, first to last.

    Waiters that hold no other up are left out: those that can never start, of stopped queues, that need more than the most
    there is, and of a user at the own limit. `cycle_plan` is the plan of this very snapshot, for callers that have it.
    """
    known = cycle_plan or plan(snapshot)
    before: list[str] = []
    for other_id in known.order:
        if other_id == waiter_id:
            return tuple(before)
        if _holds_up(known.verdicts[other_id]):
            before.append(other_id)
    raise KeyError(waiter_id)


def position(snapshot: PoolSnapshot, waiter_id: str, *, cycle_plan: CyclePlan | None = None) -> int:
    """Place in the line, from 1: after all waiters `ahead`, and after those of its own team that the snapshot only
    counts and whose priority is higher, or equal where the waiter is not submitted yet.
    """
    waiter = next(waiting for waiting in snapshot.waiters if waiting.id == waiter_id)
    return 1 + len(ahead(snapshot, waiter_id, cycle_plan=cycle_plan)) + hidden_ahead(snapshot, waiter)


def positions(snapshot: PoolSnapshot, *, cycle_plan: CyclePlan) -> dict[str, int]:
    """The `position` of every waiter, by id. `cycle_plan` is the plan of this very snapshot."""
    waiters = {waiter.id: waiter for waiter in snapshot.waiters}
    places, before = {}, 0
    for waiter_id in cycle_plan.order:
        places[waiter_id] = 1 + before + hidden_ahead(snapshot, waiters[waiter_id])
        before += _holds_up(cycle_plan.verdicts[waiter_id])
    return places


def _holds_up(verdict: Verdict) -> bool:
    """Whether those behind may see it as a waiter ahead of them."""
    return verdict.rule not in OUT_OF_LINE and not verdict.admitted
