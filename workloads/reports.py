"""What a run's own pods report with their run token: checkpoints and progress."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from django.db.models import Max, Q, QuerySet

from workloads.models import Attempt, Checkpoint, ProgressReport, Workload

CHECKPOINTS_MAX: Final = 1_000


def report_checkpoint(*, attempt: Attempt, step: int, path: str, now: datetime) -> Checkpoint:
    """Keep a resume point; the same step again keeps the newer path. Of very many, old ones are thinned."""
    checkpoint, is_new = Checkpoint.objects.update_or_create(
        workload_id=attempt.workload_id, attempt=attempt.number, step=step, defaults={"path": path, "at": now}
    )
    if is_new:
        _thin(Checkpoint.objects.filter(workload=attempt.workload_id))
    return checkpoint


def _thin(known: QuerySet[Checkpoint]) -> None:
    """Beyond CHECKPOINTS_MAX of a run every second of the older half goes, and never the furthest of an attempt."""
    if known.count() <= CHECKPOINTS_MAX:
        return
    furthest = dict(known.order_by().values_list("attempt").annotate(Max("step")))
    rows = known.order_by("id").values_list("id", "attempt", "step")[: CHECKPOINTS_MAX // 2]
    spare = [number for number, attempt, step in rows if step != furthest[attempt]]
    known.filter(pk__in=spare[1::2]).delete()


def has_saved(attempt: Attempt) -> bool:
    """Whether it has a checkpoint beyond all those of earlier attempts."""
    steps = Checkpoint.objects.filter(workload=attempt.workload_id).aggregate(
        own=Max("step", filter=Q(attempt=attempt.number)),
        before=Max("step", filter=Q(attempt__lt=attempt.number)),
    )
    return steps["own"] is not None and (steps["before"] is None or steps["own"] > steps["before"])


def bring_checkpoint(*, workload: Workload, saved: Checkpoint) -> Checkpoint:
    """Let the first attempt of a new workload resume from what another one saved: a checkpoint of attempt 0."""
    return Checkpoint.objects.create(
        workload=workload, attempt=0, step=saved.step, path=saved.path, at=saved.at
    )


def report_progress(
    *,
    attempt: Attempt,
    progress_percentage: float | None,
    estimated_remaining_seconds: int | None,
    metrics: dict[str, Any],
    now: datetime,
) -> ProgressReport:
    """Keep the latest report of the attempt."""
    report, _ = ProgressReport.objects.update_or_create(
        workload_id=attempt.workload_id,
        attempt=attempt.number,
        defaults={
            "progress_percentage": progress_percentage,
            "estimated_remaining_seconds": estimated_remaining_seconds,
            "metrics": metrics,
            "at": now,
        },
    )
    return report
