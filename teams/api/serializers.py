"""The shapes of people in the REST API."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from foundation.http.serializers import StrictSerializer
from foundation.models import (
    GANG_SCHEDULERS,
    RETENTION_DAYS_MIN,
    PlatformSettings,
    validate_image,
    validate_server_url,
)
from foundation.optional_kinds import optional_kinds
from teams.credentials import TOKEN_DAYS_DEFAULT, TOKEN_DAYS_MAX
from teams.models import ApiToken, AuditEvent, Membership, Team, validate_slug, validate_web_address
from teams.permissions import has_global_role
from teams.platform_settings import SETTINGS_CHANGEABLE

ROLES = Membership.Role.choices
COHORT_LENGTH_MAX = 63
GLOBAL_ROLES = [("platform-admin", "platform-admin"), ("quota-manager", "quota-manager")]


class TeamRefSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="public_id")
    slug = serializers.CharField()
    name = serializers.CharField()


class TeamSerializer(serializers.ModelSerializer[Team]):
    id = serializers.UUIDField(source="public_id", read_only=True)
    namespace = serializers.CharField(source="namespace_name", read_only=True)
    cohort = serializers.CharField(source="cohort_name", read_only=True)

    class Meta:
        model = Team
        fields = [
            "id", "slug", "name", "cohort", "namespace", "pod_security", "mlflow_tracking_uri", "version", "created_at",
        ]  # fmt: skip
        read_only_fields = fields


class TeamCreateSerializer(StrictSerializer):
    slug = serializers.CharField(max_length=40, validators=[validate_slug])
    name = serializers.CharField(max_length=100)
    cohort = serializers.CharField(
        source="cohort_name",
        max_length=COHORT_LENGTH_MAX,
        required=False,
        allow_blank=True,
        help_text="Name of a cohort that exists; empty for none.",
    )
    namespace = serializers.CharField(
        max_length=63,
        validators=[validate_slug],
        required=False,
        allow_null=True,
        help_text="An existing namespace to use instead of team-<slug>.",
    )
    pod_security = serializers.ChoiceField(choices=Team.PodSecurity.choices, required=False)
    mlflow_tracking_uri = serializers.CharField(
        max_length=500, validators=[validate_web_address], required=False, allow_blank=True
    )


class TeamUpdateSerializer(StrictSerializer):
    """`name` and `mlflow_tracking_uri` for leads, `cohort` for quota managers, `pod_security` for platform admins. Slug and namespace never change."""

    slug = serializers.CharField(read_only=True)
    namespace = serializers.CharField(read_only=True)
    name = serializers.CharField(max_length=100, required=False)
    cohort = serializers.CharField(
        source="cohort_name",
        max_length=COHORT_LENGTH_MAX,
        required=False,
        allow_blank=True,
        help_text="Name of a cohort that exists; empty for none.",
    )
    pod_security = serializers.ChoiceField(choices=Team.PodSecurity.choices, required=False)
    mlflow_tracking_uri = serializers.CharField(
        max_length=500, validators=[validate_web_address], required=False, allow_blank=True
    )


class MemberSerializer(serializers.Serializer[Membership]):
    username = serializers.CharField(source="user.username")
    name = serializers.CharField(source="user.get_full_name")
    role = serializers.ChoiceField(choices=ROLES)
    created_at = serializers.DateTimeField()


class MemberCreateSerializer(StrictSerializer):
    username = serializers.CharField(max_length=150)
    role = serializers.ChoiceField(choices=ROLES)


class MemberUpdateSerializer(StrictSerializer):
    username = serializers.CharField(read_only=True)
    role = serializers.ChoiceField(choices=ROLES)


class TokenSerializer(serializers.ModelSerializer[ApiToken]):
    id = serializers.UUIDField(source="public_id", read_only=True)
    team = serializers.CharField(source="team.slug", read_only=True, allow_null=True, default=None)
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=ApiToken.Scope.choices), read_only=True
    )

    class Meta:
        model = ApiToken
        fields = [
            "id", "name", "prefix", "team", "scopes", "created_at", "expires_at", "revoked_at", "last_used_at",
        ]  # fmt: skip
        read_only_fields = fields


class TokenWithSecretSerializer(TokenSerializer):
    """The only answer that ever holds the secret."""

    secret = serializers.CharField(read_only=True)

    class Meta(TokenSerializer.Meta):
        fields = [*TokenSerializer.Meta.fields, "secret"]
        read_only_fields = fields


class TokenCreateSerializer(StrictSerializer):
    name = serializers.CharField(max_length=100)
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=ApiToken.Scope.choices), min_length=1, max_length=3
    )
    expires_in_days = serializers.IntegerField(
        min_value=1, max_value=TOKEN_DAYS_MAX, required=False, default=TOKEN_DAYS_DEFAULT
    )
    team = serializers.CharField(
        max_length=40, required=False, allow_null=True, help_text="When set, the token sees this team only."
    )


class TokenExchangeSerializer(TokenCreateSerializer):
    username = serializers.CharField(max_length=150)
    password = serializers.CharField(max_length=4096, trim_whitespace=False, write_only=True)


class MyMembershipSerializer(serializers.Serializer[Membership]):
    team = TeamRefSerializer()
    role = serializers.ChoiceField(choices=ROLES)


class CallerSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    username = serializers.CharField()
    name = serializers.CharField(allow_blank=True)
    email = serializers.CharField(allow_blank=True)
    roles = serializers.ListField(child=serializers.ChoiceField(choices=GLOBAL_ROLES))
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=ApiToken.Scope.choices))
    token = TokenSerializer(allow_null=True)
    memberships = MyMembershipSerializer(many=True)


class OptionalKindsField(serializers.ListField):
    """A choice of what the installed apps offer, which is known only when all of them are ready: DRF makes the field again
    for every serializer.
    """

    def __init__(self, *, each_once: bool = False, **kwargs: Any) -> None:
        names = optional_kinds()
        most = len(names) if each_once else None
        super().__init__(child=serializers.ChoiceField(choices=names), max_length=most, **kwargs)


class SettingsSerializer(serializers.ModelSerializer[PlatformSettings]):
    """The settings that have an effect."""

    gang_scheduler = serializers.CharField(help_text="Empty where admission alone keeps gangs together.")
    optional_kinds = OptionalKindsField()
    scaler_prometheus_url = serializers.CharField(help_text="Empty where scalers ask where the portal asks.")

    class Meta:
        model = PlatformSettings
        fields = SETTINGS_CHANGEABLE


class SettingsUpdateSerializer(StrictSerializer):
    minimum_run_seconds = serializers.IntegerField(min_value=0, max_value=30 * 86_400, required=False)
    grace_seconds = serializers.IntegerField(min_value=0, max_value=86_400, required=False)
    fair_share_half_life_hours = serializers.IntegerField(min_value=1, max_value=10 * 8766, required=False)
    default_time_limit_seconds = serializers.IntegerField(min_value=60, max_value=30 * 86_400, required=False)
    image_pull_deadline_seconds = serializers.IntegerField(min_value=1, max_value=86_400, required=False)
    schedule_deadline_seconds = serializers.IntegerField(min_value=1, max_value=86_400, required=False)
    log_retention_days = serializers.IntegerField(min_value=1, max_value=3650, required=False)
    record_retention_days = serializers.IntegerField(
        min_value=RETENTION_DAYS_MIN, max_value=36_500, required=False
    )
    estimate_retention_days = serializers.IntegerField(
        min_value=RETENTION_DAYS_MIN, max_value=36_500, required=False
    )
    git_image = serializers.CharField(max_length=512, validators=[validate_image], required=False)
    storage_image = serializers.CharField(max_length=512, validators=[validate_image], required=False)
    spot_fallback_seconds = serializers.IntegerField(min_value=1, max_value=30 * 86_400, required=False)
    gang_scheduler = serializers.ChoiceField(choices=["", *GANG_SCHEDULERS], required=False)
    scaler_prometheus_url = serializers.CharField(
        max_length=200, validators=[validate_server_url], required=False, allow_blank=True
    )
    dcgm_labels = serializers.ChoiceField(choices=PlatformSettings.DcgmLabels.choices, required=False)
    optional_kinds = OptionalKindsField(required=False, each_once=True)
    password_exchange = serializers.BooleanField(required=False)


class AuditEventSerializer(serializers.ModelSerializer[AuditEvent]):
    id = serializers.UUIDField(source="public_id", read_only=True)
    actor = serializers.CharField(source="actor_label", read_only=True)
    team = serializers.SerializerMethodField()
    ip = serializers.SerializerMethodField()
    token = serializers.SerializerMethodField()

    class Meta:
        model = AuditEvent
        fields = [
            "id", "at", "actor", "token", "ip", "request_id", "action", "target_kind", "target_id", "team",
            "before", "after", "reason",
        ]  # fmt: skip
        read_only_fields = fields

    def get_team(self, event: AuditEvent) -> str | None:
        return event.team_slug or None

    @extend_schema_field(
        {"type": "string", "nullable": True, "description": "Own address; all for platform admins."}
    )
    def get_ip(self, event: AuditEvent) -> str | None:
        return event.ip if self._sees_origin(event) else None

    @extend_schema_field({"type": "string", "nullable": True, "description": "The public part of the token."})
    def get_token(self, event: AuditEvent) -> str | None:
        return event.token.prefix if event.token and self._sees_origin(event) else None

    def _sees_origin(self, event: AuditEvent) -> bool:
        user = self.context["request"].user
        return bool(event.actor_id == user.pk or has_global_role(user, "platform-admin"))
