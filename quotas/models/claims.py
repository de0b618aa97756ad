"""What workloads hold, and which of them have to give it back."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from typing_extensions import override

from policy.verdicts import PreemptionCause
from quotas.models.limits import Quota
from teams.models import Team
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

    With it goes what the pods hold of their team's ceilings. What asks for no GPU has a claim of that alone, on no quota.
    """

    workload = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="claims")
    # The indexes of open claims are enough.
    quota = models.ForeignKey(
        Quota, null=True, on_delete=models.PROTECT, related_name="claims", db_index=False
    )
    team = models.ForeignKey(Team, on_delete=models.PROTECT, related_name="claims", db_index=False)
    """Its workload's, which never changes."""
    purpose = models.CharField(max_length=8, choices=ClaimPurpose.choices, default=ClaimPurpose.WORKLOAD)
    units = models.PositiveIntegerField()
    headroom = models.PositiveIntegerField(default=0)
    cpu = models.BigIntegerField(default=0, help_text="Millicores that it holds of its team's ceiling.")
    memory = models.BigIntegerField(default=0, help_text="Bytes that it holds of its team's ceiling.")
    storage = models.BigIntegerField(
        default=0, help_text="Bytes of ephemeral storage that it holds of its team's ceiling."
    )
    pods = models.BigIntegerField(default=0, help_text="Pods that it holds of its team's ceiling.")
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
            models.CheckConstraint(
                name="claim_positive",
                condition=Q(quota__isnull=False, units__gte=1) | Q(quota__isnull=True, units=0),
            ),
            models.CheckConstraint(
                name="claim_amounts_not_negative",
                condition=Q(cpu__gte=0, memory__gte=0, storage__gte=0, pods__gte=0),
            ),
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
            ),
            models.Index(
                fields=["team"],
                include=["cpu", "memory", "storage", "pods"],
                condition=~Q(state=ClaimState.RELEASED),
                name="claim_open_of_team",
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.units} of {self.quota_id} for {self.workload_id}"

    @property
    def most(self) -> tuple[int, int, int, int]:
        """What it holds of its team's ceilings."""
        return self.cpu, self.memory, self.storage, self.pods


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
