"""REST: `audit/`, `audit/export.csv`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from django.db.models import Q, QuerySet
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.response import Response

from foundation.http import filters
from foundation.http.csv_files import csv_file
from teams.api.base import AnyAccept, PortalView
from teams.api.serializers import AuditEventSerializer
from teams.models import AuditEvent
from teams.permissions import sees_origin, visible_audit_events
from teams.trail.names import uuid_of, with_names

CSV_CHUNK = 500
CSV_COLUMNS = (
    "at", "actor", "action", "target_kind", "target_name", "target_id", "team", "before", "after", "reason", "token",
    "ip", "request_id",
)  # fmt: skip


def _is_target(values: list[Any]) -> Q:
    """A target by its name or, if it looks like one, by its id."""
    return Q(target_id=values[0]) if uuid_of(values[0]) else Q(target_name=values[0])


AUDIT_FILTERS = {
    "team": filters.text("team_slug"),
    "actor": filters.text("actor_label"),
    "action": filters.text("action", many=True),
    "target_kind": filters.text("target_kind", many=True),
    "target_id": filters.text("target_id"),
    "target": filters.Filter(
        lookup="target_name",
        parse=filters.text("target_name").parse,
        where=_is_target,
        description="What was changed: its name then, or its id.",
        schema={"type": "string", "maxLength": filters.TEXT_LENGTH_MAX},
    ),
    "request_id": filters.text("request_id"),
    "from": filters.moment("at__gte"),
    "to": filters.moment("at__lt"),
}


class AuditListView(PortalView):
    """What changed, who signed in and what was refused: in your teams and by you; everything with a global role."""

    queryset = AuditEvent.objects.none()
    serializer_class = AuditEventSerializer
    filters = AUDIT_FILTERS
    ordering_fields = ("at",)
    ordering = "-at"

    @extend_schema(operation_id="audit_list", tags=["people"], responses=AuditEventSerializer(many=True))
    def get(self, request: Any) -> Response:
        events = visible_audit_events(request.user).select_related("token")
        rows = with_names(self.paginate_queryset(self.filter_queryset(events)) or [])
        return self.get_paginated_response(self.get_serializer(rows, many=True).data)


class AuditExportView(PortalView):
    """The same as a CSV file, newest first, as many as there are."""

    queryset = AuditEvent.objects.none()
    serializer_class = AuditEventSerializer
    filters = AUDIT_FILTERS
    pagination_class = None  # type: ignore[assignment] # not a list of pages
    content_negotiation_class = AnyAccept

    @extend_schema(
        operation_id="audit_export", tags=["people"], responses={(200, "text/csv"): OpenApiTypes.STR}
    )
    def get(self, request: Any) -> StreamingHttpResponse:
        events = self.filter_queryset(visible_audit_events(request.user))
        return csv_file(CSV_COLUMNS, _lines(events, request.user), filename="audit.csv")


def _lines(events: QuerySet[AuditEvent], user: Any) -> Iterator[Sequence[Any]]:
    found = events.select_related("token").order_by("-at", "-id").iterator(chunk_size=CSV_CHUNK)
    while batch := list(islice(found, CSV_CHUNK)):
        for event in with_names(batch):
            yield _line(event, shows_origin=sees_origin(user, event))


def _line(event: AuditEvent, *, shows_origin: bool) -> Sequence[Any]:
    return (
        event.at.isoformat().replace("+00:00", "Z"),
        event.actor_label,
        event.action,
        event.target_kind,
        event.target_name,
        event.target_id,
        event.team_slug,
        _values(event.before),
        _values(event.after),
        event.reason,
        event.token.prefix if event.token and shows_origin else "",
        event.ip or "" if shows_origin else "",
        event.request_id,
    )


def _values(values: Any) -> str:
    return "" if values is None else json.dumps(values, ensure_ascii=False)
