"""The only module that sends wake-ups. A lost wake-up costs latency, never work: the sweep finds the row."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

from workloads.models import Workload
from workloads.services import wake
from workloads.states import HOLDS_CLAIM

logger = logging.getLogger(__name__)

RECONCILE_TASK = "controller.reconcile_workload"
PASS_TASK = "controller.pass_over_pool"  # noqa: S105 (a pass of admission, no password)
WOKEN_AT_ONCE = 500
SWEPT_PRIORITY = 9
"""Of Redis' 0 to 9 the last: what the sweep finds has waited already, and a submission must not wait for all of it."""


def wake_workload(workload: Workload, *, now: datetime) -> None:
    """Make the row due, and send the message once the transaction has committed."""
    wake_workloads([workload], now=now)


def wake_workloads(workloads: Iterable[Workload], *, now: datetime) -> None:
    """Like `wake_workload` for many workloads, in one statement."""
    by_key = {workload.pk: workload for workload in workloads}
    if by_key:
        wake(workload_ids=list(by_key), now=now)
    send_later([workload.public_id for workload in by_key.values()])


def send_later(public_ids: Sequence[UUID]) -> None:
    """Send a hint about each once the transaction has committed; none after the first that the broker did not take."""
    transaction.on_commit(partial(_send_each, tuple(public_ids)))


def _send_each(public_ids: Sequence[UUID]) -> None:
    # A broker that is away is waited for once, and not as often as there are rows.
    all(_send(RECONCILE_TASK, {"workload_id": str(public_id)}, swept=False) for public_id in public_ids)


def send(public_id: UUID, *, swept: bool = False) -> None:
    """Send a worker a hint about a row. If the broker is unavailable, the sweep finds the row."""
    _send(RECONCILE_TASK, {"workload_id": str(public_id)}, swept=swept)


def send_pool(*, flavor_id: int, capacity_type: str, swept: bool = False) -> None:
    """Send a worker a hint about a pool that is due."""
    _send(PASS_TASK, {"flavor_id": flavor_id, "capacity_type": capacity_type}, swept=swept)


def send_hint(task: str, arguments: dict[str, str | int]) -> None:
    """Send a worker a hint about a row of another app, whose periodic look finds it otherwise."""
    _send(task, arguments, swept=False)


def wake_all_live(*, now: datetime) -> None:
    """Make every row due whose objects are in the cluster, without a message each: the sweep finds them in its order."""
    live = Workload.objects.filter(phase__in=[phase.value for phase in HOLDS_CLAIM])
    keys = list(live.order_by("pk").values_list("pk", flat=True))
    for begin in range(0, len(keys), WOKEN_AT_ONCE):
        wake(workload_ids=keys[begin : begin + WOKEN_AT_ONCE], now=now)


def wake_now(workload: Workload, *, now: datetime) -> None:
    """Make the row due and send the message, outside any transaction."""
    wake(workload_ids=[workload.pk], now=now)
    send(workload.public_id)


def hints_waiting(task: str) -> int:
    """The number of pending messages in the task's queue; 0 if the broker does not say."""
    queue = current_app.amqp.router.route({}, task)["queue"]
    try:
        with current_app.connection_or_acquire() as connection:
            try:
                return int(queue(connection.default_channel).queue_declare(passive=True).message_count)
            except connection.channel_errors:
                return 0
    except (OperationalError, OSError):
        return 0


def _send(task: str, arguments: dict[str, str | int], *, swept: bool) -> bool:
    """Whether the broker took it."""
    priority = SWEPT_PRIORITY if swept else None
    try:
        current_app.send_task(task, kwargs=arguments, retry=False, priority=priority)
    except (OperationalError, OSError):
        logger.warning("wakeup.lost", extra={"task": task, **arguments})
        return False
    return True
