"""What is admitted together, and how far the cluster's own limits are in step with what quotas derive."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from typing_extensions import override

from teams.models import Team
from workloads.models import CapacityType, ResourceFlavor


class Pool(models.Model):
    """A flavor and a capacity type: what is admitted together, one pass at a time.

    `revision` grows with every pass that admits and every change of its quotas. From `due_at` on a pass is due: at once
    where something was given back, else when time alone lets a workload start or makes one leave.
    """

    flavor = models.ForeignKey(ResourceFlavor, on_delete=models.CASCADE, related_name="pools")
    capacity_type = models.CharField(max_length=16, choices=CapacityType.choices)
    revision = models.PositiveBigIntegerField(default=0)
    due_at = models.DateTimeField(null=True)
    passed_at = models.DateTimeField(null=True)
    told_at = models.DateTimeField(null=True, help_text="When all who wait were last told the numbers.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["flavor", "capacity_type"], name="pool_unique")]
        indexes = [models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="pool_due")]

    @override
    def __str__(self) -> str:
        return f"{self.flavor.name} ({self.capacity_type}) at {self.revision}"


class Fence(models.Model):
    """A team's ResourceQuota: what the quotas derive, and what the API server was last seen to hold."""

    team = models.OneToOneField(Team, on_delete=models.CASCADE, related_name="fence")
    derived = models.JSONField(default=dict, help_text="Units per resource name.")
    observed = models.JSONField(
        null=True, help_text="Units per resource name; null where there is no namespace."
    )
    checked_at = models.DateTimeField()

    @override
    def __str__(self) -> str:
        return f"fence of {self.team.slug}"

    @property
    def in_step(self) -> bool:
        return self.observed is None or self.observed == self.derived
