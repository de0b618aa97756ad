from __future__ import annotations

from typing import Any

from django.db import models
from typing_extensions import override

from cluster.kinds import ResourceKind, named
from foundation.ids import new_public_id
from jobs.early_stop import EarlyStop
from jobs.kinds import KINDS
from jobs.presets import Preset
from jobs.specs import TrainingRunSpec
from teams.models import Team, User
from workloads.models import Workload


class RunOutput(models.Model):
    """A file or folder that a run says it has written, with its own token."""

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="outputs")
    attempt = models.PositiveIntegerField()
    path = models.TextField()
    """In the run's pods."""
    size_bytes = models.PositiveBigIntegerField()
    metrics = models.JSONField(default=dict, blank=True)
    at = models.DateTimeField()

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["workload", "path"], name="run_output_path_once")]

    @override
    def __str__(self) -> str:
        return self.path


class TrainingRun(models.Model):
    """What only a training run has; everything else is its workload's."""

    workload = models.OneToOneField(
        Workload, on_delete=models.CASCADE, primary_key=True, related_name="training_run"
    )
    spec = models.JSONField()
    origin = models.ForeignKey(Workload, on_delete=models.SET_NULL, null=True, related_name="+")
    """The run that this one repeats or goes on from."""
    object_kind = models.CharField(max_length=120, default="", blank=True)
    """What it is in the cluster (`ResourceKind.address`); empty where its kind can be one thing only."""
    sweep = models.ForeignKey(
        "Sweep", on_delete=models.CASCADE, null=True, related_name="members", db_index=False
    )
    number = models.PositiveIntegerField(null=True)
    """Its place in its sweep, from 1."""
    parameters = models.JSONField(default=dict, blank=True)
    """Its combination of the sweep's parameters."""
    milestones = models.JSONField(default=dict, blank=True)
    """The best value of the sweep's metric at each tenth of an attempt's progress (`jobs.early_stop`)."""
    milestones_attempt = models.PositiveIntegerField(default=0)
    """The number of that attempt: another one begins anew."""
    reached = models.FloatField(null=True)
    """The value by which it reached the target of its sweep."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["sweep", "number"],
                condition=models.Q(sweep__isnull=False),
                name="sweep_number_unique",
            ),
            models.CheckConstraint(
                condition=models.Q(sweep__isnull=True, number__isnull=True)
                | models.Q(sweep__isnull=False, number__isnull=False),
                name="sweep_member_numbered",
            ),
        ]

    @override
    def __str__(self) -> str:
        return self.workload.name

    @property
    def parsed(self) -> TrainingRunSpec:
        return TrainingRunSpec.from_json(self.spec)

    @property
    def request(self) -> dict[str, Any]:
        """What a copy of it asks for: its spec with the labels that it has now."""
        return {**self.spec, "labels": self.workload.labels}

    @property
    def primary(self) -> ResourceKind:
        """The kind of the object that owns its pods."""
        return named(self.object_kind) if self.object_kind else KINDS[self.spec["kind"]].objects[0]


class IdleWarning(models.Model):
    """A run was warned by the idle policy of its template; gone as soon as its GPUs do something."""

    workload = models.OneToOneField(
        Workload, on_delete=models.CASCADE, primary_key=True, related_name="idle_warning"
    )
    warned_at = models.DateTimeField()

    @override
    def __str__(self) -> str:
        return f"{self.workload_id} at {self.warned_at:%Y-%m-%dT%H:%M:%SZ}"


class Sweep(models.Model):
    """A request with a matrix: its members are runs, which it lets into the queue and stops by its rules."""

    public_id = models.UUIDField(default=new_public_id, unique=True, editable=False)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="sweeps")
    owner = models.ForeignKey(User, on_delete=models.PROTECT, related_name="sweeps")
    name = models.CharField(max_length=40)
    matrix = models.JSONField()
    """As it was asked for: parameters, max_parallel and early_stop."""
    size = models.PositiveIntegerField(help_text="How many members it has.")
    max_parallel = models.PositiveIntegerField(
        null=True, help_text="How many members wait for GPUs or have them at once; null for all."
    )
    labels = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField()
    cancelled_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True, help_text="When the last member was seen to have ended.")
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["-created_at", "-id"]
        indexes = [
            models.Index(fields=["team", "-created_at", "-id"], name="sweep_team_newest"),
            models.Index(fields=["-created_at", "-id"], name="sweep_newest"),
            models.Index(fields=["id"], condition=models.Q(finished_at__isnull=True), name="sweep_open"),
        ]

    @override
    def __str__(self) -> str:
        return self.name

    @property
    def early_stop(self) -> EarlyStop | None:
        """Its rules, without the values of its parameters."""
        return EarlyStop.from_json(self.matrix.get("early_stop"))

    @property
    def page_url(self) -> str:
        """Path of its page."""
        return f"/sweeps/{self.public_id}/"

    @property
    def resource_url(self) -> str:
        """Path of its resource."""
        return f"/api/v1/sweeps/{self.public_id}/"


class RunTemplate(models.Model):
    """A preset of the platform admin: values that a run begins with, limits to some, and those it may not change.

    The rules are those of `jobs.presets`.
    """

    name = models.CharField(max_length=80, unique=True)
    title = models.CharField(max_length=120)
    description = models.CharField(max_length=500, default="", blank=True)
    defaults = models.JSONField(default=dict, blank=True)
    minimum = models.JSONField(default=dict, blank=True)
    maximum = models.JSONField(default=dict, blank=True)
    locked = models.JSONField(default=list, blank=True)
    idle_warn_minutes = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Minutes for which all GPUs of a run may do nothing before it is warned; empty: never.",
    )
    idle_stop_minutes = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Minutes after which it is stopped with its grace period and can be resumed; empty: never. It is warned first.",
    )
    enabled = models.BooleanField(default=True)
    order = models.PositiveIntegerField(default=100)
    version = models.PositiveIntegerField(default=1)
    """Counts the changes of what it says."""

    class Meta:
        ordering = ["order", "name"]
        constraints = [
            models.CheckConstraint(
                name="template_warns_before_it_stops",
                condition=models.Q(idle_stop_minutes__isnull=True)
                | models.Q(
                    idle_warn_minutes__isnull=False, idle_stop_minutes__gt=models.F("idle_warn_minutes")
                ),
            )
        ]

    @override
    def __str__(self) -> str:
        return self.name

    @property
    def preset(self) -> Preset:
        return Preset(
            name=self.name,
            version=self.version,
            defaults=self.defaults,
            minimum=self.minimum,
            maximum=self.maximum,
            locked=self.locked,
        )
