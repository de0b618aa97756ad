"""REST for batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.response import Response
from typing_extensions import override

from console.api.response_serializers import WaitingSerializer, WorkloadSerializer
from console.api.workloads import WorkloadViewSet, command, previewed
from controller import services
from foundation import clock
from foundation.http.idempotency import idempotent
from teams.actors import actor_of
from teams.permissions import team_for
from tests.examples.batch_inference.models import BatchInference
from tests.examples.batch_inference.serializers import BatchInferenceSerializer
from tests.examples.batch_inference.services import preview_batch, submit_batch
from tests.examples.batch_inference.specs import KIND
from workloads.models import Workload


class BatchViewSet(WorkloadViewSet):
    kind = KIND
    spec_key = "workload_id"

    @override
    def spec_rows(self, workloads: Sequence[Workload]) -> QuerySet[BatchInference]:
        return BatchInference.objects.filter(workload__in=workloads)

    @extend_schema(request=BatchInferenceSerializer, responses={201: WorkloadSerializer})
    @idempotent()
    def create(self, request: Any) -> Response:
        """Submit a batch. 201 also when it has to wait; 422 when it could never start."""
        body = BatchInferenceSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        now = clock.now()
        batch = submit_batch(
            spec=body.to_spec(),
            team=team_for(request.user, body.validated_data["team"], field="team"),
            actor=actor_of(request),
            now=now,
            replaces=body.replaced_id,
        )
        return self.made(batch.workload.public_id, now=now)

    @extend_schema(request=BatchInferenceSerializer, responses=WaitingSerializer)
    @action(detail=False, methods=["post"])
    def preview(self, request: Any) -> Response:
        """What submitting this body would do now; makes nothing."""
        return previewed(request, BatchInferenceSerializer(data=request.data), preview_batch)

    @command
    def cancel(self, workload: Workload, request: Any) -> None:
        """Stop it for good."""
        services.cancel(workload=workload, actor=actor_of(request), now=clock.now())
