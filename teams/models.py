"""Users, teams and who did what."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from django.contrib.auth.models import AbstractUser
from django.core.validators import RegexValidator
from django.db import models
from django.db.models.functions import Lower
from typing_extensions import override

from foundation import clock, ids
from foundation.pod_security import PodSecurity
from foundation.validators import validate_image_prefixes
from teams.workload_policy import default_egress, validate_allowed_labels, validate_egress

if TYPE_CHECKING:
    from django.db.models.base import Model

SLUG_PATTERN = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
SLUG_LENGTH_MAX = 40
NAMESPACE_LENGTH_MAX = 63
TARGET_NAME_LENGTH_MAX = 200
OWN_NAMESPACE = "team-"

validate_slug = RegexValidator(
    r"\A[a-z]([-a-z0-9]*[a-z0-9])?\Z",
    "Lower-case letters, digits and hyphens; begins with a letter and does not end in a hyphen.",
    code="invalid_slug",
)


validate_web_address = RegexValidator(
    r"\Ahttps?://[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[-A-Za-z0-9._~%/]*)?\Z",
    "An address such as https://mlflow.example.org, without credentials.",
    code="invalid_url",
)


class User(AbstractUser):
    """A person or a service account. Never deleted once there is history: deactivated."""

    public_id = models.UUIDField(default=ids.new_public_id, unique=True, editable=False)
    is_quota_manager = models.BooleanField(
        "quota manager", default=False, help_text="Sees every team; sets quotas, prices and budgets."
    )
    is_platform_admin = models.BooleanField(
        "platform admin", default=False, help_text="Sees and manages everything, this console included."
    )

    # Set by token authentication on the instance of the request: a token of one team sees that team only,
    # and carries none of its user's global roles.
    bound_team_id: int | None = None

    class Meta(AbstractUser.Meta):
        constraints = [
            models.UniqueConstraint(
                Lower("username"),
                name="user_username_unique_any_case",
                violation_error_message="A user with that username already exists.",
            ),
        ]

    @override
    def has_perm(self, perm: str, obj: Model | None = None) -> bool:
        """The permission check of Django's own admin; a platform admin may do everything that an admin page offers."""
        return (self.is_active and self.is_platform_admin) or super().has_perm(perm, obj)

    @override
    def has_module_perms(self, app_label: str) -> bool:
        return (self.is_active and self.is_platform_admin) or super().has_module_perms(app_label)


class TeamState(models.TextChoices):
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


