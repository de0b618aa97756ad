"""The one place that sends wake-ups. A lost one costs latency, never work: the sweep finds the row."""

from __future__ import annotations

import logging
from datetime import datetime
from functools import partial
from uuid import UUID

from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

from workloads.models import Workload
from workloads.services import wake

logger = logging.getLogger(__name__)

RECONCILE_TASK = "controller.reconcile_workload"
PASS_TASK = "controller.pass_over_pool"  # noqa: S105 (a pass of admission, no password)


def wake_workload(workload: Workload, *, now: datetime) -> None:
    """Make the row due, and send the message once the transaction has committed."""
    wake(workload_ids=[workload.pk], now=now)
    transaction.on_commit(partial(send, workload.public_id))


def send(public_id: UUID) -> None:
    """Hint a worker at a row. The broker may be away: then only the sweep is left, and that is enough."""
    _send(RECONCILE_TASK, {"workload_id": str(public_id)})


def send_pool(*, flavor_id: int, capacity_type: str) -> None:
    """Hint a worker at a pool that is due."""
    _send(PASS_TASK, {"flavor_id": flavor_id, "capacity_type": capacity_type})


def wake_now(workload: Workload, *, now: datetime) -> None:
    """Make the row due and send the message, outside any transaction."""
    wake(workload_ids=[workload.pk], now=now)
    send(workload.public_id)


def _send(task: str, arguments: dict[str, str | int]) -> None:
    try:
        current_app.send_task(task, kwargs=arguments, retry=False)
    except (OperationalError, OSError):
        logger.warning("wakeup.lost", extra={"task": task, **arguments})
