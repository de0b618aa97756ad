"""REST: `teams/{slug}/volumes/`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from cluster.client import get_client
from foundation import clock
from foundation.http.idempotency import idempotent
from foundation.http.query import check_query_parameters
from foundation.http.serializers import StrictSerializer
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.permissions import check_can_submit, team_for
from tenancy.volumes import create_volume, list_volumes
from workloads.podspec import grammar
from workloads.podspec.fields import (
    MEMORY_BYTES_MIN,
    STORAGE_BYTES_MAX,
    QuantityField,
    TextField,
)

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


def _may_make(request: Any, slug: str) -> None:
    check_can_submit(request.user, team_for(request.user, slug))


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
    @idempotent(judge=_may_make)
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
