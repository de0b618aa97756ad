"""The shapes of people in the REST API."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from foundation.http.serializers import StrictSerializer
from foundation.models import (
    GANG_SCHEDULERS,
    RETENTION_DAYS_MIN,
    PlatformSettings,
    validate_image,
    validate_jobs,
    validate_server_url,
)
from foundation.optional_kinds import optional_kinds
from foundation.pod_security import PodSecurity
from foundation.validators import validate_image_prefixes
from teams.credentials import TOKEN_DAYS_DEFAULT, TOKEN_DAYS_MAX
from teams.models import (
    ApiToken,
    AuditEvent,
    Membership,
    Team,
    TeamState,
    validate_slug,
    validate_web_address,
)
from teams.permissions import sees_origin
from teams.platform_settings import SETTINGS_CHANGEABLE
from teams.pod_security import level_of, level_of_platform
from teams.workload_policy import validate_allowed_labels, validate_egress

ROLES = Membership.Role.choices
COHORT_LENGTH_MAX = 63
GLOBAL_ROLES = [("platform-admin", "platform-admin"), ("quota-manager", "quota-manager")]


class TeamRefSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="public_id")
    slug = serializers.CharField()
    name = serializers.CharField()


class PolicyListField(serializers.ListField):
    """An array of texts, judged as a whole by the field's validator."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"child": serializers.CharField(), "required": False, **kwargs})


class WorkloadPolicySerializer(StrictSerializer):
    """What platform admins let a team's pods do."""

    may_run_as_root = serializers.BooleanField(
        required=False, help_text="Whether requests may set run_as_user to 0."
    )
    egress = PolicyListField(
        validators=[validate_egress],
        help_text="What pods may reach: everywhere, metadata, api-server, stores, or networks.",
    )
    image_prefixes = PolicyListField(
        validators=[validate_image_prefixes], help_text="Beginnings of the images allowed; empty: any."
    )
    allowed_labels = PolicyListField(
        validators=[validate_allowed_labels], help_text="Labels of meshes and workload identity allowed."
    )


class TeamSerializer(serializers.ModelSerializer[Team]):
    id = serializers.UUIDField(source="public_id", read_only=True)
    egress = serializers.ListField(child=serializers.CharField(), read_only=True)
    image_prefixes = serializers.ListField(child=serializers.CharField(), read_only=True)
    allowed_labels = serializers.ListField(child=serializers.CharField(), read_only=True)
    namespace = serializers.CharField(source="namespace_name", read_only=True)
    cohort = serializers.CharField(source="cohort_name", read_only=True)
    state = serializers.ChoiceField(
        choices=TeamState.choices,
        read_only=True,
        help_text="A team that is closing or closed takes nothing new.",
    )
    closing_reason = serializers.CharField(
        read_only=True, help_text="Why it is closed; empty while it is open."
    )
    pod_security_enforced = serializers.SerializerMethodField(
        help_text="The profile that the team's namespace enforces, or does from its next workload on; never `automatic`."
    )

    class Meta:
        model = Team
        fields = [
            "id", "slug", "name", "cohort", "namespace", "pod_security", "mlflow_tracking_uri", "version", "created_at",
            "may_run_as_root", "egress", "image_prefixes", "allowed_labels", "pod_security_enforced",
            "state", "closing_since", "closed_at", "closing_reason",
        ]  # fmt: skip
        read_only_fields = fields

    @cached_property
    def _of_platform(self) -> PodSecurity:
        """Asked once for all teams of a list."""
        return level_of_platform()

    def get_pod_security_enforced(self, team: Team) -> Literal["baseline", "restricted"]:
        level = level_of(team, platform=self._of_platform)
        return "restricted" if level == PodSecurity.RESTRICTED else "baseline"


class TeamCreateSerializer(WorkloadPolicySerializer):
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
    pod_security = serializers.ChoiceField(choices=PodSecurity.choices, required=False)
    mlflow_tracking_uri = serializers.CharField(
        max_length=500, validators=[validate_web_address], required=False, allow_blank=True
    )


class TeamUpdateSerializer(WorkloadPolicySerializer):
    """`name` and `mlflow_tracking_uri` for leads, `cohort` for quota managers, the rest for platform admins. Slug and namespace never change."""

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
    pod_security = serializers.ChoiceField(choices=PodSecurity.choices, required=False)
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
    dcgm_job = serializers.CharField(help_text="Empty where DCGM's metrics of any job count.")
    image_prefixes = serializers.ListField(
        child=serializers.CharField(), help_text="Of teams that have no list of their own; empty: any image."
    )

    class Meta:
        model = PlatformSettings
        fields = SETTINGS_CHANGEABLE


