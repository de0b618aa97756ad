"""Rows that pages and lists read; a periodic job writes them from what Prometheus says."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from typing_extensions import override

from teams.models import Team
from workloads.models import PodRecord, Workload


class AlertRule(models.Model):
    """What was changed of one of `telemetry.rules`; without a row it is as it comes."""

    name = models.CharField(max_length=40, unique=True)
    threshold = models.FloatField()
    window_minutes = models.PositiveIntegerField()
    kinds = models.JSONField(default=list, blank=True)
    teams = models.JSONField(default=list, blank=True)
    enabled = models.BooleanField(default=True)
    updated_at = models.DateTimeField()

    @override
    def __str__(self) -> str:
        return self.name


class Alert(models.Model):
    """A rule held of cards of a workload; open until it holds of none of them."""

    rule = models.CharField(max_length=40)
    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="gpu_alerts")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="+")
    cards = models.PositiveIntegerField(help_text="Of how many of its cards it holds, or held last.")
    value = models.FloatField(help_text="Of the worst of them, when it was last seen.")
    threshold = models.FloatField(help_text="As it was then.")
    message = models.TextField()
    opened_at = models.DateTimeField()
    seen_at = models.DateTimeField(help_text="When it was last seen to hold.")
    closed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-opened_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["rule", "workload"], condition=Q(closed_at__isnull=True), name="alert_one_open"
            )
        ]
        indexes = [
            models.Index(fields=["-opened_at", "-id"], name="alert_newest"),
            models.Index(fields=["team", "-opened_at", "-id"], name="alert_team_newest"),
            models.Index(fields=["closed_at"], condition=Q(closed_at__isnull=False), name="alert_age"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.rule} of {self.workload_id}"


class IdleHold(models.Model):
    """A card that a pod holds and does nothing with, by the rule `idle`."""

    pod = models.ForeignKey(PodRecord, on_delete=models.CASCADE, related_name="idle_holds")
    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="idle_holds")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="+")
    node = models.CharField(max_length=253, default="", blank=True)
    gpu = models.CharField(max_length=32, default="", blank=True)
    slice = models.CharField(max_length=64, default="", blank=True)
    uuid = models.CharField(max_length=128, default="", blank=True)
    utilization = models.FloatField(help_text="Percent: the highest of the rule's window.")
    memory_used_mib = models.FloatField(null=True)
    memory_total_mib = models.FloatField(null=True)
    of_cards = models.PositiveIntegerField(
        default=0, help_text="How many cards of the pod are measured, idle or not."
    )
    since = models.DateTimeField(help_text="Since when at least.")
    seen_at = models.DateTimeField()

    class Meta:
        ordering = ["since", "id"]
        constraints = [
            models.UniqueConstraint(fields=["pod", "gpu", "slice", "uuid"], name="idle_hold_of_card")
        ]
        indexes = [models.Index(fields=["since", "id"], name="idle_hold_longest")]

    @override
    def __str__(self) -> str:
        return f"GPU {self.gpu} of {self.pod_id}"


class GpuLook(models.Model):
    """The last look at what all cards do: one row. What is unknown is said, and never shown as zero."""

    SINGLETON_PK = 1

    id = models.PositiveSmallIntegerField(primary_key=True, default=SINGLETON_PK, editable=False)
    looked_at = models.DateTimeField()
    answered_at = models.DateTimeField(null=True, help_text="When Prometheus last answered.")
    unknown_because = models.TextField(default="", blank=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="gpu_look_single_row")]

    @override
    def __str__(self) -> str:
        return f"GPUs at {self.looked_at:%Y-%m-%dT%H:%M:%SZ}"


class GpuSummary(models.Model):
    """What the GPUs of a workload that has ended did, written down while Prometheus still knows; `cards` is 0 where it
    knew nothing.
    """

    workload = models.OneToOneField(
        Workload, on_delete=models.CASCADE, primary_key=True, related_name="gpu_summary"
    )
    written_at = models.DateTimeField()
    seconds = models.PositiveIntegerField(help_text="From its start to its end.")
    cards = models.PositiveIntegerField()
    used_each = models.PositiveIntegerField(help_text="The most cards that one pod did anything with.")
    average_utilization = models.FloatField(help_text="Percent, of the cards that did anything.")
    peak_memory_mib = models.FloatField()
    coverage = models.FloatField(help_text="The share of its time that is measured, up to 1.")

    @override
    def __str__(self) -> str:
        return f"GPUs of {self.workload_id}"
