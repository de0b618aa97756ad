"""The recording half of a reconcile: writes the decision and its result to rows in one short transaction."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from budgets import reservations, stopping
from cluster.errors import ClusterRejected, ClusterUnavailable
from controller.admission import preemption, scheduler
from controller.reconcile import lifetimes
from controller.reconcile.act import Look
from controller.reconcile.adapters import WorkloadAdapter
from controller.reconcile.decide import Action, Plan
from costs.ledger import lost_work
from quotas import services as quota_services
from workloads import locks, services
from workloads.bulk.commands import set_desired_many
from workloads.models import Attempt, Workload
from workloads.pods.observation import Observation
from workloads.states import Desired, Phase, Reason

RECONCILER = "reconciler"
LEFT_FOR_OTHERS = frozenset({Reason.PREEMPTED, Reason.QUOTA_REDUCED})
JUDGED = frozenset(
    {
        Reason.WAITING_FOR_QUOTA,
        Reason.WAITING_FOR_TEAM_CEILING,
        Reason.WAITING_FOR_BUDGET,
        Reason.EXCEEDS_MAX_QUOTA,
        Reason.NO_MATCHING_FLAVOR,
        Reason.TOPOLOGY_PLACEMENT_FAILED,
        Reason.WAITING_FOR_PREEMPTED_WORKLOADS,
        Reason.QUEUE_STOPPED,
    }
)
"""Verdicts that every pass over the pool brings up to date."""


def record(
    workload: Workload, adapter: WorkloadAdapter, plan: Plan, look: Look | None, now: datetime
) -> float | None:
    """Write the attempt, the claim, the counters, the phase and the kind's own rows in one short transaction.

    Returns the seconds until the next look, None for never.
    """
    observation = look.observation if look else None
    with transaction.atomic():
        locks.hold(workload)
        attempt = workload.attempts.filter(ended_at__isnull=True).first()
        ended_at = _record_attempt(attempt, plan, observation, now)
        message = plan.message
        if Action.RELEASE in plan.actions:
            # A budget's row before those of quotas.
            reservations.close(workload, now=now)
            scheduler.release(workload, now=now)
            message = _has_left(workload, plan, now)
        elif plan.to in {Phase.STARTING, Phase.RUNNING}:
            quota_services.activate(workload=workload, now=now)
            if _rolled_out(plan, observation):
                scheduler.release_surge(workload, now=now)
        elif workload.phase == Phase.QUEUED.value and plan.to is not Phase.QUEUED:
            scheduler.left_line(workload, now=now)
        if observation is not None and not adapter.kind.ends and plan.to in {Phase.STARTING, Phase.RUNNING}:
            firm = _firm_units(workload, observation)
            preemption.take_back_headroom(workload, firm_units=firm, now=now)
        counters = _counters(workload, plan, now, observed=look is not None)
        if counters:
            Workload.objects.filter(pk=workload.pk).update(**counters)
        services.transition(
            workload,
            to=plan.to,
            reason=plan.reason,
            message=message,
            actor=RECONCILER,
            now=now,
            stopping_to=plan.stopping_to,
            started_at=lifetimes.began(observation, to=plan.to, ends=adapter.kind.ends),
            finished_at=ended_at,
        )
        if plan.reason is Reason.BUDGET_EXHAUSTED and plan.to is Phase.STOPPING:
            _stop_for_budget(workload, message, now)
        wanted = adapter.record(workload, observation, plan, now)
    waits = [seconds for seconds in (plan.next_in_seconds, wanted) if seconds is not None]
    return min(waits, default=None)


def _stop_for_budget(workload: Workload, message: str, now: datetime) -> None:
    """It begins to stop for its team's budget: nobody wants it to run until somebody resumes it."""
    if workload.desired == Desired.RUN.value:
        stopping.stop_asked(workload, now=now)
        set_desired_many(
            workloads=[workload],
            desired=Desired.SUSPEND,
            reason=Reason.BUDGET_EXHAUSTED,
            message=message,
            now=now,
        )


