"""REST for training runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from typing_extensions import override

from console.api import response_serializers
from console.api import workloads as detail_api
from console.api.logs import WorkloadLogsView
from controller.hints import hints_of
from foundation import clock
from foundation.http.etag import expected_versions
from foundation.http.idempotency import idempotent
from jobs.adapter import KIND
from jobs.copy_serializers import CloneSerializer, RetrySerializer, clone_request
from jobs.importing import ImportedSerializer, ImportSerializer, import_manifest
from jobs.models import TrainingRun
from jobs.serializers import TrainingRunPatchSerializer, TrainingRunSerializer
from jobs.services import preview_training_run, submit_training_run, update_training_run
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.permissions import team_for
from workloads.models import Workload
from workloads.states import Priority


class OfTrainingRuns(detail_api.OfKind):
    kind = KIND

    spec_key = "workload_id"

    @override
    def spec_rows(self, workloads: Sequence[Workload]) -> QuerySet[TrainingRun]:
        return TrainingRun.objects.filter(workload__in=workloads)


class TrainingRunListView(OfTrainingRuns, detail_api.WorkloadListView):
    @extend_schema(
        parameters=[detail_api.EXPAND],
        responses=response_serializers.WorkloadRowSerializer(many=True),
        operation_id="training_runs_list",
    )
    def get(self, request: Any) -> Response:
        """The runs that the caller may see, newest first."""
        return self.list_page()

    @extend_schema(request=TrainingRunSerializer, responses={201: response_serializers.SubmittedSerializer})
    @idempotent()
    def post(self, request: Any) -> Response:
        """Submit a run. 201 also when it has to wait; 422 when it could never start."""
        body = TrainingRunSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        now = clock.now()
        team = team_for(request.user, body.validated_data["team"], field="team")
        run = submit_training_run(
            spec=body.to_spec(),
            team=team,
            actor=actor_of(request),
            now=now,
            replaces=body.replaced_id,
        )
        answer = self.answer([self.find(request.user, run.workload.public_id)], now=now)[0]
        answer["warnings"] = [asdict(hint) for hint in hints_of(body.to_spec(), team, sized=run.parsed)]
        return Response(answer, status=201, headers={"Location": answer["links"]["self"]})


class TrainingRunPreviewView(PortalView):
    """What submitting this body would do now; makes nothing."""

    @extend_schema(request=TrainingRunSerializer, responses=response_serializers.WaitingSerializer)
    def post(self, request: Any) -> Response:
        return detail_api.previewed(request, TrainingRunSerializer(data=request.data), preview_training_run)


class TrainingRunDetailView(OfTrainingRuns, detail_api.WorkloadDetailView):
    @extend_schema(request=TrainingRunPatchSerializer, responses=response_serializers.WorkloadSerializer)
    def patch(self, request: Any, public_id: UUID) -> Response:
        """Change the priority while it waits, or the time limit while it lives."""
        now = clock.now()
        run = TrainingRun.objects.select_related("workload__team").get(
            workload=self.find(request.user, public_id)
        )
        values = self.read(TrainingRunPatchSerializer)
        update_training_run(
            run=run,
            priority=Priority(values["priority"]) if "priority" in values else None,
            time_limit_seconds=values.get("time_limit_seconds"),
            actor=actor_of(request),
            now=now,
            expected_versions=expected_versions(request),
        )
        return self.one(self.find(request.user, public_id), now=now)


class TrainingRunCancelView(OfTrainingRuns, detail_api.WorkloadCancelView):
    """Stop it for good."""


class TrainingRunSuspendView(OfTrainingRuns, detail_api.WorkloadSuspendView):
    """Stop it, free its GPUs and keep it."""


class TrainingRunResumeView(OfTrainingRuns, detail_api.WorkloadResumeView):
    """Queue a suspended run again."""


class TrainingRunEventsView(OfTrainingRuns, detail_api.WorkloadEventsView):
    """The run's history."""


class TrainingRunPodsView(OfTrainingRuns, detail_api.WorkloadPodsView):
    """The run's pods."""


class TrainingRunManifestsView(OfTrainingRuns, detail_api.WorkloadManifestsView):
    """The run's objects."""


class TrainingRunWaitingView(OfTrainingRuns, detail_api.WorkloadWaitingView):
    """Why the run waits."""


class TrainingRunDecisionsView(OfTrainingRuns, detail_api.WorkloadDecisionsView):
    """Why the run was admitted, or had to wait: every verdict that was stored, newest first."""


class TrainingRunCostView(OfTrainingRuns, detail_api.WorkloadCostView):
    """What the run costs."""


class TrainingRunLogsView(OfTrainingRuns, WorkloadLogsView):
    """The run's logs."""


class _CopyView(OfTrainingRuns):
    def run(self, user: Any, public_id: UUID) -> TrainingRun:
        rows = TrainingRun.objects.select_related("workload__team")
        return rows.get(workload=self.find(user, public_id))

    def made(self, run: TrainingRun, *, now: datetime) -> Response:
        answer = self.answer([self.find(self.request.user, run.workload.public_id)], now=now)[0]
        return Response(answer, status=201, headers={"Location": answer["links"]["self"]})


class TrainingRunRetryView(_CopyView):
    @extend_schema(request=RetrySerializer, responses={201: response_serializers.WorkloadSerializer})
    @idempotent()
    def post(self, request: Any, public_id: UUID) -> Response:
        """Submit the same spec again, as a new run; with `from_checkpoint` it goes on where this one left off."""
        now = clock.now()
        origin = self.run(request.user, public_id)
        copy = submit_training_run(
            spec=origin.parsed,
            team=origin.workload.team,
            actor=actor_of(request),
            now=now,
            origin=origin,
            from_checkpoint=self.read(RetrySerializer)["from_checkpoint"],
        )
        return self.made(copy, now=now)


class TrainingRunCloneView(_CopyView):
    @extend_schema(request=CloneSerializer, responses={201: response_serializers.WorkloadSerializer})
    @idempotent()
    def post(self, request: Any, public_id: UUID) -> Response:
        """Submit the spec with edits (a JSON merge patch), as a new run with a name of its own."""
        now = clock.now()
        origin = self.run(request.user, public_id)
        body, from_checkpoint = clone_request(origin, request.data)
        copy = submit_training_run(
            spec=body.to_spec(),
            team=team_for(request.user, body.validated_data["team"], field="team"),
            actor=actor_of(request),
            now=now,
            replaces=body.replaced_id,
            origin=origin,
            from_checkpoint=from_checkpoint,
        )
        return self.made(copy, now=now)


class TrainingRunImportView(PortalView):
    @extend_schema(request=ImportSerializer, responses=ImportedSerializer)
    def post(self, request: Any) -> Response:
        """Read a manifest of a Job or PyTorchJob as a request, or name what has no place; makes nothing."""
        found = import_manifest(self.read(ImportSerializer)["manifest"], user=request.user)
        shown = {
            "request": found.request,
            "dropped": [{"path": path, "why": why} for path, why in found.dropped.items()],
            "problems": found.problems,
        }
        return Response(ImportedSerializer(shown).data)
