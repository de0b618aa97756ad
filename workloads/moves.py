"""Moves of many queued workloads at once: what a pass of admission has decided, in a few statements."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from workloads.errors import InvalidTransition
from workloads.models import Workload, WorkloadEvent
from workloads.services import NOTIFY_CHANNEL, note_of
from workloads.states import REASONS, Desired, Phase, Reason, can_move

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Move:
    """Where one of many queued workloads goes, and why."""

    workload_id: int
    to: Phase
    reason: Reason
    message: str
    wake: bool = True
    """Whether to make it due; whoever looks at it at this moment needs no waking."""


def lock_queued(*, workload_ids: Iterable[int]) -> list[Workload]:
    """Those that still wait and are still wanted, with their rows locked in the order of their keys."""
    rows = Workload.objects.select_for_update(no_key=True, of=("self",)).select_related("team", "flavor")
    waiting = rows.filter(pk__in=list(workload_ids), phase=Phase.QUEUED.value, desired=Desired.RUN.value)
    return list(waiting.order_by("pk"))


_MOVE_MANY = """
UPDATE workloads_workload AS w
SET phase = m.phase, reason = m.reason, message = m.message,
    since = CASE WHEN w.phase = m.phase AND w.reason = m.reason THEN w.since ELSE %(now)s END,
    admitted_at = CASE WHEN m.phase = 'Admitted' THEN %(now)s ELSE w.admitted_at END,
    next_reconcile_at = CASE WHEN m.phase = 'Admitted' AND m.wake THEN %(now)s ELSE w.next_reconcile_at END
FROM unnest(%(ids)s::bigint[], %(phases)s::text[], %(reasons)s::text[], %(messages)s::text[], %(wakes)s::bool[])
    AS m (id, phase, reason, message, wake)
WHERE w.id = m.id
"""


def move_queued(*, workloads: Sequence[Workload], moves: Sequence[Move], actor: str, now: datetime) -> None:
    """What `transition` does, for many queued workloads at once; their rows are locked by `lock_queued`."""
    known = {each.pk: each for each in workloads}
    for move in moves:
        if move.reason not in REASONS[move.to] or not can_move(Phase.QUEUED, move.to):
            raise InvalidTransition(f"{move.reason} is no reason for a queued workload to be {move.to}.")
    values: dict[str, Any] = {
        "now": now,
        "ids": [move.workload_id for move in moves],
        "phases": [move.to.value for move in moves],
        "reasons": [move.reason.value for move in moves],
        "messages": [move.message for move in moves],
        "wakes": [move.wake for move in moves],
    }
    events = []
    for move in moves:
        workload = known[move.workload_id]
        if (workload.phase, workload.reason) != (move.to.value, move.reason.value):
            events.append(
                WorkloadEvent(
                    workload=workload,
                    at=now,
                    from_phase=workload.phase,
                    to_phase=move.to.value,
                    reason=move.reason.value,
                    message=move.message,
                    actor=actor,
                    attempt=workload.attempt_number,
                )
            )
            workload.since = now
            logger.info(
                "workload.moved", extra={"workload_id": str(workload.public_id), "phase": move.to.value}
            )
        workload.phase, workload.reason, workload.message = move.to.value, move.reason.value, move.message
        if move.to is Phase.ADMITTED:
            workload.admitted_at = now
    with connection.cursor() as cursor:
        cursor.execute(_MOVE_MANY, values)
        WorkloadEvent.objects.bulk_create(events)
        notes = [note_of(known[move.workload_id]) for move in moves]
        cursor.execute(
            "SELECT pg_notify(%s, note) FROM unnest(%s::text[]) AS n (note)", [NOTIFY_CHANNEL, notes]
        )
