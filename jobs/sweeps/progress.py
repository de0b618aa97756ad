"""What a member reports, as its sweep hears it."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction

from jobs.models import TrainingRun
from jobs.sweeps.wakeups import send
from workloads.models import Attempt, ProgressReport
from workloads.reports import report_progress


def report(
    *,
    attempt: Attempt,
    progress_percentage: float | None,
    estimated_remaining_seconds: int | None,
    metrics: dict[str, Any],
    now: datetime,
) -> ProgressReport:
    """Keep the latest report of the attempt; a sweep that looks at one of its metrics is woken."""
    with transaction.atomic():
        kept = report_progress(
            attempt=attempt,
            progress_percentage=progress_percentage,
            estimated_remaining_seconds=estimated_remaining_seconds,
            metrics=metrics,
            now=now,
        )
        rows = TrainingRun.objects.filter(workload=attempt.workload_id, sweep__isnull=False)
        if metrics and (run := rows.select_related("sweep").defer("spec").first()):
            _note(run, attempt.number, metrics, progress_percentage)
    return kept


def _note(run: TrainingRun, attempt: int, metrics: dict[str, Any], percentage: float | None) -> None:
    sweep = run.sweep
    rules = sweep.early_stop if sweep is not None else None
    if sweep is None or rules is None or rules.metric not in metrics:
        return
    fresh = TrainingRun.objects.defer("spec").select_for_update(no_key=True).get(pk=run.pk)
    value = float(metrics[rules.metric])
    known = fresh.milestones if fresh.milestones_attempt == attempt else {}
    changes = {
        "milestones": rules.after(known, value=value, percentage=percentage),
        "milestones_attempt": attempt,
        "reached": value if fresh.reached is None and rules.reached(value) else fresh.reached,
    }
    if any(getattr(fresh, name) != new for name, new in changes.items()):
        TrainingRun.objects.filter(pk=run.pk).update(**changes)
        transaction.on_commit(partial(send, sweep.public_id))
