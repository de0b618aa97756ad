"""REST: `templates/`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from foundation import clock
from foundation.errors import NotFound
from foundation.http import filters
from foundation.http.etag import expected_versions, version_of, with_etag
from foundation.http.idempotency import idempotent
from foundation.http.query import check_query_parameters
from jobs.catalogue import delete_template, facts, set_template
from jobs.models import RunTemplate
from jobs.template_serializers import TemplateSerializer, TemplateUpdateSerializer, TemplateWriteSerializer
from teams.actors import actor_of
from teams.api.base import PortalView
from teams.models import ApiToken
from teams.permissions import check_global_role


class _OfTemplates(PortalView):
    queryset = RunTemplate.objects.none()
    serializer_class = TemplateSerializer
    write_scope = ApiToken.Scope.MANAGE


class TemplateListView(_OfTemplates):
    """Presets of training runs: what each fills in, allows and decides alone."""

    filters = {"name": filters.text("name"), "enabled": filters.boolean("enabled")}
    ordering_fields = ("name",)
    ordering = "name"

    @extend_schema(operation_id="templates_list", tags=["catalogue"], responses=TemplateSerializer(many=True))
    def get(self, request: Any) -> Response:
        return self.page(RunTemplate.objects.all())

    @extend_schema(
        operation_id="templates_set",
        tags=["catalogue"],
        request=TemplateWriteSerializer,
        responses={200: TemplateSerializer},
    )
    @idempotent()
    def post(self, request: Any) -> Response:
        """Make the template of that name, or change it; each change is a new version."""
        check_global_role(request.user, "platform-admin")
        values = self.read(TemplateWriteSerializer)
        template, _ = set_template(**values, actor=actor_of(request), now=clock.now())
        return Response(TemplateSerializer(template).data)


class TemplateView(_OfTemplates):
    honours_if_match = frozenset({"patch", "delete"})

    @extend_schema(operation_id="templates_read", tags=["catalogue"], responses=TemplateSerializer)
    def get(self, request: Any, name: str) -> Response:
        """One preset of training runs."""
        check_query_parameters(request, ())
        return _answer(_named(name))

    @extend_schema(
        operation_id="templates_update",
        tags=["catalogue"],
        request=TemplateUpdateSerializer,
        responses=TemplateSerializer,
    )
    def patch(self, request: Any, name: str) -> Response:
        """Change a template; what is left out stays, what is named is replaced as a whole."""
        check_global_role(request.user, "platform-admin")
        template = _named(name)
        if not isinstance(request.data, Mapping):
            raise serializers.ValidationError("Give an object.", code="invalid")
        body = TemplateUpdateSerializer(data={**facts(template), **request.data})
        body.is_valid(raise_exception=True)
        values = body.validated_data
        set_template(
            name=name,
            **values,
            actor=actor_of(request),
            now=clock.now(),
            expected_versions=expected_versions(request),
        )
        return _answer(_named(name))

    @extend_schema(operation_id="templates_delete", tags=["catalogue"], responses={204: None})
    def delete(self, request: Any, name: str) -> Response:
        """Offer a template no longer; runs that were made by it stay as they are."""
        check_global_role(request.user, "platform-admin")
        delete_template(
            template=_named(name),
            actor=actor_of(request),
            now=clock.now(),
            expected_versions=expected_versions(request),
        )
        return Response(status=204)


def _answer(template: RunTemplate) -> Response:
    return with_etag(Response(TemplateSerializer(template).data), version_of(template))


def _named(name: str) -> RunTemplate:
    template = RunTemplate.objects.filter(name=name).first()
    if template is None:
        raise NotFound("There is no such template.")
    return template
