"""Fields of request bodies that take JSON as it is: no number is read from text, no text made of a number."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail
from typing_extensions import override

from cluster import quantities
from workloads.podspec import grammar
from workloads.podspec.grammar import Fault
from workloads.podspec.specs import not_yet_message, says_nothing

ARGUMENT_LENGTH_MAX = 128 * 1024
CPU_CORES_MAX = Decimal(4096)
MEMORY_BYTES_MIN = Decimal(1024**2)
MEMORY_BYTES_MAX = Decimal(64 * 1024**4)
STORAGE_BYTES_MAX = Decimal(1024 * 1024**4)
CPU_CORES_MIN = Decimal("0.001")
Check = Callable[[Mapping[str, Any]], Fault | None]
"""What is wrong with a whole object, if anything is."""
CheckItem = Callable[[str, Any], Fault | None]
"""What is wrong with one key and its value."""


def refuse(fault: Fault | None) -> None:
    """Raise the fault, if there is one, as this field's ValidationError."""
    if fault is not None:
        raise serializers.ValidationError(fault.message, code=fault.code)


class TextField(serializers.CharField):
    """Text, kept as it was sent; `check` says what is wrong with it."""

    def __init__(self, *, check: Callable[[str], Fault | None] | None = None, **kwargs: Any) -> None:
        super().__init__(**{"trim_whitespace": False, **kwargs})
        self.check = check

    @override
    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)

    @override
    def run_validators(self, value: Any) -> None:
        super().run_validators(value)
        if self.check is not None:
            refuse(self.check(value))


class WholeNumberField(serializers.IntegerField):
    @override
    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return int(data)


class NumberField(serializers.FloatField):
    """A JSON number that is finite."""

    @override
    def to_internal_value(self, data: Any) -> float:
        if isinstance(data, bool) or not isinstance(data, int | float) or not math.isfinite(data):
            self.fail("invalid")
        return float(data)


class FlagField(serializers.BooleanField):
    @override
    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class TextListField(serializers.ListField):
    """An array of strings of at most 256 items; each item reaches the container as it is."""

    def __init__(self, **kwargs: Any) -> None:
        child = TextField(allow_blank=True, max_length=ARGUMENT_LENGTH_MAX)
        super().__init__(
            **{"child": child, "max_length": 256, "required": False, "allow_null": True, **kwargs}
        )


_QUANTITY = {"oneOf": [{"type": "string", "maxLength": 64, "example": "16Gi"}, {"type": "integer"}]}
_AMOUNT = {
    "oneOf": [
        *_QUANTITY["oneOf"],
        {
            "type": "object",
            "properties": {"request": {"type": "string"}, "limit": {"type": "string"}},
            "additionalProperties": False,
        },
    ]
}


@extend_schema_field(_QUANTITY)
class QuantityField(serializers.Field[Any, Any, Any, Any]):
    """One Kubernetes quantity, as text or as a whole number, kept as written."""

    default_error_messages = {"invalid": 'Write a quantity as text, for example "500m", "4" or "16Gi".'}

    def __init__(self, *, least: Decimal, most: Decimal, **kwargs: Any) -> None:
        super().__init__(**{"required": False, "allow_null": True, **kwargs})
        self.least, self.most = least, most

    @override
    def to_internal_value(self, data: Any) -> str:
        if isinstance(data, bool) or not isinstance(data, (str, int)):
            self.fail("invalid")
        return checked_quantity(data, least=self.least, most=self.most)

    @override
    def to_representation(self, value: Any) -> Any:
        return value


@extend_schema_field(_AMOUNT)
class AmountField(QuantityField):
    """A quantity, or {"request": quantity, "limit": quantity} of which one may be missing."""

    @override
    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return super().to_internal_value(data)
        unknown = [str(key)[:40] for key in data if key not in {"request", "limit"}]
        if unknown:
            raise serializers.ValidationError(f"There is no field {unknown[0]!r} here.", code="unknown_field")
        amounts = {
            key: super(AmountField, self).to_internal_value(data[key])
            for key in data
            if data[key] is not None
        }
        if not amounts:
            raise serializers.ValidationError("Give a request, a limit, or both.", code="required")
        request, limit = (
            amounts.get("request", amounts.get("limit")),
            amounts.get("limit", amounts.get("request")),
        )
        if quantities.parse(str(request)) > quantities.parse(str(limit)):
            raise serializers.ValidationError(
                f"The request {request} is above the limit {limit}.", code="request_above_limit"
            )
        return {"request": request, "limit": limit}


