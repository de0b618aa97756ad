"""The base of every REST view of the portal."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponse, HttpResponseBase
from drf_spectacular.plumbing import get_lib_doc_excludes
from rest_framework.generics import GenericAPIView
from rest_framework.metadata import BaseMetadata
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.response import Response
from typing_extensions import override

from foundation.http.etag import conditional
from foundation.http.filters import DeclaredFilters
from foundation.http.pages import CursorPage
from teams.api.scopes import ScopePermission


class AllowedMethods(BaseMetadata):
    """OPTIONS: what may be called. The fields are in the schema; DRF's own answer would ask for objects first."""

    @override
    def determine_metadata(self, request: Any, view: Any) -> dict[str, Any]:
        return {"methods": sorted(view.allowed_methods)}


class AnyAccept(BaseContentNegotiation):
    """For views that answer one thing, or choose by a parameter: an Accept header is no reason to refuse it."""

    @override
    def select_parser(self, request: Any, parsers: Any) -> Any:
        return parsers[0]

    @override
    def select_renderer(self, request: Any, renderers: Any, format_suffix: Any = None) -> Any:
        return renderers[0], renderers[0].media_type


class PortalView(GenericAPIView[Any]):
    """Scopes, declared filters and cursor pages; `read` takes a body strictly, `page` answers a list.

    A subclass may declare `filters`, `extra_parameters`, `ordering_fields`, `ordering`, `write_scope`, `scopes`.
    """

    permission_classes = [ScopePermission]
    filter_backends = [DeclaredFilters]
    pagination_class = CursorPage
    metadata_class = AllowedMethods

    extra_parameters: tuple[str, ...] = ()
    honours_if_match: frozenset[str] = frozenset()
    """Methods that refuse a change of what the client has not seen; the schema declares If-Match on these alone."""

    def read(self, serializer_class: type[Any], *, partial: bool = False) -> dict[str, Any]:
        """The validated body. Raises DRF's ValidationError, answered as 422."""
        serializer = serializer_class(data=self.request.data, partial=partial)
        serializer.is_valid(raise_exception=True)
        values: dict[str, Any] = serializer.validated_data
        return values

    @override
    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        final: HttpResponseBase = super().finalize_response(request, response, *args, **kwargs)
        if isinstance(final, Response):
            final.add_post_render_callback(partial(conditional, request))
        elif isinstance(final, HttpResponse):
            return conditional(request, final)
        return final

    def page(self, queryset: QuerySet[Any]) -> Response:
        """One page of a list, filtered and ordered as the view declares."""
        rows = self.paginate_queryset(self.filter_queryset(queryset))
        return self.get_paginated_response(self.get_serializer(rows, many=True).data)


def classes_without_api_docs() -> list[type]:
    """Whose docstrings are for programmers: OpenAPI describes no operation with them."""
    excluded: list[type] = get_lib_doc_excludes()  # type: ignore[no-untyped-call]
    return [*excluded, PortalView]
