"""Carries out the idle policies of templates, by what the look at all cards has written."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from controller import wakeups
from controller.services import event_of
from foundation import leases
from jobs.idle.policy import IdlePolicy, IdleRun, IdleStep, step_of, words_of
from jobs.models import IdleWarning, RunTemplate, TrainingRun
from teams.actors import Actor
from teams.audit import record_audits
from telemetry import signals
from telemetry.models import IdleHold
from workloads.bulk.commands import lock_rows, set_desired_many
from workloads.models import Workload
from workloads.services import note
from workloads.states import Desired, Phase, Reason

POLICY: Final = Actor.system("idle-policy")
FRESH: Final = timedelta(minutes=5)
"""What was seen longer ago says nothing of now: nobody is warned or stopped by it."""


def apply_policies(*, now: datetime) -> None:
    """Warn and stop whom the policies say; a run that does something is warned no more."""
    policies = _policies()
    runs = _running(policies)
    idle = _idle_since(runs, now)
    IdleWarning.objects.exclude(workload__in=idle).delete()
    for pk, since in idle.items():
        _judge(pk, policies[runs[pk]], since, now)


def _policies() -> dict[str, IdlePolicy]:
    """By the name of the template, also of one that is offered no longer."""
    rows = RunTemplate.objects.filter(idle_warn_minutes__isnull=False)
    return {
        row.name: IdlePolicy(
            template=row.name, warn_minutes=row.idle_warn_minutes or 0, stop_minutes=row.idle_stop_minutes
        )
        for row in rows
    }


def _running(policies: Mapping[str, IdlePolicy]) -> dict[int, str]:
    """Running runs by their keys, with the template of each that has a policy."""
    running = TrainingRun.objects.filter(
        workload__phase=Phase.RUNNING.value,
        workload__desired=Desired.RUN.value,
        spec__template__in=list(policies),
    )
    return dict(running.values_list("workload_id", "spec__template")) if policies else {}


def _idle_since(runs: Mapping[int, str], now: datetime) -> dict[int, datetime]:
    """Since when all cards of a run do nothing; runs of which one does something, or is not seen, are left out."""
    held: dict[int, list[datetime]] = defaultdict(list)
    idle: Counter[tuple[int, int]] = Counter()
    measured: dict[tuple[int, int], int] = {}
    holds = IdleHold.objects.filter(workload__in=runs, seen_at__gte=now - FRESH)
    for pk, pod, of_cards, since in holds.values_list("workload_id", "pod_id", "of_cards", "since"):
        held[pk].append(since)
        idle[pk, pod] += 1
        measured[pk, pod] = of_cards
    # A pod of which one card works, whoever published the idle ones, is not idle.
    works = {pk for (pk, pod), cards in measured.items() if cards > idle[pk, pod]}
    units = dict(Workload.objects.filter(pk__in=held).values_list("pk", "units"))
    return {pk: max(times) for pk, times in held.items() if pk not in works and len(times) >= units[pk]}


def _judge(pk: int, policy: IdlePolicy, since: datetime, now: datetime) -> None:
    with transaction.atomic():
        leases.check()
        for workload in lock_rows(Workload.objects.filter(pk=pk, phase=Phase.RUNNING.value)):
            if workload.desired != Desired.RUN.value:
                continue
            warning = IdleWarning.objects.filter(workload=workload).first()
            warned_at = warning.warned_at if warning else None
            step = step_of(policy, IdleRun(idle_since=since, warned_at=warned_at, now=now))
            if step is not None:
                _carry_out(workload, policy, step, int((now - since).total_seconds() // 60), now)


def _carry_out(workload: Workload, policy: IdlePolicy, step: IdleStep, minutes: int, now: datetime) -> None:
    message = words_of(policy, step, idle_minutes=minutes)
    note(
        workload,
        reason=step.value,
        message=message,
        actor=POLICY.label,
        source=policy.source,
        now=now,
    )
    if step is IdleStep.WARNED:
        IdleWarning.objects.create(workload=workload, warned_at=now)
        signals.idle_policy_warned.send(sender=Workload, workload=workload, message=message, now=now)
        return
    IdleWarning.objects.filter(workload=workload).delete()
    set_desired_many(
        workloads=[workload], desired=Desired.SUSPEND, reason=Reason.IDLE_POLICY, message=message, now=now
    )
    record_audits([event_of(workload, "suspended", POLICY, now, why=message)])
    signals.idle_policy_stopped.send(sender=Workload, workload=workload, message=message, now=now)
    wakeups.wake_workload(workload, now=now)
