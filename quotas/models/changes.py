"""Changes of quotas, by whom and why; and what members have asked for."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from typing_extensions import override

from foundation.ids import new_public_id
from quotas.models.limits import Quota
from teams.models import Team, User
from workloads.models import CapacityType, ResourceFlavor


class QuotaChangeSet(models.Model):
    """Changes that were applied together or not at all."""

    public_id = models.UUIDField(default=new_public_id, unique=True, editable=False)
    actor = models.CharField(max_length=150)
    reason = models.TextField()
    at = models.DateTimeField()
    evicts = models.BooleanField(default=False, help_text="Whether runs above the new limits had to leave.")
    undoes = models.OneToOneField(
        "self", null=True, on_delete=models.SET_NULL, related_name="undone_by", help_text="What it took back."
    )

    class Meta:
        ordering = ["-at", "-id"]

    @override
    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d} {self.actor}: {self.reason}"


class QuotaChange(models.Model):
    """One row for every change of a quota, with who and why.

    `before` and `after` hold the limits that people set (nominal, borrowing_limit, lending_limit, user_limit,
    max_time_limit_seconds); null before a quota was made and after it was removed.
    """

    change_set = models.ForeignKey(
        QuotaChangeSet, null=True, on_delete=models.CASCADE, related_name="changes"
    )
    quota = models.ForeignKey(Quota, null=True, on_delete=models.SET_NULL, related_name="changes")
    team_slug = models.CharField(max_length=40)
    flavor_name = models.CharField(max_length=63)
    capacity_type = models.CharField(max_length=16)
    old_nominal = models.PositiveIntegerField(null=True)
    new_nominal = models.PositiveIntegerField(null=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    actor = models.CharField(max_length=150)
    reason = models.TextField()
    at = models.DateTimeField()

    class Meta:
        ordering = ["-at", "-id"]

    @override
    def __str__(self) -> str:
        return f"{self.team_slug} {self.flavor_name}: {self.old_nominal} → {self.new_nominal}"


class QuotaRequest(models.Model):
    """A member asks for more until a date; what a manager approves returns by itself."""

    class State(models.TextChoices):
        PENDING = "pending"
        APPROVED = "approved"
        DENIED = "denied"
        WITHDRAWN = "withdrawn"
        RETURNED = "returned"
        EXPIRED = "expired"

    public_id = models.UUIDField(default=new_public_id, unique=True, editable=False)
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="quota_requests")
    flavor = models.ForeignKey(ResourceFlavor, on_delete=models.PROTECT, related_name="quota_requests")
    capacity_type = models.CharField(max_length=16, choices=CapacityType.choices)
    units = models.PositiveIntegerField(help_text="Units on top of the nominal quota.")
    until = models.DateTimeField()
    reason = models.TextField()
    state = models.CharField(max_length=10, choices=State.choices, default=State.PENDING)
    requested_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="quota_requests")
    requested_at = models.DateTimeField()
    decided_by = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")
    decided_at = models.DateTimeField(null=True)
    comment = models.TextField(default="", blank=True)
    returned_at = models.DateTimeField(null=True)
    change_set = models.OneToOneField(
        QuotaChangeSet, null=True, on_delete=models.PROTECT, related_name="request", help_text="What gave it."
    )

    class Meta:
        ordering = ["-requested_at", "-id"]
        constraints = [
            models.CheckConstraint(name="quota_request_positive", condition=Q(units__gte=1)),
            models.CheckConstraint(
                name="quota_request_decided_by_somebody",
                condition=~Q(state__in=["approved", "denied", "returned"]) | Q(decided_at__isnull=False),
            ),
        ]
        indexes = [
            models.Index(fields=["until"], condition=Q(state="approved"), name="quota_request_to_return")
        ]

    @override
    def __str__(self) -> str:
        return f"{self.team.slug} asks for {self.units} {self.flavor.name} until {self.until:%Y-%m-%d}"
