"""observe → decide → act → record, for one workload at a time.

Cluster calls happen between the short transactions, never inside one. Every step may be repeated: objects have
deterministic names and are adopted, deletes are by UID, and a result is recorded only under the row's lock token.
"""

from __future__ import annotations

import logging
import time
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

from django.db import OperationalError, transaction

from cluster.client import ClusterClient
from cluster.errors import ClusterRejected, ClusterUnavailable
from controller import admission, garbage, lifetimes, objects, preemption
from controller.acting import Hand, Look, carry_out
from controller.adapters import WorkloadAdapter, adapter_for
from controller.decide import RESYNC_SECONDS, Action, AttemptFacts, Leave, Limits, Plan, Snapshot, decide
from controller.fallback import fall_back, falls_back_at
from controller.looking import look_at
from controller.observation import Observation
from foundation.crashpoints import crash_point
from foundation.models import PlatformSettings
from quotas import services as quota_services
from quotas.errors import QuotaExceeded
from quotas.verdicts import PreemptionCause
from workloads import locks, services
from workloads.errors import StaleWorkload
from workloads.models import Attempt, Workload
from workloads.reports import has_saved
from workloads.states import HOLDS_CLAIM, IN_CLUSTER, Desired, Phase, Reason

logger = logging.getLogger(__name__)

PASSES_MAX = 6
BUDGET_SECONDS = 60
"""Nothing can interrupt a thread: a look makes no call to the cluster after that time, and each call has a limit."""
FROM_ZERO_SECONDS = 1800
BACKOFF_SECONDS_MAX = 7200
ANSWER_FRESH_SECONDS = 5
ADMISSION_RETRY_SECONDS = 1
RECONCILER = "reconciler"
LEFT_FOR_OTHERS = frozenset({Reason.PREEMPTED, Reason.QUOTA_REDUCED})
JUDGED = frozenset(
    {
        Reason.WAITING_FOR_QUOTA,
        Reason.EXCEEDS_MAX_QUOTA,
        Reason.NO_MATCHING_FLAVOR,
        Reason.TOPOLOGY_PLACEMENT_FAILED,
        Reason.WAITING_FOR_PREEMPTED_WORKLOADS,
        Reason.QUEUE_STOPPED,
    }
)
"""Verdicts that every pass over the pool brings up to date."""
LIVE = HOLDS_CLAIM - {Phase.STOPPING}


def reconcile(*, public_id: UUID, client: ClusterClient, now: datetime) -> bool:
    """Bring one due workload on; True if it was woken meanwhile and is due again at once.

    A pass that asks for another look without waiting (an admission, the next attempt) gets it here.
    """
    workload = locks.lock(public_id=public_id, now=now)
    if workload is None:
        return False
    client = cast("ClusterClient", _Held(client, workload))
    wait: float | None = services.backoff_seconds(workload.failures)
    failed = True
    try:
        with PlatformSettings.held():
            wait = _passes(workload, client, now)
        failed = False
    except StaleWorkload:
        wait = 0
        logger.info("reconcile.stale", extra={"workload_id": str(public_id)})
    except (ClusterUnavailable, ClusterRejected) as error:
        wait = _unavailable(workload, error, now)
    finally:
        next_at = None if wait is None else now + timedelta(seconds=wait)
        again = locks.unlock(workload, next_at=next_at, failed=failed)
    return again


def _passes(workload: Workload, client: ClusterClient, now: datetime) -> float | None:
    wait: float | None = 0
    for _ in range(PASSES_MAX):
        locks.renew(workload)
        wait = _pass(workload, client, now)
        if wait is None or wait > 0:
            break
        locks.reread(workload)
    return wait


class _Held:
    """The cluster's client, with the row's lock renewed before every call: however slow the calls are, nobody takes
    the row over between them. Past the look's budget it makes no call any more.
    """

    def __init__(self, client: ClusterClient, workload: Workload) -> None:
        self._client = client
        self._workload = workload
        self._ends_at = time.monotonic() + BUDGET_SECONDS

    def __getattr__(self, name: str) -> Any:
        if time.monotonic() >= self._ends_at:
            raise ClusterUnavailable(f"it is too slow: this look has taken {BUDGET_SECONDS} seconds")
        locks.renew(self._workload)
        return getattr(self._client, name)


