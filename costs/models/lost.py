"""What was lost of what teams paid for."""

from __future__ import annotations

from django.db import models
from typing_extensions import override

from workloads.models import Attempt, Workload


class LostWork(models.Model):
    """An attempt that ended without its work, what the team paid for that, and what of it was credited."""

    attempt = models.OneToOneField(Attempt, on_delete=models.PROTECT, related_name="lost_work")
    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, related_name="lost_work")
    cause = models.CharField(max_length=40, help_text="The reason with which the attempt ended.")
    credit_seconds = models.PositiveIntegerField(
        null=True,
        help_text="How much of it is credited at the most, by the setting when it was noted.",
    )
    lost_micro_usd = models.BigIntegerField(
        null=True, help_text="What the team paid for the attempt's seconds since its last checkpoint."
    )
    credited_micro_usd = models.BigIntegerField(default=0)
    postings = models.JSONField(
        default=list, help_text="Transactions of the ledger that stand for the credit."
    )
    due = models.BooleanField(default=True, help_text="Whether it has to be looked at.")

    class Meta:
        indexes = [
            models.Index(fields=["workload"], name="lost_work_of_workload"),
            models.Index(fields=["id"], condition=models.Q(due=True), name="lost_work_due"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.lost_micro_usd} of {self.attempt_id} ({self.cause})"
