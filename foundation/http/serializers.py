"""Serializers that say what they did not understand, instead of dropping it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail
from rest_framework.settings import api_settings
from typing_extensions import override

from foundation.money import as_json

UNKNOWN_NAMED_MAX = 20
"""Of the fields of one object that there are not; the rest are counted."""


class _Strict(serializers.Serializer[Any]):
    """What both bases share: every key that a client sent is used as what it is, or named in the error."""

    # Name -> what it is: part of the API's contract that this release cannot do yet. An empty value (null,
    # "", [], {}, false) is the documented default and accepted.
    unsupported_fields: ClassVar[Mapping[str, str]] = {}

    @override
    def to_internal_value(self, data: Any) -> Any:
        refused = self._refused(data) if isinstance(data, Mapping) else {}
        try:
            value = super().to_internal_value(data)
        except serializers.ValidationError as error:
            if not refused or not isinstance(error.detail, dict):
                raise
            raise serializers.ValidationError({**error.detail, **refused}) from error
        if refused:
            raise serializers.ValidationError(refused)
        return value

    def _refused(self, data: Mapping[str, Any]) -> dict[str, list[ErrorDetail]]:
        refused: dict[str, list[ErrorDetail]] = {}
        fields, unknown = self.fields, 0
        for name in data:
            field = fields.get(name)
            if field is None and name in self.unsupported_fields:
                if data[name] in (None, "", False) or data[name] in ([], {}):
                    continue
                what = self.unsupported_fields[name]
                refused[name] = [ErrorDetail(f"Not supported yet: {what}.", code="not_yet_supported")]
            elif field is None:
                unknown += 1
                if unknown <= UNKNOWN_NAMED_MAX:
                    refused[str(name)] = [ErrorDetail("There is no such field.", code="unknown_field")]
            elif field.read_only:
                refused[name] = [ErrorDetail("This field cannot be set.", code="read_only")]
            elif (wrong := _wrong_type(field, data[name]) or _too_long(field, data[name])) is not None:
                refused[name] = [wrong]
        if unknown > UNKNOWN_NAMED_MAX:
            more = f"And {unknown - UNKNOWN_NAMED_MAX:,} more fields that there are not."
            refused[api_settings.NON_FIELD_ERRORS_KEY] = [ErrorDetail(more, code="unknown_field")]
        return refused


def _wrong_type(field: serializers.Field[Any, Any, Any, Any], value: Any) -> ErrorDetail | None:
    """No number is read from text, "nan" above all, no text made of a number, and no flag of either."""
    if value is None:
        return None
    for kind, accepted, word in _JSON_TYPES:
        if isinstance(field, kind) and type(value) not in accepted:
            return ErrorDetail(f"A {word} is needed here.", code="invalid")
    return None


def _too_long(field: Any, value: Any) -> ErrorDetail | None:
    """Said of a list or an object before its items are looked at: each would bring an error of its own."""
    most = getattr(field, "max_length", None)
    if not isinstance(value, (list, dict)) or most is None or len(value) <= most:
        return None
    said = getattr(field, "error_messages", {}).get("max_length", "At most {max_length} are accepted.")
    return ErrorDetail(str(said).format(max_length=most), code="max_length")


_JSON_TYPES: tuple[tuple[type[Any], tuple[type, ...], str], ...] = (
    (serializers.BooleanField, (bool,), "true or false"),
    (serializers.IntegerField, (int,), "whole number"),
    (serializers.FloatField, (int, float), "number"),
    (serializers.CharField, (str,), "text"),
)


class StrictSerializer(_Strict):
    """Base of every request body.

    Errors (422), each naming its field: `unknown_field`, `read_only`, `not_yet_supported` for a name in
    `unsupported_fields` that is given a value.
    """


class MoneySerializer(serializers.Serializer[Any]):
    """An amount of money."""

    amount_micro_usd = serializers.IntegerField()
    usd = serializers.CharField()

    @override
    def to_representation(self, instance: int) -> Any:
        """The representation of micro-USD."""
        return as_json(instance)


class TextOrNullField(serializers.CharField):
    """Text that is stored empty where there is none, and answered as null."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_null=True, **kwargs)

    @override
    def to_representation(self, value: Any) -> Any:
        return super().to_representation(value) or None


class EpochSecondsField(serializers.DateTimeField):
    """A moment that is computed in whole seconds since the epoch."""

    @override
    def to_representation(self, value: Any) -> Any:
        return super().to_representation(datetime.fromtimestamp(value, tz=UTC))
