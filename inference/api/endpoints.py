"""REST for endpoints."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.decorators import action
from rest_framework.response import Response

from console.api.response_serializers import SubmittedSerializer, WaitingSerializer, WorkloadSerializer
from console.api.waits import Waits, wait_parameter
from console.api.workloads import ENDED, WorkloadViewSet, command, previewed
from controller import services
from foundation import clock
from foundation.http.etag import expected_versions
from foundation.http.idempotency import idempotent
from foundation.http.query import check_query_parameters
from inference.api.revisions import EndpointApi, RollbackSerializer
from inference.api.scaling_status import ScalingStateSerializer
from inference.autoscaling.services import pause_scaler, resume_scaler, scale_endpoint
from inference.autoscaling.state import scaling_of, slept
from inference.models import Endpoint
from inference.serializers import EndpointSerializer, PauseSerializer, ScaleSerializer, changed_request
from inference.services import deploy_with_hints, merge_update, preview_endpoint, roll_back
from teams.actors import actor_of
from teams.api.base import PART
from teams.permissions import check_can_submit, team_for
from workloads.models import Workload
from workloads.states import Phase, Reason

_NOT_YET = {Reason.WAKING.value, Reason.UPDATING.value}


def _is_ready(workload: Workload) -> bool:
    own: Endpoint = workload.endpoint
    answers = workload.phase == Phase.RUNNING.value and workload.reason not in _NOT_YET
    return answers and own.stable_revision == own.revision


WAITS: Final[Waits] = {"ready": _is_ready, **ENDED}


def _may_deploy(request: Any) -> None:
    body = EndpointSerializer(data=request.data)
    body.is_valid(raise_exception=True)
    check_can_submit(request.user, team_for(request.user, body.validated_data["team"], field="team"))


@extend_schema_view(retrieve=extend_schema(parameters=[wait_parameter(WAITS)]))
class EndpointViewSet(EndpointApi, WorkloadViewSet):
    waits = WAITS

    @extend_schema(request=EndpointSerializer, responses={201: SubmittedSerializer})
    @idempotent(judge=_may_deploy)
    def create(self, request: Any) -> Response:
        """Deploy an endpoint. 201 also when it has to wait; 422 when it could never start."""
        body = EndpointSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        now = clock.now()
        team = team_for(request.user, body.validated_data["team"], field="team")
        endpoint, hints = deploy_with_hints(
            spec=body.to_spec(),
            team=team,
            actor=actor_of(request),
            now=now,
            replaces=body.replaced_id,
        )
        return self.made(endpoint.workload.public_id, hints=list(hints), now=now)

    @extend_schema(request=EndpointSerializer, responses=WaitingSerializer)
    @action(detail=False, methods=["post"])
    def preview(self, request: Any) -> Response:
        """What deploying this endpoint would do now; makes nothing."""
        return previewed(request, EndpointSerializer(data=request.data), preview_endpoint)

    @extend_schema(request=EndpointSerializer, responses=WorkloadSerializer)
    def partial_update(self, request: Any, public_id: UUID) -> Response:
        """A new revision: the fields that are sent replace those of the current one.

        Without If-Match that is the current one at the moment of the change: what others change meanwhile stays.
        409 `rollout_blocked` where its pods have no room beside the old ones: `options` holds the ways that are left,
        each with what to send along, and nothing was changed.
        """
        now = clock.now()
        endpoint = self.own(public_id)
        team = endpoint.workload.team.slug
        merge_update(
            endpoint=endpoint,
            merged=lambda spec: changed_request(request.data, current=spec, team=team).to_spec(),
            actor=actor_of(request),
            now=now,
            expected_versions=expected_versions(request),
        )
        return self.one(self.find(request.user, public_id), now=now)

    def own(self, public_id: UUID) -> Endpoint:
        """The endpoint, which the caller may change. Raises NotFound and NotAllowed, before any body is read."""
        endpoint = self.endpoint(public_id)
        check_can_submit(self.request.user, endpoint.workload.team)
        return endpoint

    @command
    def stop(self, workload: Workload, request: Any) -> None:
        """Stop an endpoint: its GPUs are freed, and it can be started again."""
        services.suspend(workload=workload, actor=actor_of(request), now=clock.now())

    @command
    def start(self, workload: Workload, request: Any) -> None:
        """Queue a stopped endpoint again."""
        services.resume(workload=workload, actor=actor_of(request), now=clock.now())

    @extend_schema(request=ScaleSerializer, responses={202: WorkloadSerializer})
    @action(detail=True, methods=["post"], honours_if_match=frozenset({"post"}))
    @idempotent()
    def scale(self, request: Any, public_id: UUID) -> Response:
        """Other bounds for the number of replicas, without touching a pod. 409 where the quota does not give them."""
        endpoint, now = self.own(public_id), clock.now()
        bounds = self.read(ScaleSerializer)
        scale_endpoint(
            endpoint=endpoint,
            min_replicas=bounds.get("min_replicas"),
            max_replicas=bounds.get("max_replicas"),
            actor=actor_of(request),
            now=now,
            expected_versions=expected_versions(request),
        )
        return self.accepted(public_id, now=now)

    @extend_schema(request=PauseSerializer, responses={202: WorkloadSerializer})
    @action(detail=True, methods=["post"], url_path="pause-scaler")
    @idempotent()
    def pause_scaler(self, request: Any, public_id: UUID) -> Response:
        """Hold the number of replicas, whatever its load is."""
        endpoint, now = self.own(public_id), clock.now()
        replicas = self.read(PauseSerializer).get("replicas")
        pause_scaler(endpoint=endpoint, replicas=replicas, actor=actor_of(request), now=now)
        return self.accepted(public_id, now=now)

    @command
    def resume_scaler(self, workload: Workload, request: Any) -> None:
        """Leave the number of replicas to its scaler again."""
        endpoint = Endpoint.objects.select_related("workload__team").get(workload=workload)
        resume_scaler(endpoint=endpoint, actor=actor_of(request), now=clock.now())

    @extend_schema(responses=ScalingStateSerializer)
    @action(detail=True, **PART)
    def scaling(self, request: Any, public_id: UUID) -> Response:
        """How many replicas there are, what its scaler goes by, and what sleeping saves."""
        check_query_parameters(request, ())
        workload = self.find(request.user, public_id)
        endpoint = Endpoint.objects.get(workload=workload)
        spec = endpoint.parsed
        scaling = scaling_of(endpoint, spec, newest=endpoint.samples.first())
        state = {**vars(scaling), "slept": slept(workload, spec, now=clock.now())}
        return Response(ScalingStateSerializer(state).data)

    @extend_schema(request=RollbackSerializer, responses={202: WorkloadSerializer})
    @action(detail=True, methods=["post"], honours_if_match=frozenset({"post"}))
    @idempotent()
    def rollback(self, request: Any, public_id: UUID) -> Response:
        """Go back to an older revision, by default the last that was ready before the current one.

        It becomes a new revision; how many replicas there are stays as it is. 409 `rollout_blocked` as for a change.
        """
        endpoint, now = self.endpoint(public_id), clock.now()
        values = self.read(RollbackSerializer)
        roll_back(
            endpoint=endpoint,
            number=values.get("revision"),
            rollout=values.get("rollout"),
            actor=actor_of(request),
            now=now,
            expected_versions=expected_versions(request),
        )
        return self.accepted(public_id, now=now)
