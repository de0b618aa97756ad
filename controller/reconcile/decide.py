"""Decides what to do next for one workload: a pure function of its row, the observation, and the time.

This is the only module of the controller with policy decisions. `reconcile` executes the Plan.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from policy.budgets import MoneyEnd
from workloads.pods.observation import Observation, Stage
from workloads.states import REASONS, Desired, Phase, Reason

RESYNC_SECONDS = 300
SOON_SECONDS = 2
CALL_COUNTS_SECONDS = 120
"""Seconds for which a call counts as a reason to wake; a caller that still waits then calls again."""
INTERRUPTIONS_MAX = 10
"""Consecutive interruptions without progress between them."""
PROGRESS_SECONDS = 1_800
"""An attempt that ran this many seconds counts as progress, with or without a checkpoint."""
RELEASING_INTERRUPTIONS = frozenset({Reason.SPOT_RECLAIMED, Reason.PREEMPTED})

STAGE_PHASE: dict[Stage, tuple[Phase, Reason]] = {
    Stage.CREATING: (Phase.ADMITTED, Reason.CREATING),
    Stage.SCHEDULING: (Phase.ADMITTED, Reason.SCHEDULING),
    Stage.PULLING: (Phase.STARTING, Reason.PULLING),
    Stage.INITIALIZING: (Phase.STARTING, Reason.INITIALIZING),
    Stage.LOADING: (Phase.STARTING, Reason.LOADING),
    Stage.RUNNING: (Phase.RUNNING, Reason.PROGRESSING),
    Stage.READY: (Phase.RUNNING, Reason.READY),
    Stage.DEGRADED: (Phase.RUNNING, Reason.DEGRADED),
    Stage.UPDATING: (Phase.RUNNING, Reason.UPDATING),
    Stage.ASLEEP: (Phase.RUNNING, Reason.SCALED_TO_ZERO),
}

TRIED_IN_VAIN = frozenset({Reason.IMAGE_PULL_FAILED, Reason.START_ERROR})
"""What the kubelet tries again for ever; after a while the portal stops waiting for it."""
COMING = frozenset({Stage.CREATING, Stage.SCHEDULING, Stage.PULLING, Stage.INITIALIZING, Stage.LOADING})


class Action(StrEnum):
    ADMIT = "admit"
    CREATE = "create"
    APPLY = "apply"
    DELETE = "delete"
    END_ATTEMPT = "end-attempt"
    RELEASE = "release"


@dataclass(frozen=True)
class ReconcileLimits:
    """The platform's settings that a decision depends on, in seconds."""

    grace: int
    schedule_deadline: int
    image_pull_deadline: int
    schedule_backoff: int | None = None
    """Rest after a deadline that passed; grows with every one. None: as long as the deadline."""


@dataclass(frozen=True)
class AttemptFacts:
    number: int
    created_at: datetime
    started_at: datetime | None
    confirmed: bool
    """Whether all its objects are known to have been made."""
    saved: bool = False
    """Whether it has saved a checkpoint that is past those of the attempts before it."""


@dataclass(frozen=True)
class Leave:
    """A request to leave: another workload needs the claim, or the quota was cut."""

    reason: Reason
    message: str


BY_USER = Leave(Reason.USER_REQUESTED, "")


@dataclass(frozen=True)
class WorkloadSnapshot:
    """The workload's row as an immutable value."""

    noun: str
    ends: bool
    phase: Phase
    reason: Reason
    message: str
    since: datetime
    desired: Desired
    stopping_to: Phase | None
    stale_generation: bool
    attempt: AttemptFacts | None
    retries_used: int
    max_retries: int
    interruptions: int
    used_seconds: int
    time_limit_seconds: int | None
    limits: ReconcileLimits
    leave: Leave | None = None
    called_at: datetime | None = None
    """When a caller last waited for its answer while it slept."""
    returns: bool = False
    """Whether an older version takes over where the newest cannot start."""
    wish: Leave = BY_USER
    """Why it is to be suspended or cancelled, where it is; without a message where a user asked for it."""
    rests_until: datetime | None = None
    """Whoever wakes it, no node has room for it sooner than that."""
    money: MoneyEnd | None = None
    """When its team's budget ends it, or has to be looked at again."""


