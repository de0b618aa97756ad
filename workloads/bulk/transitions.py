"""Moves of many queued workloads at once, as an admission pass decided them, in a few statements."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from workloads import signals
from workloads.errors import InvalidTransition
from workloads.models import Workload
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
    """Whether to make it due; a worker that already has it in hand needs no wake-up."""


def lock_queued(*, workload_ids: Iterable[int]) -> list[Workload]:
    """Lock the rows of the workloads that still wait and are still wanted, in the order of their keys; returns them."""
    rows = Workload.objects.select_for_update(no_key=True, of=("self",)).select_related("team", "flavor")
    waiting = rows.filter(pk__in=list(workload_ids), phase=Phase.QUEUED.value, desired=Desired.RUN.value)
    return list(waiting.order_by("pk"))


_MOVE_MANY = """
WITH m AS (
    SELECT * FROM unnest(%(ids)s::bigint[], %(phases)s::text[], %(reasons)s::text[], %(messages)s::text[],
                         %(wakes)s::bool[], %(news)s::bool[], %(attempts)s::int[], %(notes)s::text[])
        AS m (id, phase, reason, message, wake, news, attempt, note)
), moved AS (
    UPDATE workloads_workload AS w
    SET phase = m.phase, reason = m.reason, message = m.message,
        since = CASE WHEN m.news THEN %(now)s ELSE w.since END,
        admitted_at = CASE WHEN m.phase = 'Admitted' THEN %(now)s ELSE w.admitted_at END,
        next_reconcile_at = CASE WHEN m.phase = 'Admitted' AND m.wake THEN %(now)s ELSE w.next_reconcile_at END
    FROM m WHERE w.id = m.id
), events AS (
    INSERT INTO workloads_workloadevent
        (workload_id, at, from_phase, to_phase, reason, message, actor, source, attempt)
    SELECT id, %(now)s, 'Queued', phase, reason, message, %(actor)s, '', attempt FROM m WHERE news
    RETURNING id, workload_id
)
SELECT pg_notify(%(channel)s, (m.note::jsonb || jsonb_build_object('event', events.id))::text)
FROM events JOIN m ON m.id = events.workload_id
ORDER BY events.id
"""


def move_queued(*, workloads: Sequence[Workload], moves: Sequence[Move], actor: str, now: datetime) -> None:
    """What `transition` does, for many queued workloads at once; their rows are locked by `lock_queued`."""
    known = {workload.pk: workload for workload in workloads}
    for move in moves:
        if move.reason not in REASONS[move.to] or not can_move(Phase.QUEUED, move.to):
            raise InvalidTransition(f"{move.reason} is no reason for a queued workload to be {move.to}.")
    columns: dict[str, list[Any]] = defaultdict(list)
    told: list[signals.PhaseMove] = []
    for move in moves:
        workload = known[move.workload_id]
        news = (workload.phase, workload.reason) != (move.to.value, move.reason.value)
        if news:
            told.append(signals.PhaseMove(workload, workload.phase, workload.reason))
        _show(workload, move, news=news, now=now)
        columns["ids"].append(workload.pk)
        columns["phases"].append(move.to.value)
        columns["reasons"].append(move.reason.value)
        columns["messages"].append(move.message)
        columns["wakes"].append(move.wake)
        columns["news"].append(news)
        columns["attempts"].append(workload.attempt_number)
        columns["notes"].append(note_of(workload))
    with connection.cursor() as cursor:
        cursor.execute(_MOVE_MANY, {**columns, "now": now, "actor": actor, "channel": NOTIFY_CHANNEL})
    signals.moved.send(sender=Workload, moves=told, now=now)


def _show(workload: Workload, move: Move, *, news: bool, now: datetime) -> None:
    """Copy the row's new values to the caller's object."""
    workload.phase, workload.reason, workload.message = move.to.value, move.reason.value, move.message
    if move.to is Phase.ADMITTED:
        workload.admitted_at = now
    if news:
        workload.since = now
        logger.info("workload.moved", extra={"workload_id": str(workload.public_id), "phase": workload.phase})
