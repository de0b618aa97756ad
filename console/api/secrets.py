"""REST: `teams/{slug}/secrets/`: written through to the cluster, and never read back."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.response import Response
from typing_extensions import override

from cluster.client import get_client
from foundation import clock
from foundation.http.query import check_query_parameters
from foundation.http.serializers import StrictSerializer
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.models import SecretName
from teams.permissions import check_can_submit, team_for
from teams.queries import secrets_of
from tenancy.team_secrets import delete_secret, register_secret, write_secret
from workloads.podspec import grammar
from workloads.podspec.fields import (
    TextField,
    TextMapField,
)

NO_CONTENT = OpenApiResponse(description="Done.")


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