@dataclass(frozen=True)
class Plan:
    """Actions in order, then the phase move. `retry`: whether the ended attempt used up a retry. `interruption`: the
    count of consecutive interruptions including this one; 0 for none.
    """

    to: Phase
    reason: Reason
    message: str
    actions: tuple[Action, ...] = ()
    stopping_to: Phase | None = None
    next_in_seconds: float | None = RESYNC_SECONDS
    retry: bool = False
    interruption: int = 0
    rests_until: datetime | None = None
    refused: str = ""
    """The cluster's words, where it refused a change of what runs for good."""
    no_surge: str = ""
    """Why a change waits that needs room on top of what is held."""


def decide(snapshot: WorkloadSnapshot, observed: Observation | None, now: datetime) -> Plan:
    """The next Plan; `observed` is None only for phases in which the workload has no objects in the cluster."""
    if observed is None:
        return _outside(snapshot, now)
    if snapshot.phase is Phase.STOPPING:
        return _stopping(snapshot, observed, now)
    if snapshot.desired is not Desired.RUN:
        target = Phase.SUSPENDED if snapshot.desired is Desired.SUSPEND else Phase.CANCELLED
        message = snapshot.wish.message or f"This {snapshot.noun} was asked to stop."
        return stop(snapshot.wish.reason, message, to=target)
    if not observed.final and (leaving := _leaving(snapshot, now)) is not None:
        return leaving
    if snapshot.attempt is None or not snapshot.attempt.confirmed:
        message = snapshot.message or f"Making the objects of this {snapshot.noun}."
        reason = snapshot.reason if snapshot.phase is Phase.ADMITTED else Reason.CREATING
        return Plan(Phase.ADMITTED, reason, message, (Action.CREATE,), next_in_seconds=SOON_SECONDS)
    return _live(_so_far(snapshot, observed, now), snapshot.attempt, observed, now)


def _leaving(snapshot: WorkloadSnapshot, now: datetime) -> Plan | None:
    """The plan to make room for others, or to end within what its team's budget has for it."""
    if snapshot.leave is not None:
        return stop(snapshot.leave.reason, snapshot.leave.message, to=Phase.QUEUED)
    money = snapshot.money
    if money is not None and money.stops and now >= money.at:
        return stop(Reason.BUDGET_EXHAUSTED, money.message, to=Phase.SUSPENDED)
    return None


def _outside(snapshot: WorkloadSnapshot, now: datetime) -> Plan:
    if snapshot.desired is Desired.CANCEL:
        message = snapshot.wish.message or "Cancelled before it started."
        return Plan(Phase.CANCELLED, snapshot.wish.reason, message, next_in_seconds=None)
    if snapshot.phase is Phase.SUSPENDED and snapshot.desired is Desired.RUN:
        return Plan(Phase.QUEUED, Reason.PENDING_EVALUATION, "Resumed.", next_in_seconds=0)
    if snapshot.phase is Phase.SUSPENDED and snapshot.wish.reason is snapshot.reason:
        return Plan(Phase.SUSPENDED, snapshot.reason, snapshot.message, next_in_seconds=None)
    if snapshot.desired is Desired.SUSPEND:
        message = snapshot.wish.message or "Suspended while queued."
        return Plan(Phase.SUSPENDED, snapshot.wish.reason, message, next_in_seconds=None)
    left = _rest_left(snapshot, now)
    if left > 0:
        return Plan(Phase.QUEUED, snapshot.reason, snapshot.message, next_in_seconds=left)
    return Plan(Phase.QUEUED, snapshot.reason, snapshot.message, (Action.ADMIT,))


def _schedule_rest(snapshot: WorkloadSnapshot) -> int:
    return snapshot.limits.schedule_backoff or snapshot.limits.schedule_deadline


def _rest_left(snapshot: WorkloadSnapshot, now: datetime) -> float:
    """Remaining seconds of the workload's back-off."""
    return 0 if snapshot.rests_until is None else (snapshot.rests_until - now).total_seconds()