def checked_quantity(data: str | int, *, least: Decimal, most: Decimal) -> str:
    """`data` as text. Raises ValidationError with `invalid_quantity` or `out_of_range`."""
    if isinstance(data, int) and abs(data) >= 2**63:
        raise serializers.ValidationError("This is larger than any quantity may be.", code="out_of_range")
    if len(text := str(data)) > 64:
        raise serializers.ValidationError("A quantity has at most 64 characters.", code="invalid_quantity")
    try:
        value = quantities.parse(text)
    except ValueError as error:
        raise serializers.ValidationError(str(error), code="invalid_quantity") from error
    if not least <= value <= most:
        raise serializers.ValidationError(
            f"{text} is not between {_plain(least)} and {_plain(most)}.", code="out_of_range"
        )
    return text


def _plain(value: Decimal) -> str:
    """Bytes with a binary suffix, cores as they are."""
    for suffix, factor in (("Ti", 1024**4), ("Mi", 1024**2)):
        if value >= factor:
            return f"{value / factor:f}{suffix}"
    return f"{value:f}"


class _MapField(serializers.DictField):
    """An object whose values are all checked alike: `check` judges it as a whole and its message names the key; with
    `item`, a rule for one key and its value, every item that it refuses is an error at its key.
    """

    what: ClassVar[str]
    """What a value is called in a sentence."""

    def __init__(
        self,
        *,
        child: serializers.Field[Any, Any, Any, Any],
        check: Check,
        item: CheckItem | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"child": child, "required": False, "allow_null": True, **kwargs})
        self.check, self.item = check, item

    @override
    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, Mapping):
            self.fail("not_a_dict", input_type=type(data).__name__)
        if self.item is not None:
            # As many errors as there may be items, and no more.
            refuse(self.check(data))
        refused: dict[str, list[ErrorDetail]] = {}
        for key, value in data.items():
            self.check_key(key)
            fault = self._fault(key, value)
            if fault is not None and self.item is None:
                refuse(fault)
            elif fault is not None:
                refused[key[:80]] = [ErrorDetail(fault.message, code=fault.code)]
        if refused:
            raise serializers.ValidationError(refused)
        refuse(self.check(data))
        return dict(data)

    def _fault(self, key: Any, value: Any) -> Fault | None:
        try:
            self.child.run_validation(value)
        except serializers.ValidationError as error:
            message = f"The {self.what} of {str(key)[:80]!r} will not do: {_first_message(error)}"
            return Fault("invalid_value", message)
        return self.item(key, value) if self.item else None

    def check_key(self, key: Any) -> None:
        """What is wrong with a key, as far as `check` does not look at it."""


class TextMapField(_MapField):
    """An object whose values are strings."""

    what = "value"

    def __init__(self, *, check: Check, item: CheckItem | None = None, **kwargs: Any) -> None:
        super().__init__(item=item, child=TextField(allow_blank=True), check=check, **kwargs)

    @override
    def check_key(self, key: Any) -> None:
        if not isinstance(key, str):
            raise serializers.ValidationError("The keys must be text.", code="invalid_value")
        try:
            key.encode()
        except UnicodeEncodeError as error:
            raise serializers.ValidationError("A key is not valid Unicode.", code="invalid_value") from error


class UnitsField(_MapField):
    """An object whose values are whole numbers from 1 on."""

    what = "amount"

    def __init__(self, *, check: Check, most: int, **kwargs: Any) -> None:
        super().__init__(child=WholeNumberField(min_value=1, max_value=most), check=check, **kwargs)


def _first_message(error: serializers.ValidationError) -> str:
    return str(error.detail[0] if isinstance(error.detail, list) else error.detail)


def check_labels(labels: Mapping[str, str]) -> Fault | None:
    if len(labels) > grammar.LABELS_MAX:
        return Fault("too_many", f"At most {grammar.LABELS_MAX} labels may be given.")
    return None


class ChoiceLaterField(serializers.ChoiceField):
    """A choice of which some values are part of the contract and not supported yet."""

    def __init__(self, *, now: tuple[str, ...], later: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init__(**{"choices": [*now, *later], "required": False, "allow_null": True, **kwargs})
        self.later = later

    @override
    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, str) or data not in self.choices:
            self.fail("invalid_choice", input=str(data)[:80])
        if data in self.later:
            now = ", ".join(choice for choice in self.choices if choice not in self.later)
            raise serializers.ValidationError(
                f"{data} is not supported yet; possible are: {now}.", code="not_yet_supported"
            )
        return data


class NotYetField(serializers.JSONField):
    """A field that a later version gives a meaning: null, what is empty and `defaults` are passed over."""

    def __init__(self, *defaults: Any, **kwargs: Any) -> None:
        text = "Not supported yet: leave it out, or give null or the default."
        super().__init__(**{"required": False, "allow_null": True, "help_text": text, **kwargs})
        self.defaults = defaults

    @override
    def to_internal_value(self, data: Any) -> Any:
        if not says_nothing(data, self.defaults):
            message = not_yet_message(self.field_name or "This field")
            raise serializers.ValidationError(message, code="not_yet_supported")
        return None
