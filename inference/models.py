from __future__ import annotations

from django.db import models
from typing_extensions import override

from inference.specs import EndpointSpec
from workloads.models import Workload


class Endpoint(models.Model):
    """What only an endpoint has: the revision that is wanted now."""

    workload = models.OneToOneField(
        Workload, on_delete=models.CASCADE, primary_key=True, related_name="endpoint"
    )
    revision = models.PositiveIntegerField(default=1)

    @override
    def __str__(self) -> str:
        return self.workload.name

    @property
    def current(self) -> EndpointRevision:
        return self.revisions.get(number=self.revision)

    @property
    def parsed(self) -> EndpointSpec:
        return EndpointSpec.from_json(self.current.spec)


class EndpointRevision(models.Model):
    """One version of an endpoint's spec; never edited."""

    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="revisions")
    number = models.PositiveIntegerField()
    spec = models.JSONField()
    actor = models.CharField(max_length=150)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["endpoint", "number"], name="revision_number_unique")]

    @override
    def __str__(self) -> str:
        return f"revision {self.number}"