def stop(reason: Reason, message: str, *, to: Phase) -> Plan:
    """The plan to stop the workload; it moves on to `to` when its objects are gone."""
    return Plan(
        Phase.STOPPING, reason, message, (Action.DELETE,), stopping_to=to, next_in_seconds=SOON_SECONDS
    )


def rest(message: str) -> Plan:
    """The plan to release the claim and wait for the back-off: others may use the units meanwhile."""
    return stop(Reason.BACKOFF_WAITING, message, to=Phase.QUEUED)


def _stopping(snapshot: WorkloadSnapshot, observed: Observation, now: datetime) -> Plan:
    if observed.stage == Stage.SUCCEEDED and observed.pods_alive == 0 and snapshot.ends:
        return _finished(Phase.SUCCEEDED, Reason.COMPLETED, "It finished before the stop reached it.")
    if observed.exists or observed.pods_alive or observed.left_behind:
        message = snapshot.message
        return Plan(Phase.STOPPING, snapshot.reason, message, (Action.DELETE,), next_in_seconds=SOON_SECONDS)
    target = snapshot.stopping_to or Phase.CANCELLED
    if target is Phase.ADMITTED and snapshot.desired is Desired.RUN:
        return _again(snapshot.reason, snapshot.message, counted=True)
    if snapshot.desired is not Desired.RUN and target in {Phase.ADMITTED, Phase.QUEUED, Phase.SUSPENDED}:
        # A user may have changed their mind while it was being stopped.
        target = Phase.SUSPENDED if snapshot.desired is Desired.SUSPEND else Phase.CANCELLED
        return _finished(target, snapshot.wish.reason, snapshot.wish.message or snapshot.message)
    actions = (Action.END_ATTEMPT, Action.RELEASE)
    if target is Phase.QUEUED:
        rests = snapshot.reason is Reason.BACKOFF_WAITING
        wait = _schedule_rest(snapshot) if rests else 0
        reason = Reason.PREEMPTED if snapshot.reason is Reason.PREEMPTING else snapshot.reason
        until = now + timedelta(seconds=wait) if rests else None
        return Plan(target, reason, snapshot.message, actions, next_in_seconds=wait, rests_until=until)
    # Suspended while it is wanted again already: only this look would resume it.
    resumed = target is Phase.SUSPENDED
    return Plan(target, snapshot.reason, snapshot.message, actions, next_in_seconds=0 if resumed else None)


def _finished(to: Phase, reason: Reason, message: str) -> Plan:
    return Plan(to, reason, message, (Action.END_ATTEMPT, Action.RELEASE), next_in_seconds=None)


def _live(snapshot: WorkloadSnapshot, attempt: AttemptFacts, observed: Observation, now: datetime) -> Plan:
    if not observed.exists:
        return _absent(snapshot, observed, now)
    if observed.final:
        return _ended(snapshot, observed)
    if observed.interruption and snapshot.ends and not observed.deleting:
        return _leave(snapshot, observed)
    overdue = _overdue(snapshot, attempt, observed, now)
    if overdue is not None:
        return overdue
    return _progress(snapshot, attempt, observed, now)


def _absent(snapshot: WorkloadSnapshot, observed: Observation, now: datetime) -> Plan:
    if observed.pods_alive and not observed.adoptable:
        # Orphaned pods could run forever: their limits still apply.
        overtime = _overtime(snapshot, now)
        if overtime is not None:
            return overtime
        return Plan(snapshot.phase, snapshot.reason, snapshot.message, next_in_seconds=SOON_SECONDS)
    if snapshot.ends and observed.set_back and snapshot.interruptions < INTERRUPTIONS_MAX:
        message = (
            "The cluster was set back to an older state, in which its object does not exist; it starts again."
        )
        return _again(Reason.NODE_LOST, message, interruption=snapshot.interruptions + 1)
    if snapshot.ends:
        message = "Somebody else deleted its object in the cluster."
        return _finished(Phase.FAILED, Reason.DELETED_EXTERNALLY, message)
    message = "Its object was deleted in the cluster; making it again."
    # Pods that will be adopted keep serving.
    at = (snapshot.phase, snapshot.reason) if observed.pods_alive else (Phase.ADMITTED, Reason.CREATING)
    return Plan(*at, message, (Action.APPLY,), next_in_seconds=SOON_SECONDS)