def _firm_units(workload: Workload, observation: Observation) -> int:
    """Units of the claim for the replicas asked for; all of it if the workload never grows or keeps its headroom."""
    asked = observation.desired_replicas * workload.units_each
    grows = workload.units > workload.units_each * workload.pod_count
    return asked if grows and not workload.keeps_headroom else max(asked, workload.units)


def _has_left(workload: Workload, plan: Plan, now: datetime) -> str:
    """The message of a workload that releases its claim; if it was preempted, with the work that it lost."""
    if not workload.preemptible:
        return plan.message
    request = preemption.has_left(workload, now=now)
    if request is None or plan.reason not in LEFT_FOR_OTHERS:
        return plan.message
    return f"{plan.message} It lost {request.lost_seconds} seconds of work and waits at its old place."


def _rolled_out(plan: Plan, observation: Observation | None) -> bool:
    """Whether no pod of an older revision holds units any more."""
    if observation is None or observation.rollout is None or Action.APPLY in plan.actions:
        return False
    # Regardless of the scaler's state.
    asleep = plan.reason is Reason.SCALED_TO_ZERO
    if not observation.rollout.complete and not asleep:
        return False
    return observation.pods_alive <= observation.desired_replicas


def _record_attempt(
    attempt: Attempt | None, plan: Plan, observation: Observation | None, now: datetime
) -> datetime | None:
    """Update the attempt's row; returns when it ended, None if it has not."""
    if attempt is None:
        return None
    if observation is not None and attempt.started_at is None:
        started = observation.scheduled_at
        if started is not None:
            attempt.started_at = started
            attempt.save(update_fields=["started_at"])
    if Action.END_ATTEMPT not in plan.actions:
        return None
    ended_at = lifetimes.attempt_ended(attempt, observation, now=now)
    judged = observation is not None and observation.final and plan.to is Phase.ADMITTED
    services.end_attempt(
        attempt,
        phase=Phase.FAILED if plan.to in {Phase.ADMITTED, Phase.QUEUED} else plan.to,
        reason=observation.reason if observation and judged else plan.reason,
        message=plan.message,
        exit_code=observation.exit_code if observation else None,
        ended_at=ended_at,
    )
    lost_work.note(attempt)
    return ended_at


def _counters(workload: Workload, plan: Plan, now: datetime, *, observed: bool) -> dict[str, object]:
    changes: dict[str, object] = {}
    if observed:
        changes["observed_at"] = now
    if plan.retry:
        changes["retries_used"] = workload.retries_used + 1
    if plan.interruption:
        changes["interruptions"] = plan.interruption
    if plan.rests_until is not None or plan.to is Phase.SUSPENDED:
        # A user who resumes it expects an immediate attempt.
        changes["rests_until"] = plan.rests_until
    if Action.APPLY in plan.actions or Action.CREATE in plan.actions:
        changes["observed_generation"] = workload.generation
    return changes


def record_unavailable(
    workload: Workload, error: ClusterUnavailable | ClusterRejected, now: datetime
) -> float:
    """Record that the cluster is unavailable; returns seconds until the next look. Only workloads that are queued or
    have no objects yet show it; all others keep their last known state.

    A judged workload keeps its verdict: otherwise it would need a pass of its own when the cluster is back.
    """
    asked, sentence = None, "The cluster refuses the portal for now"
    if isinstance(error, ClusterUnavailable):
        asked, sentence = error.retry_after, "The cluster does not answer"
    wait = max(services.backoff_seconds(workload.failures), asked or 0)
    phase = Phase(workload.phase)
    unmade = phase is Phase.ADMITTED and workload.attempts.filter(ended_at=None, object_uid="").exists()
    unjudged = phase is Phase.QUEUED and Reason(workload.reason) not in JUDGED
    if unjudged or unmade:
        with transaction.atomic():
            services.transition(
                workload,
                to=phase,
                reason=Reason(workload.reason) if unmade else Reason.CLUSTER_UNAVAILABLE,
                message=f"{sentence}: {error}",
                actor=RECONCILER,
                now=now,
            )
    return min(wait, 30)
