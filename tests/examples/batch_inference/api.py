"""REST for batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from typing_extensions import override

from console.api import response_serializers as output
from console.api import workloads as shared
from console.api.logs import WorkloadLogsView
from foundation import clock
from foundation.http.idempotency import idempotent
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.permissions import team_for
from tests.examples.batch_inference.models import BatchInference
from tests.examples.batch_inference.serializers import BatchInferenceSerializer
from tests.examples.batch_inference.services import preview_batch, submit_batch
from tests.examples.batch_inference.specs import KIND
from workloads.models import Workload


class OfBatches(shared.OfKind):
    kind = KIND
    spec_key = "workload_id"

    @override
    def spec_rows(self, workloads: Sequence[Workload]) -> QuerySet[BatchInference]:
        return BatchInference.objects.filter(workload__in=workloads)


class BatchListView(OfBatches, shared.WorkloadListView):
    @extend_schema(
        parameters=[shared.EXPAND],
        responses=output.WorkloadRowSerializer(many=True),
        operation_id="batch_inferences_list",
    )
    def get(self, request: Any) -> Response:
        """The batches that the caller may see, newest first."""
        return self.list_page()

    @extend_schema(request=BatchInferenceSerializer, responses={201: output.WorkloadSerializer})
    @idempotent()
    def post(self, request: Any) -> Response:
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
        answer = self.answer([self.find(request.user, batch.workload.public_id)], now=now)[0]
        return Response(answer, status=201, headers={"Location": answer["links"]["self"]})


class BatchPreviewView(PortalView):
    """What submitting this body would do now; makes nothing."""

    @extend_schema(request=BatchInferenceSerializer, responses=output.WaitingSerializer)
    def post(self, request: Any) -> Response:
        return shared.previewed(request, BatchInferenceSerializer(data=request.data), preview_batch)


class BatchDetailView(OfBatches, shared.WorkloadDetailView):
    """One batch, and its end."""


class BatchCancelView(OfBatches, shared.WorkloadCancelView):
    """Stop it for good."""


class BatchEventsView(OfBatches, shared.WorkloadEventsView):
    """The batch's history."""


class BatchPodsView(OfBatches, shared.WorkloadPodsView):
    """The batch's pods."""


class BatchManifestsView(OfBatches, shared.WorkloadManifestsView):
    """The batch's objects."""


class BatchWaitingView(OfBatches, shared.WorkloadWaitingView):
    """Why the batch waits."""


class BatchCostView(OfBatches, shared.WorkloadCostView):
    """What the batch costs."""


class BatchLogsView(OfBatches, WorkloadLogsView):
    """The batch's logs."""
