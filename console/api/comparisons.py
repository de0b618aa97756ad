"""`compare/`: what changed between two runs, or two endpoints."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from diagnosis.queries import Comparison, compare
from foundation.errors import NotFound
from foundation.http.query import check_query_parameters, one, refuse
from foundation.http.serializers import TextOrNullField
from teams.api.base import PortalView
from teams.permissions import of_visible_teams
from workloads.models import Workload


class DifferenceSerializer(serializers.Serializer[Any]):
    field = serializers.CharField(help_text="Path in the request, such as `env.LR.value`.")
    a = TextOrNullField()
    b = TextOrNullField()


class ComparedSerializer(serializers.Serializer[Workload]):
    id = serializers.UUIDField(source="public_id")
    name = serializers.CharField()
    phase = serializers.CharField()
    reason = serializers.CharField()


class ComparisonSerializer(serializers.Serializer[Comparison]):
    a = ComparedSerializer()
    b = ComparedSerializer()
    asked = DifferenceSerializer(many=True, help_text="What their requests differ in.")
    met = DifferenceSerializer(many=True, help_text="What they met: image digests, nodes, drivers, ends.")


class CompareView(PortalView):
    """What changed between two of one kind."""

    @extend_schema(
        summary="What changed between two runs or endpoints",
        parameters=[
            OpenApiParameter("a", OpenApiTypes.UUID, required=True, description="The one that worked."),
            OpenApiParameter("b", OpenApiTypes.UUID, required=True, description="The one that did not."),
        ],
        responses=ComparisonSerializer,
    )
    def get(self, request: Request) -> Response:
        """The differences of their requests, and of what they met in the cluster. Both have to be of one kind."""
        check_query_parameters(request, ("a", "b"))
        return Response(ComparisonSerializer(compared(request)).data)


def compared(request: Any) -> Comparison:
    """What the parameters `a` and `b` name, compared. Raises Malformed for no UUID, NotFound as for a stranger."""
    a, b = (_found(request, name) for name in ("a", "b"))
    if a.kind != b.kind:
        raise refuse("b", f"{b.name} is another kind than {a.name}.")
    return compare(a, b)


def _found(request: Any, name: str) -> Workload:
    text = one(request, name)
    try:
        public_id = UUID(text or "")
    except ValueError:
        raise refuse(name, "must be the id of a run or an endpoint.") from None
    rows = Workload.objects.filter(of_visible_teams(request.user), public_id=public_id)
    workload = rows.select_related("team", "owner", "flavor").first()
    if workload is None:
        raise NotFound("There is no such run or endpoint.")
    return workload
