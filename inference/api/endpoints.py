"""REST for endpoints."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response
from typing_extensions import override

from console.api import response_serializers, workloads
from console.api.logs import WorkloadLogsView
from foundation import clock
from foundation.http.etag import expected_versions
from foundation.http.idempotency import idempotent
from inference.api.revisions import EndpointApi
from inference.api.scaling_status import ScalingStateSerializer, described
from inference.autoscaling.checks import scaling_hints
from inference.autoscaling.services import pause_scaler, resume_scaler, scale_endpoint
from inference.autoscaling.state import scaling_of, slept
from inference.hints import hints_of
from inference.models import Endpoint
from inference.serializers import EndpointSerializer, PauseSerializer, ScaleSerializer, changed_request
from inference.services import deploy_endpoint, merge_update, preview_endpoint
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.permissions import check_can_submit, team_for
from workloads.models import Workload


class EndpointListView(EndpointApi, workloads.WorkloadListView):
    @extend_schema(
        parameters=[workloads.EXPAND],
        responses=response_serializers.WorkloadRowSerializer(many=True),
        operation_id="endpoints_list",
    )
    def get(self, request: Any) -> Response:
        """The endpoints that the caller may see, newest first."""
        return self.list_page()

    @extend_schema(request=EndpointSerializer, responses={201: response_serializers.SubmittedSerializer})
    @idempotent(atomic=False)
    def post(self, request: Any) -> Response:
        """Deploy an endpoint. 201 also when it has to wait; 422 when it could never start."""
        body = EndpointSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        now = clock.now()
        team = team_for(request.user, body.validated_data["team"], field="team")
        endpoint = deploy_endpoint(
            spec=body.to_spec(),
            team=team,
            actor=actor_of(request),
            now=now,
            replaces=body.replaced_id,
        )
        answer = self.answer([self.find(request.user, endpoint.workload.public_id)], now=now)[0]
        hints = [*hints_of(body.to_spec(), team, sized=endpoint.parsed), *scaling_hints(body.to_spec())]
        answer["warnings"] = [asdict(hint) for hint in hints]
        return Response(answer, status=201, headers={"Location": answer["links"]["self"]})


class EndpointPreviewView(PortalView):
    """What submitting this body would do now; makes nothing."""

    @extend_schema(request=EndpointSerializer, responses=response_serializers.WaitingSerializer)
    def post(self, request: Any) -> Response:
        return workloads.previewed(request, EndpointSerializer(data=request.data), preview_endpoint)


class EndpointDetailView(EndpointApi, workloads.WorkloadDetailView):
    @extend_schema(request=EndpointSerializer, responses=response_serializers.WorkloadSerializer)
    def patch(self, request: Any, public_id: UUID) -> Response:
        """A new revision: the fields that are sent replace those of the current one.

        Without If-Match that is the current one at the moment of the change: what others change meanwhile stays.
        409 `rollout_blocked` where its pods have no room beside the old ones: `options` holds the ways that are left,
        each with what to send along, and nothing was changed.
        """
        now = clock.now()
        workload = self.find(request.user, public_id)
        check_can_submit(request.user, workload.team)
        endpoint = Endpoint.objects.select_related("workload__team").get(workload=workload)
        team = workload.team.slug
        merge_update(
            endpoint=endpoint,
            merged=lambda spec: changed_request(request.data, current=spec, team=team).to_spec(),
            actor=actor_of(request),
            now=now,
            expected_versions=expected_versions(request),
        )
        return self.one(self.find(request.user, public_id), now=now)


class EndpointStopView(EndpointApi, workloads.WorkloadSuspendView):
    """Free its GPUs and keep it."""


class EndpointStartView(EndpointApi, workloads.WorkloadResumeView):
    """Queue a stopped endpoint again."""


class _ScalerView(EndpointApi):
    """POST changes how many replicas it has; the answer is the endpoint."""

    def told(self, request: Any, public_id: UUID) -> tuple[Endpoint, dict[str, Any]]:
        workload = self.find(request.user, public_id)
        check_can_submit(request.user, workload.team)
        body = self.get_serializer(data=request.data)
        body.is_valid(raise_exception=True)
        endpoint = Endpoint.objects.select_related("workload__team").get(workload=workload)
        return endpoint, body.validated_data

    def answered(self, request: Any, public_id: UUID) -> Response:
        return Response(self.answer([self.find(request.user, public_id)], now=clock.now())[0], status=202)


class EndpointScaleView(_ScalerView):
    serializer_class = ScaleSerializer

    @extend_schema(request=ScaleSerializer, responses={202: response_serializers.WorkloadSerializer})
    @idempotent()
    def post(self, request: Any, public_id: UUID) -> Response:
        """Other bounds for the number of replicas, without touching a pod. 409 where the quota does not give them."""
        endpoint, given = self.told(request, public_id)
        scale_endpoint(
            endpoint=endpoint,
            min_replicas=given.get("min_replicas"),
            max_replicas=given.get("max_replicas"),
            actor=actor_of(request),
            now=clock.now(),
            expected_versions=expected_versions(request),
        )
        return self.answered(request, public_id)


class EndpointPauseScalerView(_ScalerView):
    serializer_class = PauseSerializer

    @extend_schema(request=PauseSerializer, responses={202: response_serializers.WorkloadSerializer})
    @idempotent()
    def post(self, request: Any, public_id: UUID) -> Response:
        """Hold the number of replicas, whatever its load is."""
        endpoint, given = self.told(request, public_id)
        pause_scaler(
            endpoint=endpoint, replicas=given.get("replicas"), actor=actor_of(request), now=clock.now()
        )
        return self.answered(request, public_id)


class EndpointResumeScalerView(EndpointApi, workloads.CommandView):
    """Leave the number of replicas to its scaler again."""

    @override
    def command(self, workload: Workload, request: Any) -> None:
        endpoint = Endpoint.objects.select_related("workload__team").get(workload=workload)
        resume_scaler(endpoint=endpoint, actor=actor_of(request), now=clock.now())


class EndpointScalingView(EndpointApi):
    """How many replicas there are, what its scaler goes by, and what sleeping saves."""

    @extend_schema(responses=ScalingStateSerializer)
    def get(self, request: Any, public_id: UUID) -> Response:
        workload = self.find(request.user, public_id)
        endpoint = Endpoint.objects.get(workload=workload)
        spec = endpoint.parsed
        scaling = scaling_of(endpoint, spec, newest=endpoint.samples.first())
        told = described(scaling, slept(workload, spec, now=clock.now()))
        return Response(ScalingStateSerializer(told).data)


class EndpointEventsView(EndpointApi, workloads.WorkloadEventsView):
    """The endpoint's history."""


class EndpointPodsView(EndpointApi, workloads.WorkloadPodsView):
    """The endpoint's pods."""


class EndpointManifestsView(EndpointApi, workloads.WorkloadManifestsView):
    """The endpoint's objects."""


class EndpointWaitingView(EndpointApi, workloads.WorkloadWaitingView):
    """Why the endpoint waits."""


class EndpointDecisionsView(EndpointApi, workloads.WorkloadDecisionsView):
    """Why the endpoint was admitted, or had to wait: every verdict that was stored, newest first."""


class EndpointCostView(EndpointApi, workloads.WorkloadCostView):
    """What the endpoint costs."""


class EndpointLogsView(EndpointApi, WorkloadLogsView):
    """The endpoint's logs."""
