"""REST of what the gateway keeps of an endpoint: its tokens and its request counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.response import Response

from foundation import clock
from foundation.digits import whole_number
from foundation.errors import NotFound
from foundation.http import filters
from foundation.http.idempotency import idempotent
from foundation.http.query import check_query_parameters, one, refuse
from gateway import queries, services
from gateway.models import EndpointToken
from gateway.serializers import (
    EndpointMetricsSerializer,
    EndpointTokenCreateSerializer,
    EndpointTokenSerializer,
    EndpointTokenWithSecretSerializer,
    TeamEndpointTokenSerializer,
    shown_series,
)
from gateway.series import POINTS_MAX, request_series, step_for
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.models import ApiToken
from teams.permissions import check_can_manage, check_can_submit, team_for
from telemetry.gpu_series import gpu_series
from telemetry.ranges import in_steps
from telemetry.serializers import shown_gpus
from workloads.models import Workload

_DEFAULT_RANGE: Final = timedelta(hours=1)
# Before any portal counted anything.
_FIRST: Final = datetime(2000, 1, 1, tzinfo=UTC)


class _OfEndpoint(PortalView):
    def find(self, public_id: UUID) -> Workload:
        """The endpoint, or NotFound, which is also the answer to a stranger."""
        return queries.endpoint_for(user=self.request.user, public_id=public_id)


class EndpointTokenListView(_OfEndpoint):
    queryset = EndpointToken.objects.none()
    serializer_class = EndpointTokenSerializer
    write_scope = ApiToken.Scope.MANAGE
    filters = {"name": filters.text("name")}
    ordering_fields = ("created_at", "expires_at", "last_used_at", "name")
    ordering = "-created_at"

    @extend_schema(
        operation_id="endpoint_tokens_list", tags=["endpoints"], responses=EndpointTokenSerializer(many=True)
    )
    def get(self, request: Any, public_id: UUID) -> Response:
        """The endpoint's tokens, without their values: each calls it through the gateway, and opens nothing else."""
        return self.page(queries.tokens_of(self.find(public_id)))

    @extend_schema(
        operation_id="endpoint_tokens_create",
        tags=["endpoints"],
        request=EndpointTokenCreateSerializer,
        responses={201: EndpointTokenWithSecretSerializer},
    )
    @idempotent(store_body=False)
    def post(self, request: Any, public_id: UUID) -> Response:
        """Make a token that calls this endpoint alone; its value is in this answer alone."""
        endpoint = self.find(public_id)
        check_can_submit(request.user, endpoint.team)
        values = self.read(EndpointTokenCreateSerializer)
        token, secret = services.create_endpoint_token(
            actor=actor_of(request), endpoint=endpoint, now=clock.now(), **values
        )
        token.secret = secret  # type: ignore[attr-defined]
        shown = EndpointTokenWithSecretSerializer(token).data
        return self.created(shown, f"{request.path}{token.public_id}/", holds_secret=True)


class EndpointTokenView(_OfEndpoint):
    queryset = EndpointToken.objects.none()
    serializer_class = EndpointTokenSerializer
    write_scope = ApiToken.Scope.MANAGE

    @extend_schema(operation_id="endpoint_tokens_read", tags=["endpoints"], responses=EndpointTokenSerializer)
    def get(self, request: Any, public_id: UUID, token_id: UUID) -> Response:
        """One token of the endpoint, without its value."""
        check_query_parameters(request, ())
        return Response(EndpointTokenSerializer(self._token(public_id, token_id)).data)

    @extend_schema(operation_id="endpoint_tokens_revoke", tags=["endpoints"], responses={204: None})
    def delete(self, request: Any, public_id: UUID, token_id: UUID) -> Response:
        """Revoke a token of the endpoint."""
        token = self._token(public_id, token_id)
        services.revoke_endpoint_token(actor=actor_of(request), token=token, now=clock.now())
        return Response(status=204)

    def _token(self, public_id: UUID, token_id: UUID) -> EndpointToken:
        tokens: QuerySet[EndpointToken] = queries.tokens_of(self.find(public_id))
        token = tokens.filter(public_id=token_id).first()
        if token is None:
            raise NotFound("The endpoint has no such token.")
        return token


