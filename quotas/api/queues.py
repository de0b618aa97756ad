"""REST: `queues/`."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from foundation import clock
from foundation.http.idempotency import idempotent
from foundation.http.query import check_query_parameters
from quotas import limits
from quotas.api.lookups import queue_of
from quotas.api.request_serializers import (
    ReasonSerializer,
)
from quotas.api.response_serializers import (
    QueueSerializer,
)
from quotas.checks import check_manager_or_lead
from quotas.models import TeamPolicy
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.models import ApiToken
from teams.permissions import team_for


class QueueView(PortalView):
    """A team's queue: whether it is stopped, by whom and why, and what waits in it."""

    queryset = TeamPolicy.objects.none()
    serializer_class = QueueSerializer

    @extend_schema(operation_id="queues_read", tags=["quotas"], responses=QueueSerializer)
    def get(self, request: Any, slug: str) -> Response:
        check_query_parameters(request, ())
        return Response(QueueSerializer(queue_of(team_for(request.user, slug))).data)


class QueueStopView(PortalView):
    """Admit nothing more of a team; what runs goes on."""

    queryset = TeamPolicy.objects.none()
    serializer_class = QueueSerializer
    write_scope = ApiToken.Scope.MANAGE

    @extend_schema(
        operation_id="queues_stop", tags=["quotas"], request=ReasonSerializer, responses=QueueSerializer
    )
    @idempotent()
    def post(self, request: Any, slug: str) -> Response:
        team = team_for(request.user, slug)
        check_manager_or_lead(actor_of(request), team)
        reason = self.read(ReasonSerializer)["reason"]
        limits.stop_queue(team=team, reason=reason, actor=actor_of(request), now=clock.now())
        return Response(QueueSerializer(queue_of(team)).data)


class QueueStartView(PortalView):
    """Admit what waits in a team's queue again."""

    queryset = TeamPolicy.objects.none()
    serializer_class = QueueSerializer
    write_scope = ApiToken.Scope.MANAGE

    @extend_schema(operation_id="queues_start", tags=["quotas"], request=None, responses=QueueSerializer)
    @idempotent()
    def post(self, request: Any, slug: str) -> Response:
        team = team_for(request.user, slug)
        limits.start_queue(team=team, actor=actor_of(request), now=clock.now())
        return Response(QueueSerializer(queue_of(team)).data)