def _ended(snapshot: WorkloadSnapshot, observed: Observation) -> Plan:
    if observed.pods_alive:
        if observed.interruption and not observed.deleting:
            # For some kinds the object fails while its pod on a lost node still exists.
            return _leave(snapshot, observed)
        return Plan(snapshot.phase, snapshot.reason, snapshot.message, next_in_seconds=SOON_SECONDS)
    if observed.stage is Stage.SUCCEEDED:
        return _finished(Phase.SUCCEEDED, Reason.COMPLETED, observed.message or "Completed.")
    if observed.interruption:
        return _interrupted(snapshot, observed)
    if observed.retryable and snapshot.retries_used < snapshot.max_retries:
        left = snapshot.max_retries - snapshot.retries_used - 1
        return _again(Reason.RESTARTING, f"{observed.message} Trying again; {left} retries left.")
    return _finished(Phase.FAILED, observed.reason, observed.message)


def _interrupted(snapshot: WorkloadSnapshot, observed: Observation) -> Plan:
    """The plan after an interruption: no retry is used up, but the number of interruptions is limited."""
    if snapshot.interruptions >= INTERRUPTIONS_MAX:
        return _finished(Phase.FAILED, Reason.NODE_LOST, _in_vain(snapshot, observed))
    if _cause(observed) in RELEASING_INTERRUPTIONS:
        return _leave(snapshot, observed)
    return _again(Reason.NODE_LOST, observed.message, interruption=snapshot.interruptions + 1)


def _in_vain(snapshot: WorkloadSnapshot, observed: Observation) -> str:
    return f"Interrupted {snapshot.interruptions + 1} times in a row without getting anywhere. {observed.message}"


def _so_far(snapshot: WorkloadSnapshot, observed: Observation, now: datetime) -> WorkloadSnapshot:
    """The snapshot with its count of consecutive interruptions, reset to 0 if the current attempt made progress."""
    attempt = snapshot.attempt
    if attempt is None or not snapshot.interruptions:
        return snapshot
    ran = timedelta(0)
    if attempt.started_at is not None:
        ran = (observed.finished_at or now) - attempt.started_at
    won = attempt.saved or ran >= timedelta(seconds=PROGRESS_SECONDS)
    return replace(snapshot, interruptions=0) if won else snapshot


def _leave(snapshot: WorkloadSnapshot, observed: Observation) -> Plan:
    """The plan to leave a lost or disrupted node: a Job on a dead node would never fail by itself.

    The claim is kept if the capacity still belongs to the team.
    """
    cause = _cause(observed)
    if snapshot.interruptions >= INTERRUPTIONS_MAX:
        return stop(Reason.NODE_LOST, _in_vain(snapshot, observed), to=Phase.FAILED)
    target = Phase.QUEUED if cause in RELEASING_INTERRUPTIONS else Phase.ADMITTED
    return replace(stop(cause, observed.message, to=target), interruption=snapshot.interruptions + 1)


def _cause(observed: Observation) -> Reason:
    """The reason of the interruption, for a running attempt and for one that has ended."""
    cause = observed.cause or observed.reason
    return cause if cause in RELEASING_INTERRUPTIONS else Reason.NODE_LOST


def _again(reason: Reason, message: str, *, interruption: int = 0, counted: bool = False) -> Plan:
    """The plan for the next attempt, on the same claim. `counted`: a counter already includes the end of this one."""
    return Plan(
        Phase.ADMITTED,
        reason,
        message,
        (Action.END_ATTEMPT,),
        next_in_seconds=0,
        retry=not interruption and not counted,
        interruption=interruption,
    )


def _overtime(snapshot: WorkloadSnapshot, now: datetime) -> Plan | None:
    limit = snapshot.time_limit_seconds
    if not snapshot.ends or limit is None or used_seconds(snapshot, now) < limit:
        return None
    return stop(Reason.DEADLINE_EXCEEDED, f"It used its time limit of {limit} seconds.", to=Phase.FAILED)


