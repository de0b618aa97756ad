"""Keyset pages: stable while rows come and go, as fast on page 1,000 as on page 1, never a COUNT.

A page is cut at (ordering value, id); its cursor is signed, so that no client relies on what is inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar, Literal
from uuid import UUID

from django.core import signing
from django.core.exceptions import FieldDoesNotExist
from django.db.models import F, Model, Q, QuerySet
from rest_framework.pagination import BasePagination
from rest_framework.response import Response
from rest_framework.utils.urls import remove_query_param, replace_query_param
from typing_extensions import override

from foundation.digits import whole_number
from foundation.http.query import one, refuse

LIMIT_MAX = 200
PAGE_PARAMETERS = ("limit", "cursor", "ordering")
CURSOR_SALT = "foundation.http.pages"
CURSOR_LENGTH_MAX = 1000

Direction = Literal["next", "previous"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCursor:
    """A cut between rows: after (`value`, `row_id`) going `direction`; with `inclusive`, that row counts too."""

    ordering: str
    direction: Direction
    value: Any
    row_id: int
    inclusive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One ordering: its public name, the model's field, which way, and whether nulls exist (they go last)."""

    name: str
    field: str
    descending: bool
    nullable: bool


class CursorPage(BasePagination):
    """`?limit=` (default 50, at most 200), `?cursor=`, `?ordering=` one of the view's, `-` for descending.

    The view declares `ordering_fields`, a sequence of model fields or a mapping of public name to field, and
    `ordering`, its default (`-id` where it says nothing). One query a page, a second where the row at
    its cut has gone. Raises Malformed (400) naming `cursor`, `limit` or `ordering`.
    """

    display_page_controls = False
    limit_default: ClassVar[int] = 50

    @staticmethod
    def ordered(queryset: QuerySet[Any], request: Any, view: Any) -> QuerySet[Any]:
        """All the rows, as the pages would have them."""
        return queryset.order_by(*_order_by(_order(request, queryset, view), backwards=False))

    @override
    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> list[Any]:
        self.limit = _limit(request, self.limit_default)
        self.order = _order(request, queryset, view)
        self.cursor = _read_cursor(request, self.order)
        self.url = request.build_absolute_uri()
        backwards = self.cursor is not None and self.cursor.direction == "previous"
        rows, at_cut = self._fetch(queryset, backwards=backwards)
        more = len(rows) > self.limit
        rows = rows[: self.limit]
        if backwards:
            rows.reverse()
        behind = self.cursor is not None and (
            at_cut or self._exists_behind(queryset, rows, backwards=backwards)
        )
        self.has_next, self.has_previous = (behind, more) if backwards else (more, behind)
        self.rows = rows
        return rows

    @override
    def get_paginated_response(self, data: Any) -> Response:
        return Response({"results": data, "next": self.next_link(), "previous": self.previous_link()})

    @override
    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        link = {"type": "string", "format": "uri", "nullable": True}
        return {
            "type": "object",
            "required": ["results", "next", "previous"],
            "properties": {"results": schema, "next": link, "previous": link},
        }

    @override
    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        """The page parameters in OpenAPI's words."""
        fields = sorted(_ordering_fields(view))
        orderings = [shown for name in fields for shown in (name, f"-{name}")]
        limit = {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": self.limit_default}
        parameters: list[tuple[str, dict[str, Any]]] = [("limit", limit), ("cursor", {"type": "string"})]
        if orderings:
            parameters.append(("ordering", {"type": "string", "enum": orderings}))
        return [
            {"name": name, "in": "query", "required": False, "schema": schema} for name, schema in parameters
        ]

    def next_link(self) -> str | None:
        """URL of the following page; None at the end."""
        return self._link("next", -1) if self.has_next else None

    def previous_link(self) -> str | None:
        """URL of the page before; None at the beginning."""
        return self._link("previous", 0) if self.has_previous else None

    def _fetch(self, queryset: QuerySet[Any], *, backwards: bool) -> tuple[list[Any], bool]:
        """Rows of the page and one more, and whether the row at the cut, which lies behind, is still there."""
        ordered = queryset.order_by(*_order_by(self.order, backwards=backwards))
        if self.cursor is None:
            return list(ordered[: self.limit + 1]), False
        # With the row at the cut: nothing more has to be asked about what is behind.
        cut = replace(self.cursor, inclusive=True)
        rows = list(ordered.filter(_beyond(self.order, cut, backwards=backwards))[: self.limit + 2])
        at_cut = not self.cursor.inclusive and bool(rows) and _value(rows[0], "id") == self.cursor.row_id
        rows = rows[1:] if at_cut else rows
        return rows[: self.limit + 1], at_cut

    def _exists_behind(self, queryset: QuerySet[Any], rows: list[Any], *, backwards: bool) -> bool:
        """Whether rows lie on the side that the request came from, seen from this page's own edge."""
        edge = self._cursor_at(rows[-1 if backwards else 0], "next") if rows else self._empty_edge()
        return queryset.order_by().filter(_beyond(self.order, edge, backwards=not backwards)).exists()

    def _empty_edge(self) -> PageCursor:
        """Where an empty page was cut, seen from the other side: a row that the cut left out is in now."""
        assert self.cursor is not None  # noqa: S101 - a page without a cursor asks for no edge
        return replace(self.cursor, inclusive=not self.cursor.inclusive)

    def _cursor_at(self, row: Any, direction: Direction) -> PageCursor:
        return PageCursor(
            ordering=self.order.name,
            direction=direction,
            value=_value(row, self.order.field),
            row_id=_value(row, "id"),
        )

    def _link(self, direction: Direction, index: int) -> str:
        if self.rows:
            cursor = self._cursor_at(self.rows[index], direction)
        else:
            cursor = replace(self._empty_edge(), direction=direction)
        return replace_query_param(remove_query_param(self.url, "cursor"), "cursor", _sign(cursor))


def _limit(request: Any, default: int) -> int:
    raw = one(request, "limit")
    if raw is None:
        return default
    limit = whole_number(raw)
    if limit is None or not 1 <= limit <= LIMIT_MAX:
        raise refuse("limit", f"must be an integer from 1 to {LIMIT_MAX}.")
    return limit


def _ordering_fields(view: Any) -> Mapping[str, str]:
    declared: Mapping[str, str] | Sequence[str] = getattr(view, "ordering_fields", None) or ()
    return declared if isinstance(declared, Mapping) else {name: name for name in declared}


def _order(request: Any, queryset: QuerySet[Any], view: Any) -> Order:
    fields = _ordering_fields(view)
    default: str = getattr(view, "ordering", None) or "-id"
    name = one(request, "ordering")
    if name is not None and name.removeprefix("-") not in fields:
        raise refuse(
            "ordering", f"must be one of {', '.join(sorted(fields)) or 'none'}, with - for descending."
        )
    name = name or default
    bare = name.removeprefix("-")
    field = fields.get(bare, bare)
    return Order(
        name=name, field=field, descending=name.startswith("-"), nullable=_is_nullable(queryset.model, field)
    )


def _is_nullable(model: type[Model], path: str) -> bool:
    for part in path.split("__"):
        try:
            field: Any = model._meta.get_field(part)  # noqa: SLF001 - Django documents _meta as public
        except FieldDoesNotExist:
            return True  # an annotation
        if getattr(field, "null", False):
            return True
        model = field.related_model or model
    return False


def _order_by(order: Order, *, backwards: bool) -> list[Any]:
    descending = order.descending != backwards
    row_id = "-id" if descending else "id"
    if order.field == "id":
        return [row_id]
    if not order.nullable:
        return [f"-{order.field}" if descending else order.field, row_id]
    value = F(order.field)
    if descending:
        ordered = value.desc(nulls_first=True) if backwards else value.desc(nulls_last=True)
    else:
        ordered = value.asc(nulls_first=True) if backwards else value.asc(nulls_last=True)
    return [ordered, row_id]


def _beyond(order: Order, cut: PageCursor, *, backwards: bool) -> Q:
    """Rows after the cut in the order, or before it; nulls are last in every order."""
    way = "lt" if order.descending != backwards else "gt"
    tie = Q(**{f"id__{way}e" if cut.inclusive else f"id__{way}": cut.row_id})
    if order.field == "id":
        return tie
    is_null = Q(**{f"{order.field}__isnull": True})
    if cut.value is None:
        return ~is_null | (is_null & tie) if backwards else is_null & tie
    # `value <= cut AND (value < cut OR id < cut)`: the first half is a range that an index can seek.
    further = Q(**{f"{order.field}__{way}e": cut.value}) & (Q(**{f"{order.field}__{way}": cut.value}) | tie)
    return further | is_null if order.nullable and not backwards else further


def _value(row: Any, path: str) -> Any:
    for part in path.split("__"):
        row = row[part] if isinstance(row, dict) else getattr(row, part)
    return row


def _sign(cursor: PageCursor) -> str:
    kind, text = _encode(cursor.value)
    payload = [cursor.ordering, cursor.direction, kind, text, cursor.row_id, int(cursor.inclusive)]
    return signing.dumps(payload, salt=CURSOR_SALT)


def _read_cursor(request: Any, order: Order) -> PageCursor | None:
    raw = one(request, "cursor")
    if raw is None:
        return None
    if len(raw) > CURSOR_LENGTH_MAX:
        raise refuse("cursor", "is not a cursor of this portal.")
    try:
        ordering, direction, kind, text, row_id, inclusive = signing.loads(raw, salt=CURSOR_SALT)
    except (signing.BadSignature, ValueError, TypeError) as error:
        raise refuse("cursor", "is not a cursor of this portal.") from error
    if ordering != order.name:
        raise refuse("cursor", f"belongs to the ordering {ordering}.")
    value = _decode(kind, text)
    return PageCursor(
        ordering=ordering, direction=direction, value=value, row_id=row_id, inclusive=bool(inclusive)
    )


def _encode(value: Any) -> tuple[str, Any]:
    if isinstance(value, datetime):
        return "datetime", value.isoformat()
    if isinstance(value, (UUID, Decimal)):
        return type(value).__name__, str(value)
    return "json", value


def _decode(kind: str, text: Any) -> Any:
    decoders: dict[str, Callable[[Any], Any]] = {
        "datetime": datetime.fromisoformat,
        "UUID": UUID,
        "Decimal": Decimal,
    }
    return decoders[kind](text) if kind in decoders else text
