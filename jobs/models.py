from __future__ import annotations

from django.db import models
from typing_extensions import override

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

    @override
    def __str__(self) -> str:
        return self.workload.name

    @property
    def parsed(self) -> TrainingRunSpec:
        return TrainingRunSpec.from_json(self.spec)
