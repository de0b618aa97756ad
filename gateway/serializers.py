"""Tokens of endpoints and what was counted, as REST shows them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from foundation import clock
from foundation.http.serializers import StrictSerializer
from gateway.credentials import NAME_LENGTH_MAX, TOKEN_DAYS_DEFAULT, TOKEN_DAYS_MAX
from gateway.models import EndpointToken, TokenEnd
from gateway.series import CallSeries, Summary
from telemetry.serializers import GpuSeriesSerializer


class EndpointTokenSerializer(serializers.ModelSerializer[EndpointToken]):
    id = serializers.UUIDField(source="public_id", read_only=True)
    created_by = serializers.CharField(source="created_by.username", read_only=True)
    ended_because = serializers.SerializerMethodField(
        help_text="Why it opens nothing; null while it does. What rests on its maker's rights may open again with them."
    )

    class Meta:
        model = EndpointToken
        fields = [
            "id", "name", "prefix", "created_by", "created_at", "expires_at", "revoked_at", "last_used_at",
            "ended_because",
        ]  # fmt: skip
        read_only_fields = fields

    @extend_schema_field(serializers.ChoiceField(choices=TokenEnd.choices, allow_null=True))
    def get_ended_because(self, token: EndpointToken) -> str | None:
        """By the rights of this moment."""
        end = token.end_at(clock.now())
        return None if end is None else end.value


class TeamEndpointTokenSerializer(EndpointTokenSerializer):
    endpoint = serializers.UUIDField(source="endpoint.public_id", read_only=True)
    endpoint_name = serializers.CharField(source="endpoint.name", read_only=True)

    class Meta(EndpointTokenSerializer.Meta):
        fields = [*EndpointTokenSerializer.Meta.fields, "endpoint", "endpoint_name"]
        read_only_fields = fields


class EndpointTokenWithSecretSerializer(EndpointTokenSerializer):
    """The only answer that ever holds the secret."""

    secret = serializers.CharField(read_only=True)

    class Meta(EndpointTokenSerializer.Meta):
        fields = [*EndpointTokenSerializer.Meta.fields, "secret"]
        read_only_fields = fields


class EndpointTokenCreateSerializer(StrictSerializer):
    name = serializers.CharField(max_length=NAME_LENGTH_MAX)
    expires_in_days = serializers.IntegerField(
        min_value=1, max_value=TOKEN_DAYS_MAX, required=False, default=TOKEN_DAYS_DEFAULT
    )


class RequestsSerializer(serializers.Serializer[Any]):
    requests = serializers.IntegerField()
    classes = serializers.DictField(
        child=serializers.IntegerField(), help_text="By class of status, such as 2xx; 4xx holds 499, hung up."
    )
    p50_ms = serializers.FloatField(allow_null=True)
    p95_ms = serializers.FloatField(allow_null=True)
    p99_ms = serializers.FloatField(allow_null=True)


class RequestPointSerializer(RequestsSerializer):
    at = serializers.DateTimeField()
    revision = serializers.IntegerField(help_text="0 where it is not known.")


class RevisionRequestsSerializer(RequestsSerializer):
    revision = serializers.IntegerField()


class RequestSeriesSerializer(serializers.Serializer[Any]):
    step_seconds = serializers.IntegerField()
    points = RequestPointSerializer(many=True, help_text="Steps without a request are left out.")
    revisions = RevisionRequestsSerializer(many=True)
    total = RequestsSerializer()


class EndpointMetricsSerializer(serializers.Serializer[Any]):
    """`requests` is what the gateway counted, `gpus` what DCGM measured of the replicas' cards."""

    requests = RequestSeriesSerializer()
    gpus = GpuSeriesSerializer()


def shown_series(series: CallSeries) -> dict[str, Any]:
    """As `RequestSeriesSerializer` describes it."""
    return {
        "step_seconds": int(series.step.total_seconds()),
        "points": [
            {"at": point.at, "revision": point.revision, **_shown(point.summary)} for point in series.points
        ],
        "revisions": [
            {"revision": number, **_shown(summary)} for number, summary in series.revisions.items()
        ],
        "total": _shown(series.total),
    }


def _shown(summary: Summary) -> dict[str, Any]:
    return {
        "requests": summary.requests,
        "classes": {f"{status_class}xx": count for status_class, count in summary.classes.items()},
        "p50_ms": _milliseconds(summary.p50),
        "p95_ms": _milliseconds(summary.p95),
        "p99_ms": _milliseconds(summary.p99),
    }


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
