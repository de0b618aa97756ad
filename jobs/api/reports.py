"""REST by which a run reports on itself, with the token of its attempt: checkpoints and progress."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import extend_schema, extend_schema_serializer
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import SAFE_METHODS
from rest_framework.response import Response
from typing_extensions import override

from console.api.workloads import OfKind
from controller.reconcile import run_tokens
from foundation import clock
from foundation.errors import NotAllowed, NotFound
from foundation.http.serializers import StrictSerializer
from jobs.adapter import KIND
from jobs.api.report_limits import BODY_BYTES_MAX, count_report
from jobs.sweeps.progress import report
from teams.api.authentication import TokenAuthentication, bearer_of
from teams.api.scopes import ScopePermission
from workloads.models import Attempt
from workloads.reports import report_checkpoint

STEP_MAX = 2**63 - 1
METRICS_MAX = 64


class RunPrincipal:
    """A run's own pod: it may report on its attempt, and nothing else anywhere."""

    is_authenticated = True
    is_active = True
    pk = None

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt


class RunTokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer mlr_…` of an attempt that has not ended."""

    @override
    def authenticate(self, request: Any) -> tuple[RunPrincipal, Attempt] | None:
        plain = bearer_of(request)
        if plain is None or not plain.startswith(run_tokens.PREFIX):
            return None
        rows = Attempt.objects.select_related("workload").filter(ended_at__isnull=True)
        attempt = rows.filter(run_token_digest=run_tokens.digest(plain)).first()
        if attempt is None:
            raise AuthenticationFailed(
                "The run token is unknown, or its attempt has ended.", code="invalid_token"
            )
        return RunPrincipal(attempt), attempt

    @override
    def authenticate_header(self, request: Any) -> str:
        return "Bearer"


class RunTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = RunTokenAuthentication
    name = "runToken"

    @override
    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "mlr_<secret>"}


class ReportPermission(ScopePermission):
    """People read; only the run itself writes, and only of itself."""

    @override
    def has_permission(self, request: Any, view: Any) -> bool:
        own = isinstance(request.user, RunPrincipal)
        if request.method in SAFE_METHODS:
            return False if own else super().has_permission(request, view)
        if not own:
            if super().has_permission(request, view):
                view.find(request.user, view.kwargs["public_id"])
            raise NotAllowed("Only the run itself reports, with its own token.", code="run_token_only")
        return True


@extend_schema_serializer(component_name="Checkpoint")
class ReportedCheckpointSerializer(serializers.Serializer[Any]):
    attempt = serializers.IntegerField(help_text="0: brought along from the run that this one goes on from.")
    step = serializers.IntegerField()
    path = serializers.CharField()
    at = serializers.DateTimeField()


class CheckpointWriteSerializer(StrictSerializer):
    step = serializers.IntegerField(min_value=0, max_value=STEP_MAX)
    path = serializers.CharField(max_length=4096)


class ProgressSerializer(serializers.Serializer[Any]):
    attempt = serializers.IntegerField()
    progress_percentage = serializers.FloatField(allow_null=True)
    estimated_remaining_seconds = serializers.IntegerField(allow_null=True)
    metrics = serializers.DictField(child=serializers.FloatField())
    at = serializers.DateTimeField()


class ProgressWriteSerializer(StrictSerializer):
    progress_percentage = serializers.FloatField(min_value=0, max_value=100, required=False, allow_null=True)
    estimated_remaining_seconds = serializers.IntegerField(
        min_value=0, max_value=2**31 - 1, required=False, allow_null=True
    )
    metrics = serializers.DictField(child=serializers.FloatField(), required=False)

    def validate_metrics(self, value: dict[str, float]) -> dict[str, float]:
        """At most 64 names of at most 100 characters."""
        if len(value) > METRICS_MAX or any(len(name) > 100 for name in value):
            raise serializers.ValidationError(
                f"At most {METRICS_MAX} metrics with names of at most 100 characters."
            )
        return value


class ReportsView(OfKind):
    """What people read of a run, and the run alone writes."""

    kind = KIND
    authentication_classes = [RunTokenAuthentication, TokenAuthentication, SessionAuthentication]
    permission_classes = [ReportPermission]
    ordering = "-id"
    body_bytes_max = BODY_BYTES_MAX

    def own_attempt(self, request: Any, public_id: UUID) -> Attempt:
        """The attempt whose token this is; NotFound if it is another run's."""
        attempt: Attempt = request.auth
        if attempt.workload.public_id != public_id:
            raise NotFound("There is no such run.")
        return attempt


class CheckpointsView(ReportsView):
    """Resume points that the run reported, newest first; the newest starts its next attempt."""

    serializer_class = ReportedCheckpointSerializer

    @extend_schema(
        operation_id="training_runs_checkpoints_list", responses=ReportedCheckpointSerializer(many=True)
    )
    def get(self, request: Any, public_id: UUID) -> Response:
        return self.page(self.find(request.user, public_id).checkpoints.all())

    @extend_schema(
        operation_id="training_runs_checkpoints_create",
        request=CheckpointWriteSerializer,
        responses={201: ReportedCheckpointSerializer},
    )
    def post(self, request: Any, public_id: UUID) -> Response:
        """Report a checkpoint; the same step again replaces its path. Of more than 1,000 of a run old ones are thinned.

        429 `too_many_reports` beyond 120 a minute.
        """
        attempt, now = self.own_attempt(request, public_id), clock.now()
        count_report(attempt=attempt, sort="checkpoints", now=now)
        kept = report_checkpoint(attempt=attempt, **self.read(CheckpointWriteSerializer), now=now)
        return Response(ReportedCheckpointSerializer(kept).data, status=201)


class ProgressView(ReportsView):
    """What the run last said of itself, one row an attempt, newest first."""

    serializer_class = ProgressSerializer

    @extend_schema(operation_id="training_runs_progress_list", responses=ProgressSerializer(many=True))
    def get(self, request: Any, public_id: UUID) -> Response:
        return self.page(self.find(request.user, public_id).progress_reports.all())

    @extend_schema(
        operation_id="training_runs_progress_create",
        request=ProgressWriteSerializer,
        responses={201: ProgressSerializer},
    )
    def post(self, request: Any, public_id: UUID) -> Response:
        """Report progress; it replaces what the attempt said before. 429 `too_many_reports` beyond 120 a minute."""
        attempt, now = self.own_attempt(request, public_id), clock.now()
        count_report(attempt=attempt, sort="progress", now=now)
        values = self.read(ProgressWriteSerializer)
        kept = report(
            attempt=attempt,
            progress_percentage=values.get("progress_percentage"),
            estimated_remaining_seconds=values.get("estimated_remaining_seconds"),
            metrics=values.get("metrics", {}),
            now=now,
        )
        return Response(ProgressSerializer(kept).data, status=201)
