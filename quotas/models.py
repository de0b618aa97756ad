"""Who may use how much. The database itself keeps `used` within its ceiling."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Greatest
from typing_extensions import override

from foundation.ids import new_public_id
from teams.models import Team
from workloads.models import CapacityType, ResourceFlavor, Workload


class Quota(models.Model):
    """What a team may hold of a flavor and capacity type, in units of the flavor.

    `used` counts open claims. A cut below it is allowed: `grandfathered` then keeps the old use legal until
    claims are released, and only a cut may raise it.
    """

    public_id = models.UUIDField(default=new_public_id, unique=True, editable=False)
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="quotas")
    flavor = models.ForeignKey(ResourceFlavor, on_delete=models.PROTECT, related_name="quotas")
    capacity_type = models.CharField(
        max_length=16, choices=CapacityType.choices, default=CapacityType.ON_DEMAND
    )
    nominal = models.PositiveIntegerField()
    used = models.PositiveIntegerField(default=0, editable=False)
    grandfathered = models.PositiveIntegerField(default=0, editable=False)

    class Meta:
        ordering = ["team__slug", "flavor__name", "capacity_type"]
        constraints = [
            models.UniqueConstraint(fields=["team", "flavor", "capacity_type"], name="quota_unique"),
            models.CheckConstraint(
                name="quota_never_oversubscribed",
                condition=Q(used__lte=Greatest(F("nominal"), F("grandfathered"))),
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.team.slug}: {self.nominal} {self.flavor.name} ({self.capacity_type})"

    @property
    def available(self) -> int:
        """Units left; negative after a cut below use."""
        return self.nominal - self.used


class ClaimState(models.TextChoices):
    RESERVED = "reserved"
    ACTIVE = "active"
    RELEASED = "released"


class ClaimPurpose(models.TextChoices):
    WORKLOAD = "workload"
    SURGE = "surge"


class Claim(models.Model):
    """Units that a workload holds: reserved at admission, active when pods start, released with the last pod.

    A rollout that surges takes a second one for as long as it lasts.
    """

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="claims")
    quota = models.ForeignKey(Quota, on_delete=models.PROTECT, related_name="claims")
    purpose = models.CharField(max_length=8, choices=ClaimPurpose.choices, default=ClaimPurpose.WORKLOAD)
    units = models.PositiveIntegerField()
    state = models.CharField(max_length=8, choices=ClaimState.choices, default=ClaimState.RESERVED)
    reserved_at = models.DateTimeField()
    activated_at = models.DateTimeField(null=True)
    released_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workload", "purpose"],
                condition=~Q(state=ClaimState.RELEASED),
                name="claim_one_open_per_purpose",
            ),
            models.CheckConstraint(name="claim_positive", condition=Q(units__gte=1)),
            models.CheckConstraint(
                name="claim_release_paired",
                condition=Q(state=ClaimState.RELEASED, released_at__isnull=False)
                | (~Q(state=ClaimState.RELEASED) & Q(released_at__isnull=True)),
            ),
        ]
        indexes = [
            models.Index(
                fields=["quota"], condition=~Q(state=ClaimState.RELEASED), name="claim_open_of_quota"
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.units} of {self.quota_id} for {self.workload_id}"


class QuotaChange(models.Model):
    """One row for every change of a quota, with who and why."""

    quota = models.ForeignKey(Quota, null=True, on_delete=models.SET_NULL, related_name="changes")
    team_slug = models.CharField(max_length=40)
    flavor_name = models.CharField(max_length=63)
    capacity_type = models.CharField(max_length=16)
    old_nominal = models.PositiveIntegerField(null=True)
    new_nominal = models.PositiveIntegerField(null=True)
    actor = models.CharField(max_length=150)
    reason = models.TextField()
    at = models.DateTimeField()

    class Meta:
        ordering = ["-at", "-id"]

    @override
    def __str__(self) -> str:
        return f"{self.team_slug} {self.flavor_name}: {self.old_nominal} → {self.new_nominal}"
