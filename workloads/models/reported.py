"""What a run says of itself, with its own token."""

from __future__ import annotations

from django.db import models
from typing_extensions import override

from workloads.models.kernel import Workload


class Checkpoint(models.Model):
    """A resume point that a run reported with its own token; the latest one starts the next attempt.

    One of attempt 0 was brought along from the run that this one goes on from.
    """

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="checkpoints")
    attempt = models.PositiveIntegerField()
    step = models.BigIntegerField()
    path = models.TextField()
    at = models.DateTimeField()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["workload", "attempt", "step"], name="checkpoint_step_once")
        ]

    @override
    def __str__(self) -> str:
        return f"step {self.step} at {self.path}"


class ProgressReport(models.Model):
    """What a run last said of itself; one row an attempt."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="progress_reports")
    attempt = models.PositiveIntegerField()
    progress_percentage = models.FloatField(null=True)
    estimated_remaining_seconds = models.PositiveIntegerField(null=True)
    metrics = models.JSONField(default=dict)
    at = models.DateTimeField()

    class Meta:
        ordering = ["-attempt"]
        constraints = [
            models.UniqueConstraint(fields=["workload", "attempt"], name="progress_once_an_attempt")
        ]

    @override
    def __str__(self) -> str:
        return f"{self.progress_percentage} %"
