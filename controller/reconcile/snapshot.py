"""A workload's rows at the time of a reconcile: the part of `decide`'s input that is not from the cluster."""

from __future__ import annotations

from datetime import datetime

from controller.admission import preemption
from controller.reconcile.adapters import WorkloadAdapter
from controller.reconcile.decide import AttemptFacts, Leave, ReconcileLimits, WorkloadSnapshot
from costs.budgets import stopping
from foundation.models import PlatformSettings
from policy.budgets import MoneyEnd
from policy.verdicts import PreemptionCause
from workloads.models import Attempt, Workload
from workloads.reports import has_saved
from workloads.states import HOLDS_CLAIM, Desired, Phase, Reason

FROM_ZERO_SECONDS = 1800
BACKOFF_SECONDS_MAX = 7200
LIVE = HOLDS_CLAIM - {Phase.STOPPING}


def snapshot_of(
    workload: Workload, adapter: WorkloadAdapter, attempt: Attempt | None, now: datetime
) -> WorkloadSnapshot:
    """The WorkloadSnapshot from the workload's rows, which `decide` judges together with the observation."""
    settings = PlatformSettings.current()
    facts = None
    if attempt is not None:
        made = bool(attempt.object_uid)
        saved = workload.interruptions > 0 and has_saved(attempt)
        facts = AttemptFacts(attempt.number, attempt.created_at, attempt.started_at, made, saved)
    return WorkloadSnapshot(
        noun=adapter.kind.noun,
        ends=adapter.kind.ends,
        phase=Phase(workload.phase),
        reason=Reason(workload.reason),
        message=workload.message,
        since=workload.since,
        desired=Desired(workload.desired),
        wish=Leave(Reason(workload.desired_reason), workload.desired_message),
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
        money=_money(workload, attempt, now),
        limits=ReconcileLimits(
            grace=settings.grace_seconds,
            schedule_deadline=_schedule_deadline(workload, settings),
            schedule_backoff=_schedule_backoff(workload, settings),
            image_pull_deadline=workload.image_pull_deadline_seconds or settings.image_pull_deadline_seconds,
        ),
    )


def _money(workload: Workload, attempt: Attempt | None, now: datetime) -> MoneyEnd | None:
    """When the money that its team's budget has promised it ends; a promise that has run out is extended here."""
    if attempt is None or Phase(workload.phase) not in LIVE or workload.desired != Desired.RUN.value:
        return None
    return stopping.end_of_money(workload, attempt.started_at, now=now)


def _leave(workload: Workload, attempt: Attempt | None) -> Leave | None:
    """The workload's open request to leave, if it has one."""
    made = attempt is not None and bool(attempt.object_uid)
    if not workload.preemptible or not made or Phase(workload.phase) not in LIVE:
        return None
    request = preemption.open_request(workload)
    if request is None:
        return None
    cut = request.cause == PreemptionCause.QUOTA_REDUCED.value
    return Leave(Reason.QUOTA_REDUCED if cut else Reason.PREEMPTING, request.message)


def _schedule_deadline(workload: Workload, settings: PlatformSettings) -> int:
    """Seconds in which its pods must be scheduled; longer if a node may have to be provisioned first."""
    flavor = workload.flavor.facts if workload.flavor else None
    from_zero = flavor is not None and flavor.declared_block(workload.capacity_type) > 0
    return max(settings.schedule_deadline_seconds, FROM_ZERO_SECONDS if from_zero else 0)


def _schedule_backoff(workload: Workload, settings: PlatformSettings) -> int | None:
    """Seconds of back-off, doubled with every attempt that no node took; None before the second attempt."""
    if workload.attempt_number < 2:
        return None
    missed = workload.attempts.filter(reason=Reason.BACKOFF_WAITING.value).count()
    return int(min(settings.schedule_deadline_seconds * 2**missed, BACKOFF_SECONDS_MAX))
