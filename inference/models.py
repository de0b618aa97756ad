from __future__ import annotations

from django.db import models
from typing_extensions import override

from inference.changes import with_size_of
from inference.specs import EndpointSpec
from workloads.models import Workload


class RevisionState(models.TextChoices):
    """How far a revision has come. What was never live and has a newer one is superseded without `live_at`."""

    PENDING = "pending", "pending"
    ROLLING_OUT = "rolling-out", "rolling out"
    LIVE = "live", "live"
    FAILED = "failed", "failed"
    SUPERSEDED = "superseded", "superseded"


class RevisionCause(models.TextChoices):
    CHANGE = "change", "change"
    SCALE = "scale", "scale"
    ROLLBACK = "rollback", "rollback"
    AUTOMATIC_ROLLBACK = "automatic-rollback", "automatic rollback"


class RolloutStrategy(models.TextChoices):
    SURGE = "surge", "surge"
    REPLACE = "replace", "replace"


class Endpoint(models.Model):
    """What only an endpoint has: which revision is wanted, which is applied to the cluster, and which has proved itself."""

    workload = models.OneToOneField(
        Workload, on_delete=models.CASCADE, primary_key=True, related_name="endpoint"
    )
    revision = models.PositiveIntegerField(default=1)
    target = models.PositiveIntegerField(
        default=1,
        help_text="The revision that the cluster was told; an older one than is wanted while that waits.",
    )
    stable_revision = models.PositiveIntegerField(null=True, help_text="The last one that was fully ready.")

    scaler_paused = models.BooleanField(
        default=False, help_text="Whether somebody holds the number of replicas as it is."
    )
    paused_replicas = models.PositiveIntegerField(
        null=True, help_text="What it is held at; null: at whatever it had."
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="endpoint_held_while_paused",
                condition=models.Q(scaler_paused=True) | models.Q(paused_replicas__isnull=True),
            ),
            models.CheckConstraint(
                name="endpoint_revisions_in_order",
                condition=models.Q(target__lte=models.F("revision"))
                & (
                    models.Q(stable_revision__isnull=True)
                    | models.Q(stable_revision__lte=models.F("revision"))
                ),
            ),
        ]

    @override
    def __str__(self) -> str:
        return self.workload.name

    @property
    def current(self) -> EndpointRevision:
        return self.revisions.get(number=self.revision)

    @property
    def applied(self) -> EndpointRevision:
        """The revision that was applied to the cluster last."""
        return self.revisions.get(number=self.target)

    @property
    def serving(self) -> int:
        """The revision whose pods answer: the last that was fully ready, or, where none was, the applied one."""
        return self.stable_revision or self.target

    @property
    def to_tell(self) -> EndpointRevision:
        """The revision to apply to the cluster: the one that is wanted, unless that is held back."""
        current = self.current
        return current if current.held_until is None else self.applied

    @property
    def parsed(self) -> EndpointSpec:
        return EndpointSpec.from_json(self.current.spec)

    def spec_of(self, revision: EndpointRevision) -> EndpointSpec:
        """The spec that the cluster gets by the revision: an older one keeps its pods, with the size that is wanted now."""
        return revision.parsed if revision.number == self.revision else revision.sized_as(self.current)

    @property
    def untold(self) -> list[EndpointRevision]:
        """The applied revision and all since then; their sizes may have been applied meanwhile."""
        return list(self.revisions.filter(number__gte=self.target))

    def is_held(self, spec: EndpointSpec) -> bool:
        """Whether a user holds the scaler that it has by `spec`; there is nothing to hold where nothing scales it."""
        return self.scaler_paused and spec.scales

    def held_at(self, spec: EndpointSpec) -> int | None:
        """Replicas that it is held at, never above the most of `spec`; None where no number is set."""
        if self.paused_replicas is None or not self.is_held(spec):
            return None
        return min(self.paused_replicas, spec.max_replicas)

    def bound_hold(self, spec: EndpointSpec) -> None:
        """Hold it at no more than `spec` allows from now on, and not at all where nothing scales it then.

        The caller has locked the workload's row.
        """
        own = Endpoint.objects.filter(pk=self.pk)
        if spec.scales:
            own.filter(paused_replicas__gt=spec.max_replicas).update(paused_replicas=spec.max_replicas)
        else:
            own.update(scaler_paused=False, paused_replicas=None)
        self.refresh_from_db(fields=["scaler_paused", "paused_replicas"])


