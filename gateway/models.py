"""Who may call an endpoint with a token of its own, and how often endpoints are called, by the minute."""

from __future__ import annotations

from datetime import datetime

from django.contrib.postgres.fields import ArrayField
from django.db import models
from typing_extensions import override

from foundation import ids
from teams.models import Membership, User
from teams.permissions import role_in, role_of_member, role_with
from workloads.models import Workload


class TokenEnd(models.TextChoices):
    """Why a token of an endpoint opens nothing, as REST and pages say it."""

    REVOKED = "revoked", "revoked"
    EXPIRED = "expired", "expired"
    ENDPOINT_OVER = "endpoint_over", "its endpoint is over"
    MAKER_INACTIVE = "maker_inactive", "who made it is not active"
    MAKER_LEFT = "maker_left", "who made it left the team"
    MAKER_ROLE = "maker_role", "who made it is only a viewer now"


class EndpointTokens(models.QuerySet["EndpointToken"]):
    def with_makers(self) -> EndpointTokens:
        """With all that `EndpointToken.end_at` looks at."""
        rows = self.select_related("created_by", "endpoint__team")
        return rows.annotate(maker_membership=role_of_member("created_by", "endpoint__team"))


class EndpointToken(models.Model):
    """A bearer token that calls one endpoint through the gateway and opens nothing else; only its SHA-256 is kept.

    It opens no more than its maker may: it ends with the endpoint, and with the right of its maker to make one.
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

    objects = EndpointTokens.as_manager()

    end: TokenEnd | None = None
    """What `end_at` said, where `queries.judged` asked it."""

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

    def end_at(self, now: datetime) -> TokenEnd | None:
        """Why it opens nothing at `now`; None while it does. Of one that was not read `with_makers` this is a query."""
        if self.revoked_at is not None:
            return TokenEnd.REVOKED
        if now >= self.expires_at:
            return TokenEnd.EXPIRED
        if self.endpoint.is_final:
            return TokenEnd.ENDPOINT_OVER
        if not self.created_by.is_active:
            return TokenEnd.MAKER_INACTIVE
        role = self._role_of_maker()
        if role is None:
            return TokenEnd.MAKER_LEFT
        return TokenEnd.MAKER_ROLE if role == Membership.Role.VIEWER else None

    def _role_of_maker(self) -> str | None:
        team = self.endpoint.team
        if hasattr(self, "maker_membership"):
            return role_with(self.maker_membership, self.created_by, team)
        return role_in(self.created_by, team)


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
