"""What can be told of: the topics that people choose, and the types that receivers see. Pure."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Final

from telemetry.rules import IDLE
from workloads.states import Phase, Reason


class Topic(StrEnum):
    """What a subscription chooses."""

    FAILED = "failed"
    FINISHED = "finished"
    WAITING = "waiting"
    PREEMPTED = "preempted"
    UNHEALTHY = "unhealthy"
    QUOTA_DECIDED = "quota_decided"
    BUDGET = "budget"
    MONTHLY_COSTS = "monthly_costs"
    WEEKLY_COSTS = "weekly_costs"
    GPUS_IDLE = "gpus_idle"
    GPUS_LITTLE_USED = "gpus_little_used"
    GPUS_MEMORY_FULL = "gpus_memory_full"
    GPUS_HOT = "gpus_hot"


class NoticeType(StrEnum):
    """The `type` of a notice."""

    FAILED = "workload.failed"
    FINISHED = "workload.finished"
    WAITING = "workload.waiting"
    PREEMPTED = "workload.preempted"
    UNHEALTHY = "endpoint.unhealthy"
    HEALTHY = "endpoint.healthy"
    QUOTA_DECIDED = "quota_request.decided"
    BUDGET_WARNED = "budget.warned"
    BUDGET_EXHAUSTED = "budget.exhausted"
    BUDGET_OVERRIDE = "budget.override"
    BUDGET_FORECAST = "budget.forecast"
    COSTS_MONTHLY = "costs.monthly"
    COSTS_WEEKLY = "costs.weekly"
    ALERT_OPENED = "alert.opened"
    ALERT_CLOSED = "alert.closed"
    IDLE_WARNED = "idle_policy.warned"
    IDLE_STOPPED = "idle_policy.stopped"
    TEST = "portal.test"
    DIGEST = "portal.digest"


REPORTS: Final = frozenset({NoticeType.COSTS_MONTHLY, NoticeType.COSTS_WEEKLY})
"""What tells of a time that is over. Each is a notice of its own: it is in no digest."""

TOPIC_LABELS: Final[dict[Topic, str]] = {
    Topic.FAILED: "A run or endpoint fails",
    Topic.FINISHED: "A run finishes or is cancelled",
    Topic.WAITING: "A run or endpoint waits longer than a time",
    Topic.PREEMPTED: "A run or endpoint is interrupted for another one, or loses its node",
    Topic.UNHEALTHY: "An endpoint is unhealthy, and when it is well again",
    Topic.QUOTA_DECIDED: "A request for quota is decided",
    Topic.BUDGET: "A budget of a team passes a threshold, is spent, gets something on top, or will not last",
    Topic.MONTHLY_COSTS: "A month is over: what it cost",
    Topic.WEEKLY_COSTS: "A week is over: what it cost",
    Topic.GPUS_IDLE: "GPUs do nothing, and when an idle policy is about to stop the run, or has stopped it",
    Topic.GPUS_LITTLE_USED: "GPUs are little used",
    Topic.GPUS_MEMORY_FULL: "The memory of a GPU is nearly full",
    Topic.GPUS_HOT: "A GPU is hot",
}

_INTERRUPTED: Final = frozenset(
    {Reason.PREEMPTED, Reason.SPOT_RECLAIMED, Reason.NODE_LOST, Reason.QUOTA_REDUCED}
)
_ENDS: Final[dict[Phase, NoticeType]] = {
    Phase.FAILED: NoticeType.FAILED,
    Phase.SUCCEEDED: NoticeType.FINISHED,
    Phase.CANCELLED: NoticeType.FINISHED,
}
_ILL: Final = frozenset(
    {
        (Phase.RUNNING, Reason.DEGRADED),
        (Phase.RUNNING, Reason.SCALER_FAILED),
        (Phase.STARTING, Reason.IMAGE_PULL_FAILED),
        (Phase.STARTING, Reason.START_ERROR),
    }
)


def type_of_move(
    *, phase: str, reason: str, from_phase: str, from_reason: str, serves: bool
) -> NoticeType | None:
    """What a move of a workload is told as; None for one that nobody is told of. `serves`: it takes requests."""
    if phase in _ENDS:
        return _ENDS[Phase(phase)]
    interrupted = (phase == Phase.QUEUED != from_phase) or (phase == Phase.ADMITTED)
    if interrupted and reason in _INTERRUPTED and reason != from_reason:
        return NoticeType.PREEMPTED
    ill, was_ill = (phase, reason) in _ILL, (from_phase, from_reason) in _ILL
    if not serves or ill == was_ill:
        return None
    if ill:
        return NoticeType.UNHEALTHY
    return NoticeType.HEALTHY if phase == Phase.RUNNING else None


_TOPICS: Final[dict[NoticeType, Topic]] = {
    NoticeType.FAILED: Topic.FAILED,
    NoticeType.FINISHED: Topic.FINISHED,
    NoticeType.WAITING: Topic.WAITING,
    NoticeType.PREEMPTED: Topic.PREEMPTED,
    NoticeType.UNHEALTHY: Topic.UNHEALTHY,
    NoticeType.HEALTHY: Topic.UNHEALTHY,
    NoticeType.QUOTA_DECIDED: Topic.QUOTA_DECIDED,
    NoticeType.BUDGET_WARNED: Topic.BUDGET,
    NoticeType.BUDGET_EXHAUSTED: Topic.BUDGET,
    NoticeType.BUDGET_OVERRIDE: Topic.BUDGET,
    NoticeType.BUDGET_FORECAST: Topic.BUDGET,
    NoticeType.COSTS_MONTHLY: Topic.MONTHLY_COSTS,
    NoticeType.COSTS_WEEKLY: Topic.WEEKLY_COSTS,
    NoticeType.IDLE_WARNED: Topic.GPUS_IDLE,
    NoticeType.IDLE_STOPPED: Topic.GPUS_IDLE,
}
_OF_RULES: Final[dict[str, Topic]] = {
    IDLE: Topic.GPUS_IDLE,
    "little-used": Topic.GPUS_LITTLE_USED,
    "little-used-in-training": Topic.GPUS_LITTLE_USED,
    "memory-full": Topic.GPUS_MEMORY_FULL,
    "hot": Topic.GPUS_HOT,
}


def is_wanted(notice_type: str, *, serves: bool, topics: Collection[str], rule: str = "") -> bool:
    """Whether a subscription to these topics is told of it; an endpoint that failed is unhealthy, too. `rule`: of an alert."""
    topic = _OF_RULES[rule] if rule else _TOPICS[NoticeType(notice_type)]
    if topic in topics:
        return True
    return serves and notice_type == NoticeType.FAILED and Topic.UNHEALTHY in topics
