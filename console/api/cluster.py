"""REST: `cluster/capacity/`, `cluster/capacity/nodes/`, `cluster/strays/`, `cluster/preflight/`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from cluster import preflight
from cluster.client import get_client
from console.api.capacity import capacity, nodes
from console.strays import delete_strays
from foundation import clock
from foundation.http.query import check_query_parameters
from foundation.http.serializers import StrictSerializer
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.models import ApiToken
from teams.permissions import check_global_role
from workloads.models import StrayObject
from workloads.podspec.fields import (
    TextField,
)
from workloads.strays import stray_objects, strays


class CapacitySerializer(serializers.Serializer[Any]):
    flavor = serializers.CharField()
    capacity = serializers.CharField()
    nodes = serializers.IntegerField(
        help_text="Ready, schedulable and tolerated nodes that offer the flavor."
    )
    units = serializers.IntegerField(help_text="Units on those nodes.")
    claimed = serializers.IntegerField(help_text="Units that all teams hold.")
    largest_block = serializers.IntegerField(help_text="Most units that one pod could ever get.")
    free = serializers.IntegerField(help_text="Units on those nodes that no pod is bound to.")
    largest_free_block = serializers.IntegerField(help_text="Most units that one pod could get now.")
    foreign = serializers.IntegerField(
        help_text="Units on those nodes that pods hold which are not the portal's."
    )
    provisionable = serializers.IntegerField(
        help_text="Units that nodes which do not exist yet may still bring."
    )
    provisionable_block = serializers.IntegerField(help_text="Units that one such node brings.")
    fragmentation = serializers.FloatField(
        allow_null=True,
        help_text="Share of what is free that lies outside the largest free block, from 0 to 1; null where nothing is free.",
    )
    words = serializers.CharField(help_text="Such as: 16 free, largest usable block 6.")


class CapacityListSerializer(serializers.Serializer[Any]):
    results = CapacitySerializer(many=True)


class CapacityView(PortalView):
    """What the cluster offers of each flavor, and how much of it is held."""

    serializer_class = CapacitySerializer

    @extend_schema(operation_id="capacity_list", tags=["cluster"], responses=CapacityListSerializer)
    def get(self, request: Any) -> Response:
        check_query_parameters(request, ())
        return Response(CapacityListSerializer({"results": capacity()}).data)


class CapacityUnitsSerializer(serializers.Serializer[Any]):
    resource = serializers.CharField(help_text="GPUs, or slices of one profile.")
    flavors = serializers.ListField(child=serializers.CharField(), help_text="Which the node offers by it.")
    units = serializers.IntegerField()
    held = serializers.IntegerField(help_text="By pods of the portal.")
    foreign = serializers.IntegerField(help_text="By pods that are not the portal's.")
    free = serializers.IntegerField(help_text="Negative where more is bound than the node offers.")


class CapacityNodeSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    product = serializers.CharField(help_text="The model of its cards, as its label says; may be empty.")
    ready = serializers.BooleanField()
    schedulable = serializers.BooleanField(help_text="False while it is cordoned.")
    resources = CapacityUnitsSerializer(many=True)


class CapacityNodesSerializer(serializers.Serializer[Any]):
    results = CapacityNodeSerializer(many=True)


class CapacityNodesView(PortalView):
    """Every node with GPUs: what it offers, what is held of it, and what is free."""

    serializer_class = CapacityNodeSerializer

    @extend_schema(operation_id="capacity_nodes_list", tags=["cluster"], responses=CapacityNodesSerializer)
    def get(self, request: Any) -> Response:
        check_query_parameters(request, ())
        return Response(CapacityNodesSerializer({"results": nodes()}).data)


class StraySerializer(serializers.ModelSerializer[StrayObject]):
    workload = serializers.CharField(
        source="said_workload", help_text="The id in its label, which nobody has."
    )

    class Meta:
        model = StrayObject
        fields = ["uid", "kind", "namespace", "name", "workload", "created_at", "found_at", "deleted_at"]
        read_only_fields = fields


class StraysSerializer(serializers.Serializer[Any]):
    count = serializers.IntegerField(help_text="Without those that another object takes along.")
    units = serializers.IntegerField(help_text="GPUs that their pods hold, for which nobody pays.")
    results = StraySerializer(many=True, help_text="At most 200 of them, the oldest first.")


class StrayDeleteSerializer(StrictSerializer):
    uids = serializers.ListField(child=TextField(), min_length=1, max_length=200)
    reason = TextField(required=False, default="")


class StrayOutcomeSerializer(serializers.Serializer[Any]):
    deleted = serializers.IntegerField()
    kept = serializers.IntegerField(help_text="The cluster did not let them go.")


class StraysView(PortalView):
    """Objects with the portal's mark and of no workload, as a restore from an older backup leaves them."""

    serializer_class = StraysSerializer

    @extend_schema(operation_id="strays_list", tags=["cluster"], responses=StraysSerializer)
    def get(self, request: Any) -> Response:
        """What is in the cluster with the portal's mark and of no workload; for managers and admins."""
        check_query_parameters(request, ())
        check_global_role(request.user)
        return Response(StraysSerializer({**asdict(strays()), "results": stray_objects()}).data)


class StraysDeleteView(PortalView):
    """Deleting them."""

    write_scope = ApiToken.Scope.MANAGE
    serializer_class = StrayOutcomeSerializer

    @extend_schema(
        operation_id="strays_delete",
        tags=["cluster"],
        request=StrayDeleteSerializer,
        responses=StrayOutcomeSerializer,
    )
    def post(self, request: Any) -> Response:
        """Delete objects of no workload, and what they own with them; for platform admins."""
        check_global_role(request.user, "platform-admin")
        values = self.read(StrayDeleteSerializer)
        outcome = delete_strays(get_client(), **values, actor=actor_of(request), now=clock.now())
        return Response(asdict(outcome))


class CheckSerializer(serializers.Serializer[Any]):
    id = serializers.CharField()
    title = serializers.CharField()
    status = serializers.ChoiceField(choices=["ok", "warn", "fail"])
    detail = serializers.CharField()
    fix = serializers.CharField()


class ChecksSerializer(serializers.Serializer[Any]):
    results = CheckSerializer(many=True)


class PreflightView(PortalView):
    """What the cluster has and lacks, each with its fix; for managers and admins."""

    serializer_class = CheckSerializer

    @extend_schema(operation_id="preflight_list", tags=["cluster"], responses=ChecksSerializer)
    def get(self, request: Any) -> Response:
        check_query_parameters(request, ())
        check_global_role(request.user)
        return Response({"results": [asdict(check) for check in preflight.run(get_client())]})
