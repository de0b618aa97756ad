"""Leases on workload rows: one process at a time reconciles a row, by PostgreSQL's clock.

The result of a look is recorded under its token: if two processes believe that they hold a row, only one writes.
"""

from __future__ import annotations

import time
from datetime import datetime
from uuid import UUID, uuid4

from django.db import connection
from django.db.models import F, Q, QuerySet, Value
from django.db.models.functions import Greatest, Now

from workloads.errors import StaleWorkload
from workloads.models import Workload

# Seconds until the lock of a dead holder expires. A live holder renews its lock between its steps.
LOCK_SECONDS = 10
RENEW_SECONDS = LOCK_SECONDS / 3

# A lock that a crash of PostgreSQL forgets is one that expired early, so no process waits for the disk here.
# The clock of a statement: both columns get the same time, by which `unlock` recognises a row that was not woken.
_LOCK = """
WITH relaxed AS (SELECT set_config('synchronous_commit', 'off', true))
UPDATE workloads_workload
SET lock_token = %(token)s,
    lock_expires_at = statement_timestamp() + make_interval(secs => %(seconds)s),
    next_reconcile_at = statement_timestamp() + make_interval(secs => %(seconds)s)
FROM relaxed
WHERE public_id = %(public_id)s
  AND CASE WHEN lock_token IS NULL THEN next_reconcile_at <= %(now)s ELSE lock_expires_at <= statement_timestamp() END
"""
_RENEW = """
UPDATE workloads_workload
SET lock_expires_at = statement_timestamp() + make_interval(secs => %(seconds)s),
    next_reconcile_at = CASE WHEN next_reconcile_at = lock_expires_at
        THEN statement_timestamp() + make_interval(secs => %(seconds)s) ELSE next_reconcile_at END
WHERE id = %(id)s AND lock_token = %(token)s
RETURNING lock_expires_at
"""


def lock(*, public_id: UUID, now: datetime) -> Workload | None:
    """The workload with a fresh lock token, or None if it is gone, not due at `now` or held by another worker.

    Its next look is set to the end of the lock: if the holder dies the row is due again then, whatever `now` is, and
    a wake-up that comes meanwhile shows as another time, so that `unlock` does not lose it.
    """
    renewed_at = time.monotonic()
    token = uuid4()
    values: dict[str, UUID | int | datetime] = {
        "token": token,
        "seconds": LOCK_SECONDS,
        "public_id": public_id,
        "now": now,
    }
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, values)
        if not cursor.rowcount:
            return None
    # By its token: after a long stall between the two statements the row has another holder.
    rows = Workload.objects.select_related("team", "owner", "flavor")
    workload = rows.filter(public_id=public_id, lock_token=token).first()
    if workload is not None:
        workload.lock_renewed_at = renewed_at
    return workload


def due(*, by: datetime) -> QuerySet[Workload]:
    """Rows that no worker holds and that are due at `by`, the longest waiting first.

    A row whose holder has died is due when its lock has expired, by the clock that set it.
    """
    in_reach = Workload.objects.filter(next_reconcile_at__lte=Greatest(Value(by), Now()))
    unheld = Q(lock_token__isnull=True, next_reconcile_at__lte=by)
    return in_reach.filter(unheld | Q(lock_expires_at__lte=Now())).order_by("next_reconcile_at")


def reread(workload: Workload, *, hold: bool = False) -> None:
    """Read the row anew under the same lock; StaleWorkload if that was taken over meanwhile.

    With `hold` the row stays locked until the transaction ends, as `hold` alone does it.
    """
    token = workload.lock_token
    never_change = {name: getattr(workload, name) for name in ("team", "owner", "flavor")}
    rows = Workload.objects.select_for_update(no_key=True) if hold else None
    workload.refresh_from_db(from_queryset=rows)
    for name, related in never_change.items():
        setattr(workload, name, related)
    if workload.lock_token != token:
        # Not the new holder's token: with it, this process would pass for the new holder.
        workload.lock_token = token
        raise StaleWorkload(f"The lock of workload {workload.public_id} was taken over.")


def renew(workload: Workload) -> None:
    """Keep the lock for another while; StaleWorkload if it was taken over meanwhile.

    Costs nothing while the lock is fresh, so it may precede every step. A wake-up that came meanwhile stays.
    """
    asked_at = time.monotonic()
    if workload.lock_token is None or asked_at - workload.lock_renewed_at < RENEW_SECONDS:
        return
    values: dict[str, UUID | int] = {"id": workload.pk, "token": workload.lock_token, "seconds": LOCK_SECONDS}
    with connection.cursor() as cursor:
        cursor.execute(_RENEW, values)
        row = cursor.fetchone()
    if row is None:
        raise StaleWorkload(f"The lock of workload {workload.public_id} was taken over.")
    (workload.lock_expires_at,), workload.lock_renewed_at = row, asked_at


def hold(workload: Workload) -> None:
    """Row-lock the workload for the record step; StaleWorkload if its lock was taken over meanwhile."""
    fresh = Workload.objects.select_for_update(no_key=True).filter(
        pk=workload.pk, lock_token=workload.lock_token
    )
    if not fresh.exists():
        raise StaleWorkload(f"The lock of workload {workload.public_id} was taken over.")


def unlock(workload: Workload, *, next_at: datetime | None, failed: bool) -> bool:
    """Give the row back, due again at `next_at`; True if a wake-up came meanwhile and it is due now."""
    rows = Workload.objects.filter(pk=workload.pk, lock_token=workload.lock_token)
    failures = F("failures") + 1 if failed else 0
    freed = {"lock_token": None, "lock_expires_at": None, "failures": failures}
    if rows.filter(next_reconcile_at=F("lock_expires_at")).update(**freed, next_reconcile_at=next_at):
        return False
    return bool(rows.update(**freed))