class EndpointRevision(models.Model):
    """One version of an endpoint's spec, which is never edited, and how its rollout went."""

    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="revisions")
    number = models.PositiveIntegerField()
    spec = models.JSONField()
    actor = models.CharField(max_length=150)
    created_at = models.DateTimeField()
    cause = models.CharField(max_length=20, choices=RevisionCause.choices, default=RevisionCause.CHANGE.value)
    returns_to = models.PositiveIntegerField(null=True, help_text="Of a rollback: whose spec it has.")
    pods_of = models.PositiveIntegerField(
        default=0, help_text="The revision whose pods it has, itself or an older one; 0 where no label tells."
    )
    strategy = models.CharField(
        max_length=8, choices=RolloutStrategy.choices, default=RolloutStrategy.SURGE.value
    )
    state = models.CharField(
        max_length=12, choices=RevisionState.choices, default=RevisionState.PENDING.value
    )
    message = models.TextField(default="", blank=True)
    started_at = models.DateTimeField(null=True)
    live_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    updated = models.PositiveIntegerField(default=0, help_text="Its pods, as last seen.")
    ready = models.PositiveIntegerField(default=0, help_text="Those of them that were ready.")
    total = models.PositiveIntegerField(default=0, help_text="Replicas that were wanted.")
    load_seconds = models.PositiveIntegerField(
        null=True, help_text="The longest that a pod of it took from its node to being ready."
    )
    down_since = models.DateTimeField(null=True, help_text="Since when no replica has answered.")
    tries = models.PositiveIntegerField(default=0, help_text="How often it found no room.")
    held_until = models.DateTimeField(
        null=True, help_text="Taken back because it found no room; when it is tried again."
    )

    class Meta:
        ordering = ["-number"]
        constraints = [models.UniqueConstraint(fields=["endpoint", "number"], name="revision_number_unique")]

    @override
    def __str__(self) -> str:
        return f"revision {self.number}"

    @property
    def parsed(self) -> EndpointSpec:
        return EndpointSpec.from_json(self.spec)

    @property
    def is_current(self) -> bool:
        """Whether it is the one that is wanted."""
        return self.number == self.endpoint.revision

    @property
    def is_stable(self) -> bool:
        """Whether it is the last one that was fully ready."""
        return self.number == self.endpoint.stable_revision

    def sized_as(self, wanted: EndpointRevision) -> EndpointSpec:
        """Its pods, and the size of the revision that is wanted."""
        return EndpointSpec.from_json(with_size_of(self.spec, wanted.spec))


class ScaleSample(models.Model):
    """How many replicas there were at a moment, and what their scaler went by; kept for some days."""

    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="samples")
    at = models.DateTimeField()
    desired = models.PositiveIntegerField(help_text="Replicas that the Deployment was told.")
    ready = models.PositiveIntegerField()
    minimum = models.PositiveIntegerField()
    maximum = models.PositiveIntegerField()
    metric = models.FloatField(null=True, help_text="The scaler's newest value, in the unit of `target`.")
    target = models.FloatField(null=True)
    reason = models.CharField(
        max_length=63, default="", blank=True, help_text="Why the scaler held this number, in its own word."
    )

    class Meta:
        ordering = ["-at", "-id"]
        indexes = [
            models.Index(fields=["endpoint", "-at"], name="scale_sample_newest"),
            models.Index(fields=["at"], name="scale_sample_oldest"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.ready} of {self.desired} at {self.at:%Y-%m-%dT%H:%M:%SZ}"
