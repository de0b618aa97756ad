"""The state machine of a workload: the only place that lists phases, reasons and moves.

A phase is coarse and drives the machine; a reason is fine and is for people. The diagram in
docs/reference/workload-phases.md is generated from these tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Phase(StrEnum):
    QUEUED = "Queued"
    ADMITTED = "Admitted"
    STARTING = "Starting"
    RUNNING = "Running"
    STOPPING = "Stopping"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


class Reason(StrEnum):
    # Queued
    PENDING_EVALUATION = "PendingEvaluation"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    WAITING_FOR_TEAM_CEILING = "WaitingForTeamCeiling"
    WAITING_FOR_BUDGET = "WaitingForBudget"
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    TOPOLOGY_PLACEMENT_FAILED = "TopologyPlacementFailed"
    WAITING_FOR_PREEMPTED_WORKLOADS = "WaitingForPreemptedWorkloads"
    QUEUE_STOPPED = "QueueStopped"
    BACKOFF_WAITING = "BackoffWaiting"
    CLUSTER_UNAVAILABLE = "ClusterUnavailable"
    # Queued again, or the next attempt, after an interruption that is not the user's fault
    PREEMPTED = "Preempted"
    SPOT_RECLAIMED = "SpotReclaimed"
    NODE_LOST = "NodeLost"
    # Admitted
    CREATING = "Creating"
    SCHEDULING = "Scheduling"
    UNSCHEDULABLE = "Unschedulable"
    # Starting
    PULLING = "Pulling"
    INITIALIZING = "Initializing"
    LOADING = "Loading"
    GANG_WAITING = "GangWaiting"
    RESTARTING = "Restarting"
    # Running
    PROGRESSING = "Progressing"
    READY = "Ready"
    DEGRADED = "Degraded"
    UPDATING = "Updating"
    SCALED_TO_ZERO = "ScaledToZero"
    WAKING = "Waking"
    SCALER_FAILED = "ScalerFailed"
    # Stopping, so that another may start or because the quota was cut
    PREEMPTING = "Preempting"
    QUOTA_REDUCED = "QuotaReduced"
    # Stopping, Suspended, Cancelled
    USER_REQUESTED = "UserRequested"
    # Suspended: a member of a sweep that may not run yet
    WAITING_FOR_SWEEP = "WaitingForSweep"
    # Stopping and Cancelled: a member of a sweep whose metric is not worth going on
    EARLY_STOPPED = "EarlyStopped"
    # Stopping, Suspended: its template's policy about GPUs that do nothing
    IDLE_POLICY = "IdlePolicy"
    # Stopping, Suspended: what its team's budget had for it is spent
    BUDGET_EXHAUSTED = "BudgetExhausted"
    # Stopping and Failed
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    START_ERROR = "StartError"
    # Succeeded
    COMPLETED = "Completed"
    # Failed
    BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
    OOM_KILLED = "OOMKilled"
    INVALID_SPEC = "InvalidSpec"
    APPLICATION_ERROR = "ApplicationError"
    DELETED_EXTERNALLY = "DeletedExternally"


class Desired(StrEnum):
    """What people want; the reconciler makes the phase follow."""

    RUN = "run"
    SUSPEND = "suspend"
    CANCEL = "cancel"


class Priority(StrEnum):
    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


PRIORITY_VALUE: Mapping[Priority, int] = MappingProxyType(
    {Priority.LOW: 100, Priority.NORMAL: 500, Priority.HIGH: 1000}
)

_END = frozenset({Phase.SUCCEEDED, Phase.FAILED})

TRANSITIONS: Mapping[Phase, frozenset[Phase]] = MappingProxyType(
    {
        Phase.QUEUED: frozenset({Phase.ADMITTED, Phase.SUSPENDED, Phase.CANCELLED, Phase.FAILED}),
        Phase.ADMITTED: frozenset({Phase.STARTING, Phase.RUNNING, Phase.STOPPING}) | _END,
        Phase.STARTING: frozenset({Phase.ADMITTED, Phase.RUNNING, Phase.STOPPING}) | _END,
        Phase.RUNNING: frozenset({Phase.ADMITTED, Phase.STARTING, Phase.STOPPING}) | _END,
        Phase.STOPPING: frozenset({Phase.QUEUED, Phase.ADMITTED, Phase.SUSPENDED, Phase.CANCELLED}) | _END,
        Phase.SUSPENDED: frozenset({Phase.QUEUED, Phase.CANCELLED}),
        Phase.SUCCEEDED: frozenset(),
        Phase.FAILED: frozenset(),
        Phase.CANCELLED: frozenset(),
    }
)

FINAL: frozenset[Phase] = frozenset(phase for phase, targets in TRANSITIONS.items() if not targets)
HOLDS_CLAIM: frozenset[Phase] = frozenset({Phase.ADMITTED, Phase.STARTING, Phase.RUNNING, Phase.STOPPING})
IN_CLUSTER: frozenset[Phase] = HOLDS_CLAIM
"""Phases in which objects of the workload may exist in the cluster."""
OUT_OF_REACH: tuple[Reason, ...] = (Reason.EXCEEDS_MAX_QUOTA, Reason.NO_MATCHING_FLAVOR)
"""Why a queued workload cannot start however long it waits; it does not hold up those behind it."""

REASONS: Mapping[Phase, frozenset[Reason]] = MappingProxyType(
    {
        Phase.QUEUED: frozenset(
            {
                Reason.PENDING_EVALUATION,
                Reason.WAITING_FOR_QUOTA,
                Reason.WAITING_FOR_TEAM_CEILING,
                Reason.WAITING_FOR_BUDGET,
                Reason.EXCEEDS_MAX_QUOTA,
                Reason.NO_MATCHING_FLAVOR,
                Reason.TOPOLOGY_PLACEMENT_FAILED,
                Reason.WAITING_FOR_PREEMPTED_WORKLOADS,
                Reason.QUEUE_STOPPED,
                Reason.BACKOFF_WAITING,
                Reason.CLUSTER_UNAVAILABLE,
                Reason.PREEMPTED,
                Reason.SPOT_RECLAIMED,
                Reason.NODE_LOST,
                Reason.QUOTA_REDUCED,
            }
        ),
        Phase.ADMITTED: frozenset(
            {Reason.CREATING, Reason.SCHEDULING, Reason.UNSCHEDULABLE, Reason.NODE_LOST, Reason.RESTARTING}
        ),
        Phase.STARTING: frozenset(
            {
                Reason.PULLING,
                Reason.INITIALIZING,
                Reason.GANG_WAITING,
                Reason.LOADING,
                Reason.RESTARTING,
                Reason.IMAGE_PULL_FAILED,
                Reason.START_ERROR,
            }
        ),
        Phase.RUNNING: frozenset(
            {
                Reason.PROGRESSING,
                Reason.READY,
                Reason.DEGRADED,
                Reason.UPDATING,
                Reason.SCALED_TO_ZERO,
                Reason.WAKING,
                Reason.SCALER_FAILED,
            }
        ),
        Phase.STOPPING: frozenset(
            {
                Reason.USER_REQUESTED,
                Reason.EARLY_STOPPED,
                Reason.IDLE_POLICY,
                Reason.BUDGET_EXHAUSTED,
                Reason.DEADLINE_EXCEEDED,
                Reason.IMAGE_PULL_FAILED,
                Reason.START_ERROR,
                Reason.BACKOFF_WAITING,
                Reason.PREEMPTING,
                Reason.PREEMPTED,
                Reason.QUOTA_REDUCED,
                Reason.SPOT_RECLAIMED,
                Reason.NODE_LOST,
                Reason.INVALID_SPEC,
            }
        ),
        Phase.SUSPENDED: frozenset(
            {Reason.USER_REQUESTED, Reason.WAITING_FOR_SWEEP, Reason.IDLE_POLICY, Reason.BUDGET_EXHAUSTED}
        ),
        Phase.SUCCEEDED: frozenset({Reason.COMPLETED}),
        Phase.FAILED: frozenset(
            {
                Reason.BACKOFF_LIMIT_EXCEEDED,
                Reason.DEADLINE_EXCEEDED,
                Reason.OOM_KILLED,
                Reason.IMAGE_PULL_FAILED,
                Reason.INVALID_SPEC,
                Reason.NODE_LOST,
                Reason.APPLICATION_ERROR,
                Reason.START_ERROR,
                Reason.DELETED_EXTERNALLY,
            }
        ),
        Phase.CANCELLED: frozenset({Reason.USER_REQUESTED, Reason.EARLY_STOPPED}),
    }
)


def can_move(source: Phase, target: Phase) -> bool:
    """Whether a workload may go from `source` to `target`; staying in place is a refresh and always allowed
    while the phase is not final.
    """
    if source in FINAL:
        return False
    return source == target or target in TRANSITIONS[source]