class _OfLead(PortalView):
    queryset = EndpointToken.objects.none()
    serializer_class = TeamEndpointTokenSerializer
    write_scope = ApiToken.Scope.MANAGE

    def tokens(self, slug: str) -> QuerySet[EndpointToken]:
        """All of the team. Raises NotFound for a stranger, NotAllowed for who is no lead of it."""
        team = team_for(self.request.user, slug)
        check_can_manage(self.request.user, team)
        return queries.tokens_of_team(team)


class TeamEndpointTokenListView(_OfLead):
    filters = {
        "name": filters.text("name"),
        "created_by": filters.text("created_by__username"),
        "endpoint": filters.uuid("endpoint__public_id"),
    }
    ordering_fields = ("created_at", "expires_at", "last_used_at", "name")
    ordering = "-created_at"

    @extend_schema(
        operation_id="team_endpoint_tokens_list",
        tags=["endpoints"],
        responses=TeamEndpointTokenSerializer(many=True),
    )
    def get(self, request: Any, slug: str) -> Response:
        """The tokens of all endpoints of the team, for its leads: who made each, when it was used, why it opens nothing."""
        return self.page(self.tokens(slug))


class TeamEndpointTokenView(_OfLead):
    @extend_schema(operation_id="team_endpoint_tokens_revoke", tags=["endpoints"], responses={204: None})
    def delete(self, request: Any, slug: str, token_id: UUID) -> Response:
        """Revoke a token of one of the team's endpoints for good, whoever made it."""
        token = self.tokens(slug).filter(public_id=token_id).first()
        if token is None:
            raise NotFound("No endpoint of the team has such a token.")
        services.revoke_endpoint_token(actor=actor_of(request), token=token, now=clock.now())
        return Response(status=204)


class EndpointMetricsView(_OfEndpoint):
    serializer_class = EndpointMetricsSerializer

    @extend_schema(
        operation_id="endpoint_metrics_read",
        tags=["endpoints"],
        parameters=[
            OpenApiParameter("from", OpenApiTypes.DATETIME, description="An hour before `to` unless given."),
            OpenApiParameter("to", OpenApiTypes.DATETIME, description="Now unless given."),
            OpenApiParameter(
                "step",
                OpenApiTypes.INT,
                description="Seconds, whole minutes; what suits the time unless given.",
            ),
        ],
        responses=EndpointMetricsSerializer,
    )
    def get(self, request: Any, public_id: UUID) -> Response:
        """Requests, classes of status and latencies of an endpoint, by revision; and what its GPUs did."""
        check_query_parameters(request, ("from", "to", "step"))
        endpoint = self.find(public_id)
        end = filters.asked_moment(request, "to") or clock.now()
        if end < _FIRST:
            raise refuse("to", f"must be after {_FIRST:%Y-%m-%d}.")
        begin = filters.asked_moment(request, "from") or end - _DEFAULT_RANGE
        if begin >= end:
            raise refuse("from", "must be before to.")
        if end - begin > services.KEEP:
            raise refuse(
                "from", f"must be at most {services.KEEP.days} days before to; older counts are not kept."
            )
        step = _step(request, begin, end)
        series = request_series(endpoint=endpoint, begin=begin, end=end, step=step)
        shown = {"requests": shown_series(series), "gpus": self._gpus(endpoint, begin, end)}
        return Response(EndpointMetricsSerializer(shown).data)

    def _gpus(self, endpoint: Workload, begin: datetime, end: datetime) -> dict[str, Any]:
        first, step, slots = in_steps(begin, end)
        series = gpu_series(endpoint, begin=first, step=step, slots=slots, now=clock.now())
        return shown_gpus(series, simulated=endpoint.simulated)


def _step(request: Any, begin: datetime, end: datetime) -> timedelta:
    raw = one(request, "step")
    if raw is None:
        return step_for(begin, end)
    seconds = whole_number(raw, digits=7) or 0
    if seconds < 60 or seconds % 60:
        raise refuse("step", "must be whole minutes, in seconds: 60, 120 ….")
    if (end - begin).total_seconds() / seconds > POINTS_MAX:
        raise refuse("step", f"gives more than {POINTS_MAX} steps; make it longer.")
    return timedelta(seconds=seconds)
