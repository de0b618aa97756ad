"""REST of what the portal sees and makes in the cluster besides workloads: volumes, capacity, preflight."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.response import Response
from typing_extensions import override

from cluster import preflight
from cluster.client import get_client
from console.api.capacity import capacity
from controller.namespaces.team_secrets import delete_secret, register_secret, write_secret
from controller.namespaces.volumes import create_volume, list_volumes
from controller.strays import delete_strays
from foundation import clock
from foundation.http.idempotency import idempotent
from foundation.http.query import check_query_parameters
from foundation.http.serializers import StrictSerializer
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.models import ApiToken, SecretName
from teams.permissions import check_can_submit, check_global_role, team_for
from teams.queries import secrets_of
from workloads.models import StrayObject
from workloads.podspec import grammar
from workloads.podspec.fields import (
    MEMORY_BYTES_MIN,
    STORAGE_BYTES_MAX,
    QuantityField,
    TextField,
    TextMapField,
)
from workloads.strays import stray_objects, strays

NO_CONTENT = OpenApiResponse(description="Done.")
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


class SecretSerializer(serializers.ModelSerializer[SecretName]):
    """A Secret's name and keys; nothing that the portal has holds a value."""

    keys = serializers.ListField(child=serializers.CharField())
    updated_by = serializers.CharField(source="updated_by.username", default=None, allow_null=True)

    class Meta:
        model = SecretName
        fields = ["name", "keys", "written_here", "updated_by", "updated_at"]
        read_only_fields = fields


class SecretsSerializer(serializers.Serializer[Any]):
    results = SecretSerializer(many=True)


class SecretWriteSerializer(StrictSerializer):
    values = TextMapField(
        check=grammar.secret_values,
        write_only=True,
        help_text="Key to value, all of them: they replace what was there, and are never stored by the portal.",
    )
    keys = serializers.ListField(
        child=TextField(check=grammar.secret_key),
        min_length=1,
        max_length=grammar.FILES_MAX,
        required=False,
        allow_null=True,
        help_text="Instead of values, for leads: the keys of a Secret that was made outside the portal.",
    )

    @override
    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if (attrs.get("values") is None) == (attrs.get("keys") is None):
            raise serializers.ValidationError(
                {"values": ["Give the values, or the keys of a Secret that exists."]}, code="required"
            )
        return attrs


class TeamSecretsView(PortalView):
    """Secrets that runs and endpoints of the team may name; their names and keys."""

    serializer_class = SecretSerializer

    @extend_schema(operation_id="secrets_list", tags=["cluster"], responses=SecretsSerializer)
    def get(self, request: Any, slug: str) -> Response:
        check_query_parameters(request, ())
        team = team_for(request.user, slug)
        return Response({"results": SecretSerializer(secrets_of(team), many=True).data})


class TeamSecretView(PortalView):
    """One Secret of the team, write-only."""

    serializer_class = SecretSerializer

    @extend_schema(
        operation_id="secrets_write",
        tags=["cluster"],
        request=SecretWriteSerializer,
        responses=SecretSerializer,
    )
    def put(self, request: Any, slug: str, name: str) -> Response:
        """Write the values through to the cluster, or register the keys of a Secret that exists there."""
        team = team_for(request.user, slug)
        check_can_submit(request.user, team)
        values = self.read(SecretWriteSerializer)
        client, actor, now = get_client(), actor_of(request), clock.now()
        if values.get("values") is not None:
            row = write_secret(client, team=team, name=name, values=values["values"], actor=actor, now=now)
        else:
            row = register_secret(
                client, team=team, name=name, keys=set(values["keys"]), actor=actor, now=now
            )
        return Response(SecretSerializer(row).data)

    @extend_schema(operation_id="secrets_delete", tags=["cluster"], responses={204: NO_CONTENT})
    def delete(self, request: Any, slug: str, name: str) -> Response:
        """Delete a Secret that the portal wrote; of a registered one, the registration alone."""
        team = team_for(request.user, slug)
        check_can_submit(request.user, team)
        delete_secret(get_client(), team=team, name=name, actor=actor_of(request), now=clock.now())
        return Response(status=204)


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