def _pass(workload: Workload, client: ClusterClient, now: datetime) -> float | None:
    """One observe → decide → act → record; seconds until the next look, None for never."""
    if workload.is_final:
        garbage.delete_objects(client, workload_id=workload.pk, now=now)
        return None
    adapter = adapter_for(workload.kind)
    attempt = None
    if workload.attempt_number:
        attempt = workload.attempts.filter(ended_at__isnull=True).first()
    look = look_at(workload, adapter, attempt, client, now) if Phase(workload.phase) in IN_CLUSTER else None
    snapshot = _snapshot(workload, adapter, attempt)
    plan = decide(snapshot, look.observation if look else None, now)
    if Action.ADMIT in plan.actions:
        wait, attempt = _admit(workload, client, now)
        if attempt is None:
            return wait
        # The row is as this process has just left it, under its lock: on at once.
        look = look_at(workload, adapter, attempt, client, now)
        snapshot = _snapshot(workload, adapter, attempt)
        plan = decide(snapshot, look.observation, now)
    locks.renew(workload)
    patience = snapshot.limits.schedule_deadline
    plan = carry_out(plan, look, Hand(client, workload, adapter, attempt, now, patience))
    crash_point("acted")
    wait = _record(workload, adapter, plan, look, now)
    crash_point("recorded")
    return wait


def _admit(workload: Workload, client: ClusterClient, now: datetime) -> tuple[float | None, Attempt | None]:
    """Admission, but only while the cluster answers: a claim on a cluster that is away helps nobody.

    Seconds until the next look, and the attempt that an admission opened.
    """
    if not client.answered_within(ANSWER_FRESH_SECONDS):
        client.version()
    left = _until_fallback(workload, now)
    if left is not None and left <= 0 and fall_back(workload, now=now):
        left = None
    wait, attempt = _judge(workload, now)
    if attempt is None and wait and left is not None and left > 0:
        wait = min(wait, left)
    return wait, attempt


def _until_fallback(workload: Workload, now: datetime) -> float | None:
    at = falls_back_at(workload)
    return None if at is None else (at - now).total_seconds()


def _judge(workload: Workload, now: datetime) -> tuple[float | None, Attempt | None]:
    if Reason(workload.reason) in JUDGED and workload.flavor is not None:
        return _look_again(workload, now), None
    attempt = None
    try:
        with transaction.atomic():
            verdict = admission.admit(workload, now=now)
            if verdict is not None and verdict.admitted:
                attempt = objects.open_attempt_of_held(workload, adapter_for(workload.kind), now=now)
                crash_point("attempt-opened")
    except (QuotaExceeded, OperationalError):
        # The limits were changed under the pass, which is nobody's fault and nobody's news.
        logger.info("admission.raced", extra={"workload_id": str(workload.public_id)})
        return ADMISSION_RETRY_SECONDS, None
    crash_point("admitted")
    return 0 if verdict is None or verdict.admitted else RESYNC_SECONDS, attempt


def _look_again(workload: Workload, now: datetime) -> float:
    try:
        admission.look_again(workload, now=now)
    except (QuotaExceeded, OperationalError):
        logger.info("admission.raced", extra={"workload_id": str(workload.public_id)})
        return ADMISSION_RETRY_SECONDS
    locks.reread(workload)
    return RESYNC_SECONDS if workload.phase == Phase.QUEUED.value else 0


def _snapshot(workload: Workload, adapter: WorkloadAdapter, attempt: Attempt | None) -> Snapshot:
    settings = PlatformSettings.current()
    facts = None
    if attempt is not None:
        made = bool(attempt.object_uid)
        saved = workload.interruptions > 0 and has_saved(attempt)
        facts = AttemptFacts(attempt.number, attempt.created_at, attempt.started_at, made, saved)
    return Snapshot(
        noun=adapter.noun,
        ends=adapter.ends,
        phase=Phase(workload.phase),
        reason=Reason(workload.reason),
        message=workload.message,
        since=workload.since,
        desired=Desired(workload.desired),
        stopping_to=Phase(workload.stopping_to) if workload.stopping_to else None,
        stale_generation=workload.generation != workload.observed_generation,
        attempt=facts,
        retries_used=workload.retries_used,
        max_retries=workload.max_retries,
        interruptions=workload.interruptions,
        used_seconds=workload.used_seconds,
        time_limit_seconds=workload.time_limit_seconds,
        leave=_leave(workload, attempt),
        called_at=workload.called_at,
        returns=attempt is not None and adapter.returns(workload),
        rests_until=workload.rests_until,
        limits=Limits(
            grace=settings.grace_seconds,
            schedule_deadline=_schedule_deadline(workload, settings),
            schedule_backoff=_schedule_backoff(workload, settings),
            image_pull_deadline=settings.image_pull_deadline_seconds,
        ),
    )


def _leave(workload: Workload, attempt: Attempt | None) -> Leave | None:
    """Whether somebody has asked for what it holds."""
    made = attempt is not None and bool(attempt.object_uid)
    if not workload.preemptible or not made or Phase(workload.phase) not in LIVE:
        return None
    request = preemption.open_request(workload)
    if request is None:
        return None
    cut = request.cause == PreemptionCause.QUOTA_REDUCED.value
    return Leave(Reason.QUOTA_REDUCED if cut else Reason.PREEMPTING, request.message)


