from __future__ import annotations

from django.db import models
from typing_extensions import override

from tests.examples.batch_inference.specs import BatchInferenceSpec
from workloads.models import Workload


class BatchInference(models.Model):
    """What only a batch has; everything else is its workload's."""

    workload = models.OneToOneField(
        Workload, on_delete=models.CASCADE, primary_key=True, related_name="batch_inference"
    )
    spec = models.JSONField()

    @override
    def __str__(self) -> str:
        return self.workload.name

    @property
    def parsed(self) -> BatchInferenceSpec:
        return BatchInferenceSpec.from_json(self.spec)
