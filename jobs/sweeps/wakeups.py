"""Hints that a sweep may go on. A lost one costs latency: the periodic look finds it."""

from __future__ import annotations

from uuid import UUID

from controller.wakeups import send_hint

ADVANCE_TASK = "jobs.tasks.advance_sweep"


def send(sweep_id: UUID) -> None:
    """Send a worker a hint about a sweep."""
    send_hint(ADVANCE_TASK, {"sweep_id": str(sweep_id)})
