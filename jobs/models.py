from __future__ import annotations

from django.db import models
from typing_extensions import override

from cluster.kinds import ResourceKind, named
from jobs.kinds import KINDS
from jobs.presets import Preset
from jobs.specs import TrainingRunSpec
from workloads.models import Workload


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

    @override
    def __str__(self) -> str:
        return self.workload.name

    @property
    def parsed(self) -> TrainingRunSpec:
        return TrainingRunSpec.from_json(self.spec)

    @property
    def primary(self) -> ResourceKind:
        """The kind of the object that owns its pods."""
        return named(self.object_kind) if self.object_kind else KINDS[self.spec["kind"]].objects[0]


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
    enabled = models.BooleanField(default=True)
    order = models.PositiveIntegerField(default=100)
    version = models.PositiveIntegerField(default=1)
    """Counts the changes of what it says."""

    class Meta:
        ordering = ["order", "name"]

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