class Team(models.Model):
    """People who share quota, a budget and a namespace."""

    public_id = models.UUIDField(default=ids.new_public_id, unique=True, editable=False)
    slug = models.CharField(max_length=SLUG_LENGTH_MAX, unique=True, validators=[validate_slug])
    name = models.CharField(max_length=100)
    cohort_name = models.CharField(max_length=100, blank=True, default="")
    namespace = models.CharField(
        max_length=NAMESPACE_LENGTH_MAX,
        null=True,
        blank=True,
        unique=True,
        validators=[validate_slug],
        help_text="An existing namespace to use instead of team-<slug>.",
    )
    pod_security = models.CharField(
        max_length=16,
        choices=PodSecurity.choices,
        default=PodSecurity.AUTOMATIC,
        help_text="The profile of Pod Security that its namespace enforces; automatic: baseline where it may run as root, else "
        "the platform's.",
    )
    mlflow_tracking_uri = models.CharField(
        max_length=500,
        blank=True,
        default="",
        validators=[validate_web_address],
        help_text="Address of the team's MLflow server, which its runs find in their environment.",
    )
    may_run_as_root = models.BooleanField(
        default=False, help_text="Whether requests may set run_as_user to 0; needs Pod Security baseline."
    )
    egress = models.JSONField(
        default=default_egress,
        blank=True,
        validators=[validate_egress],
        help_text="What its pods may reach beside name service, their own run and the portal: everywhere (but the metadata "
        "service, the API server and the portal's stores), metadata, api-server, stores, or networks (CIDR).",
    )
    image_prefixes = models.JSONField(
        default=list,
        blank=True,
        validators=[validate_image_prefixes],
        help_text="Registries or beginnings of image names that requests may use, such as ghcr.io/acme; empty: any.",
    )
    allowed_labels = models.JSONField(
        default=list,
        blank=True,
        validators=[validate_allowed_labels],
        help_text="Labels of meshes and workload identity that requests may set: keys, or domains for all keys below.",
    )
    version = models.PositiveBigIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    closing_since = models.DateTimeField(
        null=True,
        blank=True,
        editable=False,
        help_text="Since when it takes nothing new, and what it has is ended.",
    )
    closed_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="When the last of it had ended."
    )
    closed_by = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, editable=False, related_name="+"
    )
    closing_reason = models.TextField(default="", db_default="", blank=True, editable=False)

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(closed_at__isnull=True) | models.Q(closing_since__isnull=False),
                name="team_closed_after_closing",
            ),
            models.CheckConstraint(
                condition=models.Q(closing_since__isnull=True) | ~models.Q(closing_reason=""),
                name="team_closing_has_reason",
            ),
            models.CheckConstraint(condition=models.Q(slug__regex=SLUG_PATTERN), name="team_slug_format"),
            models.CheckConstraint(
                condition=models.Q(namespace__isnull=True) | models.Q(namespace__regex=SLUG_PATTERN),
                name="team_namespace_format",
            ),
            models.CheckConstraint(
                condition=models.Q(pod_security__in=PodSecurity.values),
                name="team_pod_security_known",
            ),
        ]

    @override
    def __str__(self) -> str:
        return self.slug

    @property
    def namespace_name(self) -> str:
        """The Kubernetes namespace of this team."""
        return self.namespace or f"{OWN_NAMESPACE}{self.slug}"

    @property
    def state(self) -> TeamState:
        """Whether it takes work, is being closed, or is closed."""
        if self.closing_since is None:
            return TeamState.OPEN
        return TeamState.CLOSING if self.closed_at is None else TeamState.CLOSED


class Membership(models.Model):
    """A user's place in a team; leaving deletes the row, the audit trail remembers it."""

    class Role(models.TextChoices):
        VIEWER = "viewer"
        MEMBER = "member"
        LEAD = "lead"

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.MEMBER)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["team", "user"], name="membership_once_per_team"),
            models.CheckConstraint(
                condition=models.Q(role__in=["viewer", "member", "lead"]), name="membership_role_known"
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.team}"


