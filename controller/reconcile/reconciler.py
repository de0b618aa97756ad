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
from controller.admission import scheduler
from controller.admission.fallback import fall_back, falls_back_at
from controller.measures import RECONCILES, reconcile_failed
from controller.reconcile import garbage, objects
from controller.reconcile.act import ActionContext, execute
from controller.reconcile.adapters import adapter_for
from controller.reconcile.decide import RESYNC_SECONDS, Action, decide
from controller.reconcile.observe import look_at
from controller.reconcile.record import JUDGED, record, record_unavailable
from controller.reconcile.snapshot import snapshot_of
from foundation.crashpoints import crash_point
from foundation.models import PlatformSettings
from quotas.errors import QuotaExceeded
from workloads import locks, services
from workloads.errors import StaleWorkload
from workloads.models import Attempt, Workload
from workloads.states import IN_CLUSTER, Phase, Reason

logger = logging.getLogger(__name__)

PASSES_MAX = 6
BUDGET_SECONDS = 60
"""Nothing can interrupt a thread: a look makes no call to the cluster after that time, and each call has a limit."""
ANSWER_FRESH_SECONDS = 5
ADMISSION_RETRY_SECONDS = 1


def reconcile(*, public_id: UUID, client: ClusterClient, now: datetime) -> bool:
    """Reconcile one due workload; True if it was woken meanwhile and is due again at once.

    A pass that asks for another look without delay (an admission, the next attempt) gets it here.
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
        RECONCILES.inc()
    except StaleWorkload as error:
        wait = 0
        reconcile_failed(error)
        logger.info("reconcile.stale", extra={"workload_id": str(public_id)})
    except (ClusterUnavailable, ClusterRejected) as error:
        reconcile_failed(error)
        wait = record_unavailable(workload, error, now)
    except Exception as error:
        reconcile_failed(error)
        raise
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
    """A cluster client that renews the row's lock before every call: however slow the calls are, no other worker
    takes the row over between them. It makes no calls after the time budget of the look.
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
    snapshot = snapshot_of(workload, adapter, attempt, now)
    plan = decide(snapshot, look.observation if look else None, now)
    if Action.ADMIT in plan.actions:
        wait, attempt = _admit(workload, client, now)
        if attempt is None:
            return wait
        # The row is as this process left it, under its lock: continue at once.
        look = look_at(workload, adapter, attempt, client, now)
        snapshot = snapshot_of(workload, adapter, attempt, now)
        plan = decide(snapshot, look.observation, now)
    locks.renew(workload)
    patience = snapshot.limits.schedule_deadline
    plan = execute(plan, look, ActionContext(client, workload, adapter, attempt, now, patience))
    crash_point("acted")
    wait = record(workload, adapter, plan, look, now)
    crash_point("recorded")
    return wait


def _admit(workload: Workload, client: ClusterClient, now: datetime) -> tuple[float | None, Attempt | None]:
    """Run admission, but only while the cluster answers: a claim on an unreachable cluster is useless.

    Returns the seconds until the next look, and the attempt that an admission opened.
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
            verdict = scheduler.admit(workload, now=now)
            if verdict is not None and verdict.admitted:
                attempt = objects.open_attempt_of_held(workload, adapter_for(workload.kind), now=now)
                crash_point("attempt-opened")
    except (QuotaExceeded, OperationalError):
        # The limits changed during the pass: neither an error nor worth telling users.
        logger.info("admission.raced", extra={"workload_id": str(workload.public_id)})
        return ADMISSION_RETRY_SECONDS, None
    crash_point("admitted")
    if verdict is None or verdict.admitted:
        return 0, attempt
    # A pool that somebody waits for has passes of its own.
    return (scheduler.AGAIN.total_seconds() if workload.flavor is None else RESYNC_SECONDS), attempt


def _look_again(workload: Workload, now: datetime) -> float:
    try:
        scheduler.look_again(workload, now=now)
    except (QuotaExceeded, OperationalError):
        logger.info("admission.raced", extra={"workload_id": str(workload.public_id)})
        return ADMISSION_RETRY_SECONDS
    locks.reread(workload)
    return RESYNC_SECONDS if workload.phase == Phase.QUEUED.value else 0
