"""Who may call an endpoint with a token of its own, and how often endpoints are called, by the minute."""

from __future__ import annotations

from datetime import datetime

from django.contrib.postgres.fields import ArrayField
from django.db import models
from typing_extensions import override

from foundation import ids
from teams.models import User
from workloads.models import Workload


class EndpointToken(models.Model):
    """A bearer token that calls one endpoint through the gateway and opens nothing else; only its SHA-256 is kept.

    It belongs to the endpoint and not to its maker: it outlives their membership, and ends with the endpoint.
    """

    public_id = models.UUIDField(default=ids.new_public_id, unique=True, editable=False)
    endpoint = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="endpoint_tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16, help_text="The public part, to recognise a token by.")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="endpoint_tokens")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoked_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(revoked_by__isnull=True) | models.Q(revoked_at__isnull=False),
                name="endpoint_token_revoker_needs_time",
            ),
            models.CheckConstraint(
                condition=models.Q(expires_at__gt=models.F("created_at")),
                name="endpoint_token_expires_after_creation",
            ),
            models.CheckConstraint(
                condition=models.Q(digest__regex="^[0-9a-f]{64}$"), name="endpoint_token_digest_is_sha256"
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    def is_live(self, now: datetime) -> bool:
        """Whether it opens anything at `now`, as far as the token itself goes."""
        return self.revoked_at is None and now < self.expires_at


class RequestCount(models.Model):
    """Requests to one revision of an endpoint that ended within one minute with one class of status (2 for 2xx …).

    A refusal of the gateway's own counts, and a caller that hung up (as 4); `latency` holds those alone of which the
    endpoint was asked and could answer.
    """

    endpoint = models.ForeignKey(Workload, on_delete=models.CASCADE, related_name="request_counts")
    revision = models.PositiveIntegerField(default=0, help_text="0 where it is not known.")
    minute = models.DateTimeField(help_text="Its beginning.")
    status_class = models.PositiveSmallIntegerField()
    count = models.PositiveBigIntegerField()
    milliseconds_sum = models.PositiveBigIntegerField()
    latency = ArrayField(
        models.PositiveBigIntegerField(),
        default=list,
        help_text="How many took how long, by the bounds of gateway.latency.",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["endpoint", "minute", "revision", "status_class"], name="request_count_once_a_minute"
            ),
            models.CheckConstraint(
                name="request_count_status_class", condition=models.Q(status_class__range=(1, 5))
            ),
        ]
        indexes = [models.Index(fields=["minute"], name="request_count_expiry")]

    @override
    def __str__(self) -> str:
        return f"{self.count} of {self.status_class}xx in {self.minute:%Y-%m-%dT%H:%MZ}"