def _schedule_deadline(workload: Workload, settings: PlatformSettings) -> int:
    """Longer where a node may have to be made first."""
    flavor = workload.flavor.facts if workload.flavor else None
    from_zero = flavor is not None and flavor.declared_block(workload.capacity_type) > 0
    return max(settings.schedule_deadline_seconds, FROM_ZERO_SECONDS if from_zero else 0)


def _schedule_backoff(workload: Workload, settings: PlatformSettings) -> int | None:
    """Doubles with every attempt that no node took; None where there was none."""
    if workload.attempt_number < 2:
        return None
    missed = workload.attempts.filter(reason=Reason.BACKOFF_WAITING.value).count()
    return int(min(settings.schedule_deadline_seconds * 2**missed, BACKOFF_SECONDS_MAX))


def _record(
    workload: Workload, adapter: WorkloadAdapter, plan: Plan, look: Look | None, now: datetime
) -> float | None:
    """One short transaction: the attempt, the claim, the counters and the phase together, and the kind's own rows.

    Seconds until the next look, None for never.
    """
    observation = look.observation if look else None
    with transaction.atomic():
        locks.hold(workload)
        attempt = workload.attempts.filter(ended_at__isnull=True).first()
        ended_at = _record_attempt(attempt, plan, observation, now)
        message = plan.message
        if Action.RELEASE in plan.actions:
            admission.release(workload, now=now)
            message = _has_left(workload, plan, now)
        elif plan.to in {Phase.STARTING, Phase.RUNNING}:
            quota_services.activate(workload=workload, now=now)
            if _rolled_out(plan, observation):
                admission.release_surge(workload, now=now)
        elif workload.phase == Phase.QUEUED.value and plan.to is not Phase.QUEUED:
            admission.left_line(workload, now=now)
        if observation is not None and not adapter.ends and plan.to in {Phase.STARTING, Phase.RUNNING}:
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
            started_at=lifetimes.began(observation, to=plan.to, ends=adapter.ends),
            finished_at=ended_at,
        )
        wanted = adapter.settled(workload, observation, plan, now)
    waits = [each for each in (plan.next_in_seconds, wanted) if each is not None]
    return min(waits, default=None)


def _firm_units(workload: Workload, observation: Observation) -> int:
    """What of its claim is for pods that are asked for; the rest it lends, unless it never grows or keeps that."""
    asked = observation.desired_replicas * workload.units_each
    grows = workload.units > workload.units_each * workload.pod_count
    return asked if grows and not workload.keeps_headroom else max(asked, workload.units)


def _has_left(workload: Workload, plan: Plan, now: datetime) -> str:
    """The message of a workload that gives its claim back: of one that had to, with what it lost by that."""
    if not workload.preemptible:
        return plan.message
    request = preemption.has_left(workload, now=now)
    if request is None or plan.reason not in LEFT_FOR_OTHERS:
        return plan.message
    return f"{plan.message} It lost {request.lost_seconds} seconds of work and waits at its old place."


def _rolled_out(plan: Plan, observation: Observation | None) -> bool:
    """Whether no pod of an older revision holds anything any more."""
    if observation is None or observation.rollout is None or Action.APPLY in plan.actions:
        return False
    # Whatever its scaler says: that is another matter.
    asleep = plan.reason is Reason.SCALED_TO_ZERO
    if not observation.rollout.complete and not asleep:
        return False
    return observation.pods_alive <= observation.desired_replicas


def _record_attempt(
    attempt: Attempt | None, plan: Plan, observation: Observation | None, now: datetime
) -> datetime | None:
    """When the attempt ended, if it has."""
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
        # Who resumes it wants it to be tried at once.
        changes["rests_until"] = plan.rests_until
    if Action.APPLY in plan.actions or Action.CREATE in plan.actions:
        changes["observed_generation"] = workload.generation
    return changes


def _unavailable(workload: Workload, error: ClusterUnavailable | ClusterRejected, now: datetime) -> float:
    """Nothing is known and nothing is lost: what is queued or has no objects yet says so, all else keeps what is known
    of it.

    One that was judged keeps its verdict: without it, it would need a pass of its own when the cluster is back.
    """
    asked, said = None, "The cluster refuses the portal for now"
    if isinstance(error, ClusterUnavailable):
        asked, said = error.retry_after, "The cluster does not answer"
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
                message=f"{said}: {error}",
                actor=RECONCILER,
                now=now,
            )
    return min(wait, 30)
