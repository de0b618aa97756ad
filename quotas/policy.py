"""Who may start, and why not: one pure judgement used by admission, preview and the waiting card alike.

The steps, first to last: what is never possible (capacity type, quota row, block of a node), a stopped queue, more
than the team, its user or its time limit may ever have, the user's own limit, then quota, cards and blocks, lent
headroom, room that others leave or are made to leave, and at last whether it could delay somebody ahead.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from quotas.findings import Finding
from quotas.ordering import Line, hidden_ahead
from quotas.passes import Pass
from quotas.room import Pool
from quotas.supply import Supply, Waiter
from quotas.verdicts import PassPlan, Verdict
from quotas.words import Words
from workloads.states import OUT_OF_REACH, Reason

POLICY = "admission/3"
"""Names these rules in stored decisions; another name wherever a verdict could differ."""
REPLAYED = frozenset({"admission/2", POLICY})
"""Policies whose stored inputs this one judges alike. Those of admission/2 say of nodes and pods nothing but units, and
what is not known refuses nothing."""

Told = Callable[[Waiter, Finding], bool]
"""Whether somebody gets to read the verdict of this waiter."""

_OUT_OF_LINE = frozenset({*OUT_OF_REACH, Reason.QUEUE_STOPPED})


def plan(supply: Supply, *, told: Told | None = None) -> PassPlan:
    """A verdict for every waiter, in the order in which they have their turn; the same for the same Supply.

    With `told`, only those of whom it is true have a message and evidence.
    """
    pool = Pool(supply)
    words = Words(pool)
    walk = Pass(pool)
    verdicts: dict[str, Verdict] = {}

    def note(line: Line, waiter: Waiter, finding: Finding) -> None:
        if told is None or told(waiter, finding):
            verdicts[waiter.id] = words.verdict(line, waiter, finding, walk.waiting)
        else:
            verdicts[waiter.id] = words.bare(finding)

    walk.run(note)
    return PassPlan(verdicts=MappingProxyType(verdicts), order=tuple(verdicts), next_at=walk.next_at())


def judge(supply: Supply, waiter_id: str) -> Verdict:
    """The verdict for one waiter of the Supply, as `plan` has it; KeyError where it has no such waiter."""
    pool = Pool(supply)
    words = Words(pool)
    walk = Pass(pool)
    found: dict[str, Verdict] = {}

    def note(line: Line, waiter: Waiter, finding: Finding) -> None:
        if waiter.id == waiter_id:
            found[waiter_id] = words.verdict(line, waiter, finding, walk.waiting)

    walk.run(note, until=waiter_id)
    return found[waiter_id]


def ahead(supply: Supply, waiter_id: str, *, given: PassPlan | None = None) -> tuple[str, ...]:
    """Who has a turn before this waiter and goes on waiting in line, first to last.

    Left out are those who hold nobody up: what can never start, stopped queues, more than the most there is, and a
    user at the own limit. `given` is the plan of this very Supply, for callers who have it.
    """
    known = given or plan(supply)
    before: list[str] = []
    for each in known.order:
        if each == waiter_id:
            return tuple(before)
        if _holds_up(known.verdicts[each]):
            before.append(each)
    raise KeyError(waiter_id)


def position(supply: Supply, waiter_id: str, *, given: PassPlan | None = None) -> int:
    """Place in the line, from 1: after everybody `ahead`, and after those of its own team that the Supply only
    counts and whose priority is higher, or equal where the waiter is not submitted yet.
    """
    waiter = next(each for each in supply.waiters if each.id == waiter_id)
    return 1 + len(ahead(supply, waiter_id, given=given)) + hidden_ahead(supply, waiter)


def positions(supply: Supply, *, given: PassPlan) -> dict[str, int]:
    """The `position` of everybody, by id. `given` is the plan of this very Supply."""
    waiters = {each.id: each for each in supply.waiters}
    found, before = {}, 0
    for each in given.order:
        found[each] = 1 + before + hidden_ahead(supply, waiters[each])
        before += _holds_up(given.verdicts[each])
    return found


def _holds_up(verdict: Verdict) -> bool:
    """Whether those behind may see it as somebody ahead of them."""
    in_line = verdict.reason not in _OUT_OF_LINE and verdict.rule != "user-limit"
    return in_line and not verdict.admitted
