"""The base of every REST view of the portal."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

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


PART: Final[dict[str, Any]] = {
    "filters": {},
    "extra_parameters": (),
    "ordering_fields": {},
    "honours_if_match": frozenset(),
}
"""An answer about one of a list's objects is not searched as the list of all is."""


class PortalView(GenericAPIView[Any]):
    """Scopes, declared filters and cursor pages; `read` takes a body strictly, `page` answers a list, `created` 201.

    A subclass may declare `filters`, `extra_parameters`, `ordering_fields`, `ordering`, `write_scope`, `scopes`.
    """

    permission_classes = [ScopePermission]
    filter_backends = [DeclaredFilters]
    pagination_class = CursorPage
    metadata_class = AllowedMethods

    extra_parameters: tuple[str, ...] = ()
    expensive: frozenset[str] = frozenset()
    """Actions, or methods in lower case, that cost more than others: they have a rate of their own besides."""
    honours_if_match: frozenset[str] = frozenset()
    """Methods that refuse a change of what the client has not seen; the schema declares If-Match on these alone."""

    def read(self, serializer_class: type[Any], *, partial: bool = False) -> dict[str, Any]:
        """The validated body. Raises DRF's ValidationError, answered as 422."""
        serializer = serializer_class(data=self.request.data, partial=partial)
        serializer.is_valid(raise_exception=True)
        values: dict[str, Any] = serializer.validated_data
        return values

    def created(self, data: Any, path: str, *, holds_secret: bool = False) -> Response:
        """201 with the address of what is new, at the host that was asked: a client that follows to another one leaves
        its token behind. An answer that holds a secret is kept by no cache.
        """
        headers = {"Location": self.request.build_absolute_uri(path)}
        if holds_secret:
            headers["Cache-Control"] = "no-store"
        return Response(data, status=201, headers=headers)

    @override
    def check_permissions(self, request: Any) -> None:
        # What is refused is counted too.
        super().check_throttles(request)
        super().check_permissions(request)

    @override
    def check_throttles(self, request: Any) -> None:
        """Done before the permissions."""

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