RATE_MAX = 2**31 - 1


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
    lost_work_credit_seconds = serializers.IntegerField(min_value=0, max_value=30 * 86_400, required=False)
    git_image = serializers.CharField(max_length=512, validators=[validate_image], required=False)
    storage_image = serializers.CharField(max_length=512, validators=[validate_image], required=False)
    spot_fallback_seconds = serializers.IntegerField(min_value=1, max_value=30 * 86_400, required=False)
    gang_scheduler = serializers.ChoiceField(choices=["", *GANG_SCHEDULERS], required=False)
    scaler_prometheus_url = serializers.CharField(
        max_length=200, validators=[validate_server_url], required=False, allow_blank=True
    )
    dcgm_labels = serializers.ChoiceField(choices=PlatformSettings.DcgmLabels.choices, required=False)
    dcgm_job = serializers.CharField(
        max_length=200, validators=[validate_jobs], required=False, allow_blank=True
    )
    image_prefixes = PolicyListField(validators=[validate_image_prefixes])
    pod_security = serializers.ChoiceField(choices=PodSecurity.choices, required=False)
    optional_kinds = OptionalKindsField(required=False, each_once=True)
    password_exchange = serializers.BooleanField(required=False)
    ceiling_cpus = serializers.IntegerField(
        min_value=0, max_value=1_000_000_000, required=False, allow_null=True
    )
    ceiling_memory_gib = serializers.IntegerField(
        min_value=0, max_value=1_000_000_000, required=False, allow_null=True
    )
    ceiling_ephemeral_storage_gib = serializers.IntegerField(
        min_value=0, max_value=1_000_000_000, required=False, allow_null=True
    )
    ceiling_pods = serializers.IntegerField(
        min_value=0, max_value=1_000_000_000, required=False, allow_null=True
    )
    ceiling_volumes = serializers.IntegerField(
        min_value=0, max_value=1_000_000_000, required=False, allow_null=True
    )
    ceiling_volume_storage_gib = serializers.IntegerField(
        min_value=0, max_value=1_000_000_000, required=False, allow_null=True
    )
    open_sweeps = serializers.IntegerField(min_value=0, max_value=100_000, required=False, allow_null=True)
    open_workloads = serializers.IntegerField(
        min_value=0, max_value=10_000_000, required=False, allow_null=True
    )
    team_log_gib = serializers.IntegerField(
        min_value=0, max_value=10_000_000, required=False, allow_null=True
    )
    reads_per_minute = serializers.IntegerField(min_value=1, max_value=RATE_MAX, required=False)
    writes_per_minute = serializers.IntegerField(min_value=1, max_value=RATE_MAX, required=False)
    expensive_per_minute = serializers.IntegerField(min_value=1, max_value=RATE_MAX, required=False)
    anonymous_per_minute = serializers.IntegerField(min_value=1, max_value=RATE_MAX, required=False)
    pages_per_minute = serializers.IntegerField(min_value=1, max_value=RATE_MAX, required=False)


class AuditEventSerializer(serializers.ModelSerializer[AuditEvent]):
    id = serializers.UUIDField(source="public_id", read_only=True)
    actor = serializers.CharField(source="actor_label", read_only=True)
    team = serializers.SerializerMethodField()
    ip = serializers.SerializerMethodField()
    token = serializers.SerializerMethodField()

    class Meta:
        model = AuditEvent
        fields = [
            "id", "at", "actor", "token", "ip", "request_id", "action", "target_kind", "target_id", "target_name", "team",
            "before", "after", "reason",
        ]  # fmt: skip
        read_only_fields = fields

    def get_team(self, event: AuditEvent) -> str | None:
        return event.team_slug or None

    @extend_schema_field(
        {"type": "string", "nullable": True, "description": "Own address; all for platform admins."}
    )
    def get_ip(self, event: AuditEvent) -> str | None:
        return event.ip if sees_origin(self.context["request"].user, event) else None

    @extend_schema_field({"type": "string", "nullable": True, "description": "The public part of the token."})
    def get_token(self, event: AuditEvent) -> str | None:
        return (
            event.token.prefix if event.token and sees_origin(self.context["request"].user, event) else None
        )
