"""REST: `decisions/{id}/`, `decisions/{id}/replay/`. Both are for users who may see the workload of the decision."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.response import Response

from foundation.http.query import check_query_parameters, one, refuse
from policy.snapshot_json import dump
from quotas.api.lookups import decision_for
from quotas.api.response_serializers import DecisionSerializer, ReplaySerializer
from quotas.decisions import readable_snapshot, replay
from quotas.models import Decision
from quotas.queries import nameable_teams
from teams.api.base import PortalView

SUPPLY = OpenApiParameter("supply", OpenApiTypes.BOOL, description="Whether the inputs are shown too.")


class DecisionView(PortalView):
    """A verdict about a run or an endpoint, as it was stored."""

    queryset = Decision.objects.none()
    serializer_class = DecisionSerializer

    @extend_schema(operation_id="decisions_read", tags=["quotas"], responses=DecisionSerializer)
    def get(self, request: Any, public_id: UUID) -> Response:
        check_query_parameters(request, ())
        decision = decision_for(request.user, public_id)
        named = {"named": nameable_teams(request.user)}
        return Response(DecisionSerializer(decision, context=named).data)


class DecisionReplayView(PortalView):
    """The stored inputs judged again by the policy of now, beside what was stored."""

    queryset = Decision.objects.none()
    serializer_class = ReplaySerializer

    @extend_schema(
        operation_id="decisions_replay", tags=["quotas"], parameters=[SUPPLY], responses=ReplaySerializer
    )
    def get(self, request: Any, public_id: UUID) -> Response:
        check_query_parameters(request, ("supply",))
        with_supply = _flag(request, "supply")
        decision = decision_for(request.user, public_id)
        named = nameable_teams(request.user)
        replayed = replay(decision)
        shown = {
            **vars(replayed),
            "decision": decision,
            "replayed": replayed if replayed.verdict else None,
            "supply": _supply(decision, named) if with_supply else None,
        }
        return Response(ReplaySerializer(shown, context={"named": named}).data)


def _flag(request: Any, name: str) -> bool:
    raw = one(request, name)
    if raw in {None, "0", "false"}:
        return False
    if raw in {"1", "true"}:
        return True
    raise refuse(name, "must be true or false.")


def _supply(decision: Decision, named: frozenset[str]) -> dict[str, Any] | None:
    """The stored inputs as JSON; ids and owners of other teams are null."""
    snapshot = readable_snapshot(decision, team=decision.workload.team.slug, named=named)
    if snapshot is None:
        return None
    body: dict[str, Any] = json.loads(dump(snapshot))
    for entry in (*body["holders"], *body["waiters"]):
        entry["id"], entry["owner"] = entry["id"] or None, entry["owner"] or None
    return body