class ApiToken(models.Model):
    """A bearer token, of which only the SHA-256 is kept. Revoked, never deleted."""

    class Scope(models.TextChoices):
        READ = "read"
        SUBMIT = "submit"
        MANAGE = "manage"

    public_id = models.UUIDField(default=ids.new_public_id, unique=True, editable=False)
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="api_tokens")
    team = models.ForeignKey(
        Team,
        on_delete=models.CASCADE,
        null=True,
        blank=True,
        related_name="api_tokens",
        help_text="When set, the token sees this team only.",
    )
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16, help_text="The public part, to recognise a token by.")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField(default=clock.now, editable=False)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoked_by = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="tokens_revoked"
    )
    last_used_at = models.DateTimeField(null=True, blank=True)
    made_with = models.ForeignKey(
        "self",
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
        editable=False,
        help_text="The token that asked for this one; revoked with it.",
    )

    class Meta:
        verbose_name = "API token"
        verbose_name_plural = "API tokens"
        indexes = [models.Index(fields=["user", "-id"], name="api_token_of_user")]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(revoked_by__isnull=True) | models.Q(revoked_at__isnull=False),
                name="api_token_revoker_needs_time",
            ),
            models.CheckConstraint(
                condition=models.Q(expires_at__gt=models.F("created_at")),
                name="api_token_expires_after_creation",
            ),
            models.CheckConstraint(
                condition=models.Q(digest__regex="^[0-9a-f]{64}$"), name="api_token_digest_is_sha256"
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    def is_live(self, now: datetime) -> bool:
        """Whether the token itself opens anything at `now`; its user may still be inactive."""
        return self.revoked_at is None and now < self.expires_at


class SignInLink(models.Model):
    """A one-time way in, handed out by an admin or by the demo; only its SHA-256 is kept."""

    digest = models.CharField(max_length=64, unique=True, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="sign_in_links")
    created_at = models.DateTimeField(default=clock.now, editable=False)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(used_at__isnull=True) | models.Q(used_at__lt=models.F("expires_at")),
                name="sign_in_link_used_while_valid",
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"link for {self.user}"


class LiveTicket(models.Model):
    """A way in to the live process, once; only the SHA-256 of its text is kept. See teams.tickets."""

    digest = models.CharField(max_length=64, unique=True, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    token = models.ForeignKey(ApiToken, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    session_key = models.CharField(max_length=40, blank=True, default="", editable=False)
    purpose = models.CharField(max_length=32)
    resource = models.TextField(blank=True, default="")
    expires_at = models.DateTimeField(db_index=True)
    used_at = models.DateTimeField(null=True, blank=True)

    @override
    def __str__(self) -> str:
        return f"{self.purpose} for {self.user}"


class SecretName(models.Model):
    """A Secret that the team's runs and endpoints may name: which keys it has, and never what is in them."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="secret_names")
    name = models.CharField(max_length=253)
    keys = models.JSONField(default=list)
    written_here = models.BooleanField(
        default=True, help_text="Whether the portal wrote the values; else it only knows of the Secret."
    )
    created_at = models.DateTimeField(default=clock.now, editable=False)
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    updated_at = models.DateTimeField(default=clock.now)
    updated_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["team", "name"], name="secret_name_once_per_team"),
            models.CheckConstraint(condition=~models.Q(keys=[]), name="secret_name_has_keys"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.name} of {self.team}"


class AuditEvent(models.Model):
    """One change: who, what, when, from where, before and after. A trigger refuses UPDATE and DELETE.

    The team's foreign key is not enforced, so that the trail outlives a deleted team; its slug is copied. `target_name` is
    what people called the target then.
    """

    public_id = models.UUIDField(default=ids.new_public_id, unique=True, editable=False)
    at = models.DateTimeField()
    actor = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="audit_events"
    )
    actor_label = models.CharField(max_length=200)
    token = models.ForeignKey(
        ApiToken, on_delete=models.DO_NOTHING, null=True, blank=True, related_name="+", db_constraint=False
    )
    ip = models.GenericIPAddressField(null=True, blank=True)
    request_id = models.CharField(max_length=64, blank=True, default="")
    action = models.CharField(max_length=64)
    target_kind = models.CharField(max_length=64)
    target_id = models.CharField(max_length=64)
    target_name = models.CharField(max_length=TARGET_NAME_LENGTH_MAX, blank=True, default="")
    team = models.ForeignKey(
        Team, on_delete=models.DO_NOTHING, null=True, blank=True, related_name="+", db_constraint=False
    )
    team_slug = models.CharField(max_length=SLUG_LENGTH_MAX, blank=True, default="")
    before = models.JSONField(null=True, blank=True)
    after = models.JSONField(null=True, blank=True)
    reason = models.TextField(blank=True, default="")

    class Meta:
        indexes = [
            models.Index(fields=["team", "-id"], name="audit_event_of_team"),
            models.Index(fields=["target_kind", "target_id", "-id"], name="audit_event_of_target"),
            models.Index(fields=["-at", "-id"], name="audit_event_by_time"),
            models.Index(fields=["actor_label", "-at", "-id"], name="audit_event_by_actor"),
            models.Index(fields=["target_name", "-at", "-id"], name="audit_event_by_target_name"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.action} {self.target_kind} {self.target_id} by {self.actor_label}"


class AuditCount(models.Model):
    """How often the same was seen in an hour, of what strangers can cause at will: the trail gets the first, then sums."""

    window = models.DateTimeField()
    digest = models.CharField(max_length=64)
    times = models.PositiveBigIntegerField(default=1)
    noted = models.PositiveBigIntegerField(default=0, help_text="How many the trail already tells of.")
    event = models.JSONField(help_text="The audit event, of which only the number is open.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["window", "digest"], name="audit_count_once_per_hour")]

    @override
    def __str__(self) -> str:
        return f"{self.times} times {self.event.get('action')}"
