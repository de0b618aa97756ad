"""What a step of the policy found for one waiter: its words and numbers come later, if anyone reads them."""

from __future__ import annotations

from dataclasses import dataclass

from policy.backfill import Delayed, Denial
from policy.ceilings import ABOVE_CEILING, AT_CEILING
from policy.free_capacity import BLOCKS, CARDS, QUOTA
from policy.node_resources import TOO_LARGE
from policy.preemption import Chosen
from policy.verdicts import Outcome
from workloads.states import Reason


@dataclass(frozen=True, slots=True)
class Finding:
    """Which step decided, and what it found."""

    rule: str
    outcome: Outcome
    reason: Reason
    holds_up: bool = True
    """Whether those behind may see it as a waiter ahead of them."""
    chosen: tuple[Chosen, ...] = ()
    longest: int = 0
    """Seconds that it may run at most to start now; 0 where that would not help."""
    delayed: Delayed = Delayed.AHEAD
    """For a backfill that is denied: which waiter it could delay."""
    backfilled: bool = False


def _never(rule: str) -> Finding:
    return Finding(rule, Outcome.NEVER, Reason.NO_MATCHING_FLAVOR, holds_up=False)


def _wait(rule: str, reason: Reason, *, holds_up: bool = True) -> Finding:
    return Finding(rule, Outcome.WAIT, reason, holds_up=holds_up)


NO_GPU = Finding("no-gpu", Outcome.ADMIT, Reason.CREATING)
CAPACITY, NO_QUOTA, LARGEST_BLOCK = _never("capacity-type"), _never("no-quota"), _never("largest-block")
LARGEST_HOST = {rule: _never(rule) for rule in TOO_LARGE}
UNSEEN = _wait("nodes-unseen", Reason.TOPOLOGY_PLACEMENT_FAILED, holds_up=False)
STOPPED = _wait("queue-stopped", Reason.QUEUE_STOPPED, holds_up=False)
MAX_QUOTA = _wait("max-quota", Reason.EXCEEDS_MAX_QUOTA, holds_up=False)
MAX_OF_USER = _wait("max-of-user", Reason.EXCEEDS_MAX_QUOTA, holds_up=False)
MAX_TIME_LIMIT = _wait("max-time-limit", Reason.EXCEEDS_MAX_QUOTA, holds_up=False)
MAX_CEILING = {rule: _wait(rule, Reason.EXCEEDS_MAX_QUOTA, holds_up=False) for rule in ABOVE_CEILING}
CEILING = {rule: _wait(rule, Reason.WAITING_FOR_TEAM_CEILING, holds_up=False) for rule in AT_CEILING}
BUDGET = _wait("budget", Reason.WAITING_FOR_BUDGET, holds_up=False)
BEYOND = _wait("beyond", Reason.WAITING_FOR_QUOTA)
USER_LIMIT = _wait("user-limit", Reason.WAITING_FOR_QUOTA, holds_up=False)
LACKS = {
    QUOTA: _wait("quota", Reason.WAITING_FOR_QUOTA),
    CARDS: _wait("cards", Reason.TOPOLOGY_PLACEMENT_FAILED),
    BLOCKS: _wait("blocks", Reason.TOPOLOGY_PLACEMENT_FAILED),
}
PREEMPTION = _wait("preemption", Reason.WAITING_FOR_PREEMPTED_WORKLOADS)
LEAVING = _wait("leaving", Reason.WAITING_FOR_PREEMPTED_WORKLOADS)


_STUCK = (
    *(CAPACITY, NO_QUOTA, LARGEST_BLOCK, UNSEEN, STOPPED, MAX_QUOTA, MAX_OF_USER, MAX_TIME_LIMIT),
    *LARGEST_HOST.values(),
    *MAX_CEILING.values(),
    BUDGET,
)
STUCK = frozenset(finding.rule for finding in _STUCK)
"""Rules whose waiters cannot start as things are, however long they wait."""
OUT_OF_LINE = (STUCK - {UNSEEN.rule}) | {USER_LIMIT.rule, *AT_CEILING}
"""Rules whose waiters do not count as ahead of others."""


def denied(denial: Denial) -> Finding:
    """There is room for the waiter, and it must not have it."""
    return Finding(
        "backfill",
        Outcome.WAIT,
        Reason.WAITING_FOR_QUOTA,
        longest=denial.longest,
        delayed=denial.whom,
    )
