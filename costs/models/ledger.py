"""The append-only double-entry ledger, and the sums that the database keeps of it."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from typing_extensions import override

from costs.models.prices import Price
from teams.models import Team, User
from workloads.models import Workload


class LedgerEntry(models.Model):
    """One side of a posting. The sides of one `transaction_id` add up to 0; rows are never changed."""

    transaction_id = models.UUIDField(db_index=True)
    account = models.CharField(
        max_length=80, help_text="Who pays, or what is paid for: see costs.ledger.accounts."
    )
    team = models.ForeignKey(Team, null=True, on_delete=models.PROTECT, related_name="ledger")
    workload = models.ForeignKey(Workload, null=True, on_delete=models.PROTECT, related_name="ledger")
    pod_uid = models.CharField(max_length=64, default="", blank=True)
    node_name = models.CharField(max_length=253, default="", blank=True)
    flavor_name = models.CharField(max_length=63, default="", blank=True)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    price = models.ForeignKey(Price, null=True, on_delete=models.PROTECT, related_name="entries")
    units = models.PositiveIntegerField()
    user = models.ForeignKey(
        User, null=True, on_delete=models.PROTECT, related_name="ledger", help_text="Whose workload it was."
    )
    project = models.CharField(
        max_length=63,
        default="",
        db_default="",
        blank=True,
        help_text="The workload's label `project`, when it was posted.",
    )
    phase = models.CharField(
        max_length=16,
        default="",
        db_default="",
        blank=True,
        help_text="What the pod did in that time: starting, running or stopping.",
    )
    amount_micro_usd = models.BigIntegerField(help_text="Positive: the account pays.")
    reverses = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="reversed_by")
    reason = models.TextField(default="", blank=True)
    posted_at = models.DateTimeField()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["pod_uid", "started_at", "account"],
                condition=Q(reverses__isnull=True) & ~Q(pod_uid=""),
                name="ledger_each_second_once",
            )
        ]
        indexes = [
            models.Index(fields=["workload"], name="ledger_of_workload"),
            models.Index(fields=["team", "started_at"], name="ledger_of_team"),
            models.Index(fields=["pod_uid"], condition=Q(reverses__isnull=False), name="ledger_taken_back"),
            models.Index(fields=["started_at", "id"], name="ledger_in_time"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.account} {self.amount_micro_usd}"


class WorkloadCharge(models.Model):
    """What the ledger charges a team for a workload: the sum of its lines, kept by a trigger of the ledger.

    So that the cost of a workload can be shown without reading all of its lines.
    """

    workload = models.OneToOneField(
        Workload, on_delete=models.PROTECT, primary_key=True, related_name="charge"
    )
    posted_micro_usd = models.BigIntegerField()

    @override
    def __str__(self) -> str:
        return f"{self.workload_id}: {self.posted_micro_usd}"
