"""REST of a run's outputs: the run reports them with its token, people read them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema, extend_schema_serializer
from rest_framework import serializers
from rest_framework.response import Response

from foundation import clock
from foundation.http.serializers import StrictSerializer
from jobs.api.report_limits import count_report
from jobs.api.reports import ReportsView
from jobs.outputs.services import found_outputs, report_output
from workloads.podspec import grammar
from workloads.podspec.fields import NumberField, TextField, WholeNumberField

METRICS_MAX = 16
METRIC_LENGTH_MAX = 100
SIZE_MAX = 2**63 - 1


@extend_schema_serializer(component_name="RunOutput")
class OutputSerializer(serializers.Serializer[Any]):
    path = serializers.CharField(source="row.path", help_text="In the run's pods.")
    size_bytes = serializers.IntegerField(source="row.size_bytes")
    metrics = serializers.DictField(source="row.metrics", child=serializers.FloatField())
    attempt = serializers.IntegerField(source="row.attempt")
    at = serializers.DateTimeField(source="row.at")
    claim = serializers.CharField(
        source="place.claim",
        default=None,
        allow_null=True,
        help_text="The volume that it lies in; null: in its pods alone.",
    )
    claim_path = serializers.CharField(
        source="place.inside",
        default=None,
        allow_null=True,
        help_text="From the volume's root; empty for all of it.",
    )
    fetch = serializers.CharField(
        allow_blank=True,
        help_text="kubectl commands that copy it, a line each; empty where it went with its pods.",
    )


class OutputWriteSerializer(StrictSerializer):
    path = TextField(check=grammar.folder, help_text="Absolute, of a file or a folder.")
    size_bytes = WholeNumberField(min_value=0, max_value=SIZE_MAX)
    metrics = serializers.DictField(child=NumberField(), required=False)

    def validate_metrics(self, value: dict[str, float]) -> dict[str, float]:
        """At most 16 names of at most 100 characters."""
        if len(value) > METRICS_MAX or any(len(name) > METRIC_LENGTH_MAX for name in value):
            raise serializers.ValidationError(
                f"At most {METRICS_MAX} metrics with names of at most {METRIC_LENGTH_MAX} characters."
            )
        return value


class OutputsView(ReportsView):
    """Files and folders that the run says it has written, newest first."""

    serializer_class = OutputSerializer

    @extend_schema(operation_id="training_runs_outputs_list", responses=OutputSerializer(many=True))
    def get(self, request: Any, public_id: UUID) -> Response:
        run = self.find(request.user, public_id)
        rows = self.paginate_queryset(self.filter_queryset(run.outputs.all())) or []
        told = self.get_serializer(list(found_outputs(run, rows)), many=True)
        return self.get_paginated_response(told.data)

    @extend_schema(
        operation_id="training_runs_outputs_create",
        request=OutputWriteSerializer,
        responses={201: OutputSerializer},
    )
    def post(self, request: Any, public_id: UUID) -> Response:
        """Report an output; the same path again replaces what was said of it.

        429 `too_many_reports` beyond 120 a minute, 422 `too_many_outputs` beyond 100 of a run.
        """
        attempt, now = self.own_attempt(request, public_id), clock.now()
        count_report(attempt=attempt, sort="outputs", now=now)
        values = self.read(OutputWriteSerializer)
        kept = report_output(attempt=attempt, **{"metrics": {}, **values}, now=now)
        (found,) = found_outputs(attempt.workload, [kept])
        return Response(OutputSerializer(found).data, status=201)
