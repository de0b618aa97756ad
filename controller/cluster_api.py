"""REST of what the portal sees and makes in the cluster besides workloads: volumes, capacity, preflight."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from cluster import preflight
from cluster.client import get_client
from controller import grammar
from controller.capacity import capacity
from controller.fields import MEMORY_BYTES_MIN, STORAGE_BYTES_MAX, QuantityField, TextField
from controller.volumes import create_volume, list_volumes
from foundation import clock
from foundation.errors import NotAllowed
from foundation.http.idempotency import idempotent
from foundation.http.query import check_query_parameters
from foundation.http.serializers import StrictSerializer
from teams.actors import actor_of
from teams.permissions import check_can_submit, has_global_role, team_for
from teams.rest import PortalView

ACCESS_MODES = ("ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod")


class VolumeSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    size = serializers.CharField()
    access_mode = serializers.CharField()
    storage_class = serializers.CharField(allow_null=True)
    phase = serializers.CharField()


class VolumeWriteSerializer(StrictSerializer):
    name = TextField(check=grammar.object_name)
    size = QuantityField(least=MEMORY_BYTES_MIN, most=STORAGE_BYTES_MAX, required=True, allow_null=False)
    access_mode = serializers.ChoiceField(choices=ACCESS_MODES, default="ReadWriteMany")
    storage_class = TextField(check=grammar.object_name, required=False, allow_null=True)


class VolumesSerializer(serializers.Serializer[Any]):
    results = VolumeSerializer(many=True)


class TeamVolumesView(PortalView):
    """Claims that runs and endpoints of the team may mount."""

    serializer_class = VolumeSerializer

    @extend_schema(operation_id="volumes_list", tags=["cluster"], responses=VolumesSerializer)
    def get(self, request: Any, slug: str) -> Response:
        check_query_parameters(request, ())
        team = team_for(request.user, slug)
        return Response({"results": [asdict(volume) for volume in list_volumes(get_client(), team)]})

    @extend_schema(
        operation_id="volumes_create",
        tags=["cluster"],
        request=VolumeWriteSerializer,
        responses={201: VolumeSerializer},
    )
    @idempotent(atomic=False)
    def post(self, request: Any, slug: str) -> Response:
        """Make a claim in the team's namespace."""
        team = team_for(request.user, slug)
        check_can_submit(request.user, team)
        values = self.read(VolumeWriteSerializer)
        volume = create_volume(
            get_client(),
            team=team,
            name=values["name"],
            size=values["size"],
            access_mode=values["access_mode"],
            storage_class=values.get("storage_class"),
            actor=actor_of(request),
            now=clock.now(),
        )
        return Response(asdict(volume), status=201)


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


class CapacityListSerializer(serializers.Serializer[Any]):
    results = CapacitySerializer(many=True)


class CapacityView(PortalView):
    """What the cluster offers of each flavor, and how much of it is held."""

    serializer_class = CapacitySerializer

    @extend_schema(operation_id="capacity_list", tags=["cluster"], responses=CapacityListSerializer)
    def get(self, request: Any) -> Response:
        check_query_parameters(request, ())
        return Response({"results": [asdict(row) for row in capacity()]})


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
        if not has_global_role(request.user):
            raise NotAllowed("Only quota managers and platform admins may do this.", code="role_missing")
        return Response({"results": [asdict(check) for check in preflight.run(get_client())]})
