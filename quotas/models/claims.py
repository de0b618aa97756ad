"""What workloads hold, and which of them have to give it back."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from typing_extensions import override

from policy.verdicts import PreemptionCause
from quotas.models.limits import Quota
from workloads.models import Workload


class ClaimState(models.TextChoices):
    RESERVED = "reserved"
    ACTIVE = "active"
    RELEASED = "released"


class ClaimPurpose(models.TextChoices):
    WORKLOAD = "workload"
    SURGE = "surge"


class Claim(models.Model):
    """Units that a workload holds: reserved at admission, active when pods start, released with the last pod.

    A rollout that surges takes a second one for as long as it lasts. Of an endpoint's claim `headroom` units are for
    pods that its scaler has not asked for yet. A `lent` one lives on such headroom of its own team, and counts in the
    quota's `lent_headroom` instead of in `used`.
    """

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="claims")
    # The index of open claims is enough.
    quota = models.ForeignKey(Quota, on_delete=models.PROTECT, related_name="claims", db_index=False)
    purpose = models.CharField(max_length=8, choices=ClaimPurpose.choices, default=ClaimPurpose.WORKLOAD)
    units = models.PositiveIntegerField()
    headroom = models.PositiveIntegerField(default=0)
    lent = models.BooleanField(default=False)
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
                name="claim_headroom_within",
                condition=Q(headroom__lte=F("units")) & (Q(lent=False) | Q(headroom=0)),
            ),
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


class Preemption(models.Model):
    """A run that was asked to leave: by whose need, and why. Open until its last pod is gone.

    It is about one claim: where that was given back before the request was written, it asks for nothing, and the next
    claim of the same run is not meant.
    """

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="preemptions")
    # Empty in rows from before it was recorded.
    claim = models.ForeignKey(Claim, null=True, on_delete=models.CASCADE, related_name="+", db_index=False)
    preemptor = models.ForeignKey(Workload, null=True, on_delete=models.SET_NULL, related_name="+")
    cause = models.CharField(max_length=32, choices=[(cause.value, cause.value) for cause in PreemptionCause])
    message = models.TextField(
        help_text="What the victim is told; names no other team unless that allows it."
    )
    lost_seconds = models.PositiveIntegerField(default=0, help_text="Foreseen when it was chosen.")
    at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["claim"], condition=Q(ended_at__isnull=True), name="preemption_one_open_of_claim"
            )
        ]
        indexes = [models.Index(fields=["workload", "-id"], name="preemption_of_workload")]

    @override
    def __str__(self) -> str:
        return f"{self.workload_id} leaves ({self.cause})"