def _overdue(
    snapshot: WorkloadSnapshot, attempt: AttemptFacts, observed: Observation, now: datetime
) -> Plan | None:
    overtime = _overtime(snapshot, now)
    if overtime is not None:
        return overtime
    failing = observed.reason in TRIED_IN_VAIN and snapshot.reason is observed.reason
    if (
        failing
        and not snapshot.returns
        and now - snapshot.since >= timedelta(seconds=snapshot.limits.image_pull_deadline)
    ):
        return stop(observed.reason, observed.message, to=Phase.FAILED)
    # A partly running gang makes no progress and costs money; a partly running endpoint serves.
    serves_nothing = snapshot.ends or observed.ready_replicas == 0
    waiting = observed.stage in {Stage.CREATING, Stage.SCHEDULING} and serves_nothing
    if waiting and snapshot.phase is Phase.ADMITTED:
        age = now - max(attempt.created_at, snapshot.since)
        if age >= timedelta(seconds=snapshot.limits.schedule_deadline):
            message = (
                f"No node took it within {snapshot.limits.schedule_deadline} seconds. {observed.message}"
            )
            return rest(message)
    return None


def used_seconds(snapshot: WorkloadSnapshot, now: datetime) -> int:
    """Seconds of Starting and Running over all attempts."""
    attempt = snapshot.attempt
    return seconds_with(snapshot.used_seconds, attempt.started_at if attempt else None, now)


def seconds_with(before: int, started_at: datetime | None, now: datetime) -> int:
    """`before` plus the seconds since the attempt started, which count against the time limit too."""
    return before if started_at is None else before + max(0, int((now - started_at).total_seconds()))


def _progress(
    snapshot: WorkloadSnapshot, attempt: AttemptFacts, observed: Observation, now: datetime
) -> Plan:
    phase, reason = STAGE_PHASE[observed.stage]
    if observed.reason in REASONS[phase]:
        reason = observed.reason
    if _wakes(snapshot, observed, now):
        phase, reason = Phase.RUNNING, Reason.WAKING
    actions = (Action.APPLY,) if snapshot.stale_generation or observed.incomplete else ()
    message, wait = observed.message, _next_look(snapshot, attempt, phase, observed, now)
    if observed.incomplete:
        wait = SOON_SECONDS
        if snapshot.stale_generation and snapshot.phase is phase:
            # The manifests applied now may not include the missing object: nothing to report.
            reason, message = snapshot.reason, snapshot.message
    return Plan(phase, reason, message, actions, next_in_seconds=wait)


def _wakes(snapshot: WorkloadSnapshot, observed: Observation, now: datetime) -> bool:
    """Whether the workload is scaling up from zero. One that cannot start is reported like any other."""
    if snapshot.phase is not Phase.RUNNING or snapshot.reason not in {Reason.SCALED_TO_ZERO, Reason.WAKING}:
        return False
    if observed.stage is Stage.ASLEEP:
        held = observed.scaler is not None and observed.scaler.paused
        called = snapshot.called_at
        return called is not None and not held and (now - called).total_seconds() < CALL_COUNTS_SECONDS
    if observed.stage is Stage.SCHEDULING and snapshot.reason is Reason.WAKING:
        return now - snapshot.since < timedelta(seconds=snapshot.limits.schedule_deadline)
    return observed.stage in COMING and not observed.blocked


def _next_look(
    snapshot: WorkloadSnapshot, attempt: AttemptFacts, phase: Phase, observed: Observation, now: datetime
) -> float:
    waits = [observed.look_again_seconds or float(RESYNC_SECONDS)]
    if snapshot.ends and snapshot.time_limit_seconds is not None and attempt.started_at is not None:
        waits.append(snapshot.time_limit_seconds - used_seconds(snapshot, now))
    if snapshot.money is not None:
        waits.append((snapshot.money.at - now).total_seconds())
    if phase is Phase.ADMITTED:
        waits.append(snapshot.limits.schedule_deadline)
    if phase is Phase.STARTING:
        waits.append(snapshot.limits.image_pull_deadline)
    return max(1.0, min(waits))
