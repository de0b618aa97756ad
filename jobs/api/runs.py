"""REST for training runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.response import Response
from typing_extensions import override

from console.api.response_serializers import SubmittedSerializer, WaitingSerializer, WorkloadSerializer
from console.api.workloads import WorkloadViewSet, command, previewed
from controller import services
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
from teams.permissions import team_for
from workloads.models import Workload
from workloads.states import Priority


class TrainingRunViewSet(WorkloadViewSet):
    kind = KIND
    spec_key = "workload_id"

    @override
    def spec_rows(self, workloads: Sequence[Workload]) -> QuerySet[TrainingRun]:
        return TrainingRun.objects.filter(workload__in=workloads)

    def run(self, public_id: UUID) -> TrainingRun:
        """The run, or NotFound, which is also what a stranger is told."""
        rows = TrainingRun.objects.select_related("workload__team")
        return rows.get(workload=self.find(self.request.user, public_id))

    @extend_schema(request=TrainingRunSerializer, responses={201: SubmittedSerializer})
    @idempotent()
    def create(self, request: Any) -> Response:
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
        hints = hints_of(body.to_spec(), team, sized=run.parsed)
        return self.made(run.workload.public_id, hints=hints, now=now)

    @extend_schema(request=TrainingRunSerializer, responses=WaitingSerializer)
    @action(detail=False, methods=["post"])
    def preview(self, request: Any) -> Response:
        """What submitting this body would do now; makes nothing."""
        return previewed(request, TrainingRunSerializer(data=request.data), preview_training_run)

    @extend_schema(request=ImportSerializer, responses=ImportedSerializer)
    @action(detail=False, methods=["post"], url_path="import", url_name="import")
    def import_(self, request: Any) -> Response:
        """Read a manifest of a Job or PyTorchJob as a request, or name what has no place; makes nothing."""
        imported = import_manifest(self.read(ImportSerializer)["manifest"], user=request.user)
        dropped = [{"path": path, "why": why} for path, why in imported.dropped.items()]
        shown = {"request": imported.request, "dropped": dropped, "problems": imported.problems}
        return Response(ImportedSerializer(shown).data)

    @extend_schema(request=TrainingRunPatchSerializer, responses=WorkloadSerializer)
    def partial_update(self, request: Any, public_id: UUID) -> Response:
        """Change the priority while it waits, or the time limit while it lives."""
        now = clock.now()
        run = self.run(public_id)
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

    @command
    def cancel(self, workload: Workload, request: Any) -> None:
        """Stop it for good."""
        services.cancel(workload=workload, actor=actor_of(request), now=clock.now())

    @command
    def suspend(self, workload: Workload, request: Any) -> None:
        """Stop it, free its GPUs and keep it."""
        services.suspend(workload=workload, actor=actor_of(request), now=clock.now())

    @command
    def resume(self, workload: Workload, request: Any) -> None:
        """Queue a suspended run again."""
        services.resume(workload=workload, actor=actor_of(request), now=clock.now())

    @extend_schema(request=RetrySerializer, responses={201: WorkloadSerializer})
    @action(detail=True, methods=["post"])
    @idempotent()
    def retry(self, request: Any, public_id: UUID) -> Response:
        """Submit the same spec again, as a new run; with `from_checkpoint` it goes on where this one left off."""
        now = clock.now()
        origin = self.run(public_id)
        copy = submit_training_run(
            spec=origin.parsed,
            team=origin.workload.team,
            actor=actor_of(request),
            now=now,
            origin=origin,
            from_checkpoint=self.read(RetrySerializer)["from_checkpoint"],
        )
        return self.made(copy.workload.public_id, now=now)

    @extend_schema(request=CloneSerializer, responses={201: WorkloadSerializer})
    @action(detail=True, methods=["post"])
    @idempotent()
    def clone(self, request: Any, public_id: UUID) -> Response:
        """Submit the spec with edits (a JSON merge patch), as a new run with a name of its own."""
        now = clock.now()
        origin = self.run(public_id)
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
        return self.made(copy.workload.public_id, now=now)
