"""Filters of a list, declared on its view:

    filters = {"phase": choice(Phase.values, "phase", many=True), "team": text("team__slug")}

A parameter that is not declared is refused with 400, so that a typing mistake never widens a list.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db.models import Model, Q, QuerySet, Subquery
from django.utils.dateparse import parse_datetime
from rest_framework.filters import BaseFilterBackend
from typing_extensions import override

from foundation.digits import whole_number
from foundation.http.pages import PAGE_PARAMETERS
from foundation.http.query import check_query_parameters, one, refuse

TEXT_LENGTH_MAX = 200
MANY_MAX = 50


@dataclass(frozen=True, kw_only=True)
class Filter:
    """One query parameter. `parse` raises ValueError with the sentence shown after the parameter's name.

    `where` makes the condition from all values that were parsed, where it is more than a comparison by `lookup`.
    """

    lookup: str
    parse: Callable[[str], Any]
    many: bool = False
    where: Callable[[list[Any]], Q] | None = None
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})


def text(lookup: str, *, many: bool = False, description: str = "") -> Filter:
    """A string, compared as `lookup` says."""
    return Filter(
        lookup=lookup,
        parse=_text,
        many=many,
        description=description,
        schema={"type": "string", "maxLength": TEXT_LENGTH_MAX},
    )


def reference(
    field_name: str, model: type[Model], key: str, *, many: bool = False, description: str = ""
) -> Filter:
    """Rows that refer to the one of `model` with that `key`, or with `many` to one of several.

    PostgreSQL looks its own key up first: a join would hide from it that the rows of one are in order in their index.
    """

    def where(values: list[Any]) -> Q:
        own = model._default_manager.filter(**{f"{key}__in": values}).values("pk")  # noqa: SLF001 - documented
        return Q(**{field_name: Subquery(own[:1])}) if len(values) == 1 else Q(**{f"{field_name}__in": own})

    schema = {"type": "string", "maxLength": TEXT_LENGTH_MAX}
    return Filter(
        lookup=field_name, parse=_text, many=many, where=where, description=description, schema=schema
    )


def choice(values: Collection[str], lookup: str, *, many: bool = False, description: str = "") -> Filter:
    """One of `values`; with `many`, also several (repeated, or separated by commas)."""

    def parse(raw: str) -> str:
        if raw not in values:
            raise ValueError(f"must be one of {', '.join(values)}.")
        return raw

    schema = {"type": "string", "enum": list(values)}
    return Filter(lookup=lookup, parse=parse, many=many, description=description, schema=schema)


def uuid(lookup: str, *, description: str = "") -> Filter:
    """A UUID."""
    return Filter(
        lookup=lookup, parse=_uuid, description=description, schema={"type": "string", "format": "uuid"}
    )


def boolean(lookup: str, *, description: str = "") -> Filter:
    """True or false."""
    return Filter(lookup=lookup, parse=_boolean, description=description, schema={"type": "boolean"})


def integer(lookup: str, *, description: str = "") -> Filter:
    """An integer of at most 64 bits."""
    schema = {"type": "integer", "format": "int64"}
    return Filter(lookup=lookup, parse=_integer, description=description, schema=schema)


def moment(lookup: str, *, description: str = "") -> Filter:
    """An RFC 3339 time with its offset."""
    schema = {"type": "string", "format": "date-time"}
    return Filter(lookup=lookup, parse=parse_moment, description=description, schema=schema)


class DeclaredFilters(BaseFilterBackend):
    """Applies `view.filters`; `view.extra_parameters` names what the view reads itself."""

    @override
    def filter_queryset(self, request: Any, queryset: QuerySet[Any], view: Any) -> QuerySet[Any]:
        filters: Mapping[str, Filter] = getattr(view, "filters", {})
        extra = getattr(view, "extra_parameters", ())
        pages = PAGE_PARAMETERS if getattr(view, "pagination_class", None) else ()
        check_query_parameters(request, {*filters, *pages, *extra})
        for name, declared in filters.items():
            if name in request.GET:
                queryset = queryset.filter(condition_of(request, name, declared))
        return queryset

    @override
    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        """The declared parameters in OpenAPI's words."""
        return [_parameter(name, declared) for name, declared in getattr(view, "filters", {}).items()]


def condition_of(request: Any, name: str, declared: Filter) -> Q:
    """What the parameter asks for. Raises Malformed naming it."""
    try:
        raw = several(request, name) if declared.many else [one(request, name) or ""]
        values = [declared.parse(text) for text in raw]
    except ValueError as error:
        raise refuse(name, str(error)) from error
    return condition_on(declared, values)


def condition_on(declared: Filter, values: list[Any]) -> Q:
    """What the parsed values ask for."""
    if declared.where is not None:
        return declared.where(values)
    # The rows of a single value are in the order of an index that begins with it.
    return Q(**{declared.lookup: values[0]} if len(values) == 1 else {f"{declared.lookup}__in": values})


def parse_moment(raw: str) -> datetime:
    """The UTC time of an RFC 3339 text; ValueError otherwise. A "+" that became a space is forgiven.

    In UTC, because PostgreSQL knows no offsets beyond 15:59 and Python no years beyond 9999.
    """
    try:
        value = parse_datetime(raw.replace(" ", "+") if "T" in raw else raw)
        if value is not None and value.tzinfo is not None:
            return value.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError("must be an RFC 3339 time such as 2026-01-31T12:00:00Z.")


def asked_moment(request: Any, name: str) -> datetime | None:
    """The time that a parameter names, None when absent. Raises Malformed."""
    raw = one(request, name)
    if raw is None:
        return None
    try:
        return parse_moment(raw)
    except ValueError as error:
        raise refuse(name, str(error)) from error


def several(request: Any, name: str) -> list[str]:
    """The values of a parameter that is repeated, or separated by commas. Raises ValueError where they are too many."""
    raw = [text for value in request.GET.getlist(name) for text in value.split(",")]
    if len(raw) > MANY_MAX:
        raise ValueError(f"takes at most {MANY_MAX} values.")
    return raw


def _parameter(name: str, declared: Filter) -> dict[str, Any]:
    schema: dict[str, Any] = dict(declared.schema)
    if declared.many:
        schema = {"type": "array", "items": schema}
    parameter = {
        "name": name,
        "in": "query",
        "required": False,
        "description": declared.description,
        "schema": schema,
    }
    if declared.many:
        parameter |= {"style": "form", "explode": False}
    return parameter


def _text(raw: str) -> str:
    if len(raw) > TEXT_LENGTH_MAX:
        raise ValueError(f"has at most {TEXT_LENGTH_MAX} characters.")
    return raw


def _uuid(raw: str) -> UUID:
    try:
        return UUID(raw)
    except ValueError:
        raise ValueError("must be a UUID.") from None


def _boolean(raw: str) -> bool:
    if raw not in {"true", "false"}:
        raise ValueError("must be true or false.")
    return raw == "true"


def _integer(raw: str) -> int:
    if whole_number(raw.removeprefix("-"), digits=18) is None:
        raise ValueError("must be an integer.")
    return int(raw)
