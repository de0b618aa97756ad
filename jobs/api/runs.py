"""REST for training runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from django.db.models import F, Q, QuerySet
from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.response import Response
from typing_extensions import override

from console.api.bulk import BulkActions, BulkFilterSerializer, BulkSerializer
from console.api.response_serializers import SubmittedSerializer, WorkloadSerializer
from console.api.waits import Waits, wait_parameter
from console.api.workloads import ENDED, command, previewed
from controller import services
from controller.hints import hints_of, money_hints
from foundation import clock
from foundation.http.chosen import FIELDS
from foundation.http.etag import expected_versions
from foundation.http.filters import Filter, uuid
from foundation.http.idempotency import idempotent
from jobs.adapter import KIND
from jobs.copy_serializers import CloneSerializer, RetrySerializer, clone_request
from jobs.importing import ImportedSerializer, ImportSerializer, import_manifest
from jobs.models import TrainingRun
from jobs.serializers import TrainingRunPatchSerializer
from jobs.services import preview_training_run, submit_training_run, update_training_run
from jobs.specs import TrainingRunSpec
from jobs.sweeps.answers import PreviewSerializer, SweepSerializer, shown
from jobs.sweeps.card import preview_sweep
from jobs.sweeps.queries import detail_of
from jobs.sweeps.serializers import RunOrSweepSerializer
from jobs.sweeps.services import submit_sweep
from teams.actors import actor_of
from teams.permissions import team_for
from telemetry.api import GpuMetricsAction
from telemetry.waste_api import RightSizeAction
from workloads.models import Workload
from workloads.states import Priority

RUN_OR_SWEEP = PolymorphicProxySerializer(
    component_name="SubmittedRunOrSweep",
    serializers=[SubmittedSerializer, SweepSerializer],
    resource_type_field_name=None,
)
SWEEP_FILTER = Filter(
    lookup="training_run__sweep__public_id",
    parse=uuid("").parse,
    where=lambda values: Q(
        pk__in=TrainingRun.objects.filter(sweep__public_id=values[0]).values("workload_id")
    ),
    description="The members of that sweep.",
    schema={"type": "string", "format": "uuid"},
)

_OF_SWEEP: Final = {
    "sweep_id": F("training_run__sweep__public_id"),
    "sweep_name": F("training_run__sweep__name"),
    "sweep_number": F("training_run__number"),
    "sweep_parameters": F("training_run__parameters"),
}
FILTERS = {**BulkActions.filters, "sweep": SWEEP_FILTER}
WAITS: Final[Waits] = {"started": lambda workload: workload.started_at is not None, **ENDED}


class RunBulkFilterSerializer(BulkFilterSerializer):
    """The filters of the list of runs, at least one."""

    filters = FILTERS


class RunBulkSerializer(BulkSerializer):
    """What to do with all runs that fit a filter."""

    filter = RunBulkFilterSerializer()


@extend_schema_view(
    retrieve=extend_schema(parameters=[wait_parameter(WAITS)]),
    bulk=extend_schema(request=RunBulkSerializer),
    bulk_preview=extend_schema(request=RunBulkSerializer),
)
class TrainingRunViewSet(GpuMetricsAction, RightSizeAction, BulkActions):
    kind = KIND
    spec_key = "workload_id"
    filters = FILTERS
    bulk_body = RunBulkSerializer
    expensive = frozenset({"import_"})
    waits = WAITS

    @override
    def spec_rows(self, workloads: Sequence[Workload]) -> QuerySet[TrainingRun]:
        return TrainingRun.objects.filter(workload__in=workloads)

    @override
    def rows(self) -> QuerySet[Workload]:
        # The live process has no request: it answers one run, for which the place costs nothing.
        asked = self.request.GET.get(FIELDS) if hasattr(self, "request") else None
        told = asked is None or "sweep" in asked.split(",")
        return super().rows().annotate(**_OF_SWEEP) if told else super().rows()

    @override
    def of_kind(self, workload: Workload) -> Mapping[str, Any]:
        if not hasattr(workload, "sweep_id"):
            return {}
        found = {name: getattr(workload, f"sweep_{name}") for name in ("id", "name", "number", "parameters")}
        return {"sweep": found if found["id"] else None}

    def run(self, public_id: UUID) -> TrainingRun:
        """The run, or NotFound, which is also what a stranger is told."""
        rows = TrainingRun.objects.select_related("workload__team")
        return rows.get(workload=self.find(self.request.user, public_id))

    @extend_schema(request=RunOrSweepSerializer, responses={201: RUN_OR_SWEEP})
    @idempotent()
    def create(self, request: Any) -> Response:
        """Submit a run, or a sweep with `matrix`. 201 also when it has to wait; 422 when it could never start."""
        body = RunOrSweepSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        now = clock.now()
        team = team_for(request.user, body.validated_data["team"], field="team")
        if (matrix := body.matrix_asked) is not None:
            sweep = submit_sweep(
                spec=body.to_spec(),
                matrix=matrix,
                asked=body.validated_data["matrix"],
                team=team,
                actor=actor_of(request),
                now=now,
            )
            return self.created(SweepSerializer(detail_of(sweep, now=now)).data, sweep.resource_url)
        run = submit_training_run(
            spec=body.to_spec(),
            team=team,
            actor=actor_of(request),
            now=now,
            replaces=body.replaced_id,
        )
        spec = body.to_spec()
        hints = [*money_hints(run.parsed, team=team, now=now), *hints_of(spec, sized=run.parsed)]
        return self.made(run.workload.public_id, hints=hints, now=now)

    @extend_schema(request=RunOrSweepSerializer, responses=PreviewSerializer)
    @action(detail=False, methods=["post"])
    def preview(self, request: Any) -> Response:
        """What submitting this run, or sweep, would do now; makes nothing."""
        body = RunOrSweepSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        if (matrix := body.matrix_asked) is None:
            return Response({**previewed(request, body, preview_training_run).data, "sweep": None})
        card = preview_sweep(
            spec=body.to_spec(),
            matrix=matrix,
            team=team_for(request.user, body.validated_data["team"], field="team"),
            user=request.user,
            now=clock.now(),
        )
        return Response(shown(card))

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
        """Change the priority while it waits, the time limit while it lives, the labels at any time.

        Labels are replaced as a whole. Its objects in the cluster keep those with which it was submitted.
        """
        now = clock.now()
        run = self.run(public_id)
        values = self.read(TrainingRunPatchSerializer)
        update_training_run(
            run=run,
            priority=Priority(values["priority"]) if "priority" in values else None,
            time_limit_seconds=values.get("time_limit_seconds"),
            labels=values.get("labels"),
            actor=actor_of(request),
            now=now,
            expected_versions=expected_versions(request),
        )
        return self.one(self.find(request.user, public_id), now=now)

    @command
    def cancel(self, workload: Workload, request: Any) -> None:
        """Cancel a run for good."""
        services.cancel(workload=workload, actor=actor_of(request), now=clock.now())

    @command
    def suspend(self, workload: Workload, request: Any) -> None:
        """Suspend a run: its GPUs are freed, and it can be resumed."""
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
            spec=TrainingRunSpec.from_json(origin.request),
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
