"""What the worker does. Every task may be lost, repeated or late: the rows say what there is to do."""

from __future__ import annotations

import logging
import os
import socket
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from cluster.client import get_client
from controller import garbage, logs
from controller.reconcile import reconcile
from controller.wakeups import RECONCILE_TASK, send
from costs.services import settle_due
from foundation import clock, leases
from foundation.tasks import task
from workloads.models import Workload

logger = logging.getLogger(__name__)

SWEEP_BATCH_MAX = 500
LOOKS_MAX = 5
SWEEP_GRACE = timedelta(seconds=1)


@task(name=RECONCILE_TASK)
def reconcile_workload(*, workload_id: str, **_future: Any) -> None:
    """Bring one workload on, again while wake-ups come in meanwhile."""
    client = get_client()
    for _ in range(LOOKS_MAX):
        if not reconcile(public_id=UUID(workload_id), client=client, now=clock.now()):
            return


@task(name="controller.sweep_due_workloads")
def sweep_due_workloads(**_future: Any) -> None:
    """Send a wake-up for every row that is due: what was lost with the broker is found here."""
    now = clock.now()
    if not _fenced("sweep", seconds=1, now=now):
        return
    due = Workload.objects.filter(next_reconcile_at__lte=now - SWEEP_GRACE).order_by("next_reconcile_at")
    for public_id in due.values_list("public_id", flat=True)[:SWEEP_BATCH_MAX]:
        send(public_id)


@task(name="controller.settle_usage")
def settle_usage(**_future: Any) -> None:
    """Post usage that has come up to the ledger."""
    now = clock.now()
    if _fenced("settle", seconds=30, now=now):
        settle_due(now=now)


@task(name="controller.collect_garbage")
def collect_garbage(**_future: Any) -> None:
    """Delete the objects of workloads that have ended, and log chunks past their retention."""
    now = clock.now()
    if _fenced("garbage", seconds=30, now=now):
        garbage.delete_ended(get_client(), now=now)
        logs.expire(now=now)


def _fenced(name: str, *, seconds: int, now: datetime) -> bool:
    """Whether this process has the slot: two beats or a late message make no second run of the same job."""
    holder = f"{socket.gethostname()}:{os.getpid()}"
    return leases.acquire(name=f"periodic:{name}", holder=holder, ttl_seconds=seconds, now=now) is not None
