"""Receipts of admission: what was known, what was decided, and how good the estimates were."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Coalesce
from django.utils.functional import cached_property
from typing_extensions import override

from foundation.ids import new_public_id
from policy.snapshot_json import load_verdict
from policy.verdicts import Verdict
from teams.models import Team
from workloads.models import Workload


class SupplyRecord(models.Model):
    """The inputs of decisions, by the hash of their content: canonical JSON, compressed by zlib."""

    digest = models.CharField(max_length=64, primary_key=True)
    body = models.BinaryField()
    created_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["created_at"], name="supply_record_age")]

    @override
    def __str__(self) -> str:
        return self.digest[:12]


class Decision(models.Model):
    """A verdict with its inputs, rule and outcome; it replays to the same verdict."""

    public_id = models.UUIDField(default=new_public_id, unique=True, editable=False)
    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="decisions")
    at = models.DateTimeField()
    policy = models.CharField(max_length=32, help_text="Name and version of the policy that decided.")
    verdict = models.CharField(max_length=8)
    reason = models.CharField(max_length=40)
    rule = models.CharField(max_length=40)
    outcome = models.JSONField(help_text="The verdict as JSON.")
    supply = models.ForeignKey(SupplyRecord, null=True, on_delete=models.SET_NULL, related_name="decisions")
    revision = models.PositiveBigIntegerField(default=0, help_text="Of the pool when it was made.")

    class Meta:
        indexes = [
            models.Index(fields=["workload", "-id"], name="decision_of_workload"),
            models.Index(fields=["at"], name="decision_age"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.verdict} {self.reason} for {self.workload_id}"

    @cached_property
    def decided(self) -> Verdict:
        """The verdict with its evidence and victims."""
        return load_verdict(self.outcome)


class StartEstimate(models.Model):
    """The first estimate that was given for a stay in the queue, and what came of it."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="start_estimates")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="+")
    queued_at = models.DateTimeField()
    made_at = models.DateTimeField()
    p50 = models.DateTimeField(null=True)
    p90 = models.DateTimeField(null=True)
    basis = models.TextField(default="", blank=True)
    unknown_because = models.TextField(default="", blank=True)
    started_at = models.DateTimeField(null=True)
    hit = models.BooleanField(null=True, help_text="Whether it started by its p90; empty until it did.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workload"],
                condition=Q(started_at__isnull=True, hit__isnull=True),
                name="start_estimate_one_open",
            )
        ]
        indexes = [
            models.Index(fields=["team", "-started_at"], name="start_estimate_of_team"),
            models.Index(fields=["made_at"], condition=Q(hit__isnull=False), name="start_estimate_age"),
            models.Index(
                Coalesce("started_at", "p90"), condition=Q(hit__isnull=False), name="start_estimate_settled"
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.workload_id}: {self.p50} to {self.p90}"
