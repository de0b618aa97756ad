"""`?fields=`: only those top-level fields of an answer that a client asks for."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from typing_extensions import override

from foundation.http.query import one, refuse

FIELDS = "fields"


class ChosenFields(serializers.Serializer[Any]):
    """Answers the fields that `fields` of its context names, all of them without one. The schema requires none."""

    @classmethod
    def names(cls) -> frozenset[str]:
        return frozenset(cls._declared_fields)

    @override
    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        fields = super().get_fields()
        chosen: Collection[str] = self.context.get(FIELDS, fields)
        return {name: field for name, field in fields.items() if name in chosen}


def chosen_fields(request: Any, serializer: type[ChosenFields]) -> frozenset[str]:
    """The fields that the request asks for, all where it names none. Raises Malformed naming the parameter."""
    raw = one(request, FIELDS)
    if raw is None:
        return serializer.names()
    chosen = frozenset(raw.split(","))
    if not chosen <= serializer.names():
        known = ", ".join(sorted(serializer.names()))
        raise refuse(FIELDS, f"must be of {known}, separated by commas.", code="unknown_field")
    return chosen


def fields_parameter(serializer: type[ChosenFields]) -> OpenApiParameter:
    return OpenApiParameter(
        FIELDS,
        {"type": "array", "items": {"type": "string", "enum": sorted(serializer.names())}},
        explode=False,
        description="Only these fields of the answer; all of them without it.",
    )


class _NoneRequired(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]
    target_class = ChosenFields
    match_subclasses = True

    @override
    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        schema: dict[str, Any] = auto_schema._map_serializer(self.target, direction, bypass_extensions=True)  # noqa: SLF001 - as its documentation does
        schema.pop("required", None)
        return schema
