"""REST: `flavors/`, `cluster/nodes/`."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from cluster.names import DEFAULT_CLUSTER
from foundation import clock
from foundation.errors import NotFound
from foundation.http import filters
from foundation.http.etag import expected_versions, version_of, with_etag
from foundation.http.idempotency import idempotent
from foundation.http.query import check_query_parameters
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.models import ApiToken
from teams.permissions import check_global_role
from workloads.catalogue import set_flavor
from workloads.models import NodeRecord, ResourceFlavor
from workloads.serializers import (
    FlavorSerializer,
    FlavorUpdateSerializer,
    FlavorWriteSerializer,
    NodeSerializer,
)


class FlavorListView(PortalView):
    """The flavors that can be asked for."""

    queryset = ResourceFlavor.objects.none()
    serializer_class = FlavorSerializer
    write_scope = ApiToken.Scope.MANAGE
    filters = {"card": filters.text("card"), "enabled": filters.boolean("enabled")}
    ordering_fields = ("name",)
    ordering = "name"

    @extend_schema(operation_id="flavors_list", tags=["catalogue"], responses=FlavorSerializer(many=True))
    def get(self, request: Any) -> Response:
        return self.page(ResourceFlavor.objects.all())

    @extend_schema(
        operation_id="flavors_set",
        tags=["catalogue"],
        request=FlavorWriteSerializer,
        responses={200: FlavorSerializer},
    )
    @idempotent()
    def post(self, request: Any) -> Response:
        """Make the flavor of that name, or change it."""
        check_global_role(request.user, "quota-manager")
        values = self.read(FlavorWriteSerializer)
        flavor, _ = set_flavor(**values, actor=actor_of(request), now=clock.now())
        return Response(FlavorSerializer(flavor).data)


class FlavorView(PortalView):
    queryset = ResourceFlavor.objects.none()
    serializer_class = FlavorSerializer
    write_scope = ApiToken.Scope.MANAGE
    honours_if_match = frozenset({"patch"})

    @extend_schema(operation_id="flavors_read", tags=["catalogue"], responses=FlavorSerializer)
    def get(self, request: Any, name: str) -> Response:
        """One flavor."""
        check_query_parameters(request, ())
        return _answer(_flavor_named(name))

    @extend_schema(
        operation_id="flavors_update",
        tags=["catalogue"],
        request=FlavorUpdateSerializer,
        responses=FlavorSerializer,
    )
    def patch(self, request: Any, name: str) -> Response:
        """Change a flavor; what is left out stays as it is."""
        check_global_role(request.user, "quota-manager")
        flavor = _flavor_named(name)
        changes = self.read(FlavorUpdateSerializer, partial=True)
        values = {"gpu_fraction": str(flavor.gpu_fraction)} | changes
        set_flavor(
            name=name,
            **values,
            actor=actor_of(request),
            now=clock.now(),
            expected_versions=expected_versions(request),
        )
        return _answer(_flavor_named(name))


def _answer(flavor: ResourceFlavor) -> Response:
    return with_etag(Response(FlavorSerializer(flavor).data), version_of(flavor))


def _flavor_named(name: str) -> ResourceFlavor:
    flavor = ResourceFlavor.objects.filter(name=name).first()
    if flavor is None:
        raise NotFound("There is no such flavor.")
    return flavor


class NodeListView(PortalView):
    """The nodes of the cluster that exist now, and what they offer."""

    queryset = NodeRecord.objects.none()
    serializer_class = NodeSerializer
    filters = {"name": filters.text("name"), "ready": filters.boolean("ready")}
    ordering_fields = ("name",)
    ordering = "name"

    @extend_schema(operation_id="nodes_list", tags=["cluster"], responses=NodeSerializer(many=True))
    def get(self, request: Any) -> Response:
        return self.page(NodeRecord.objects.of(DEFAULT_CLUSTER).filter(gone_at__isnull=True))
