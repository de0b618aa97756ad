"""Decoding as Go does it: known fields of the right type stay, unknown ones are dropped and reported.

`schema.json` lists the fields of every type; tests/devcluster proves it equal to the official client's models.
`schema_custom.json` does so for the kinds of CustomResourceDefinitions; tests/contract compares it with the real ones.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from .errors import ApiError, Fault, bad_request, invalid
from .kinds import Kind
from .objects import Obj

_HERE = Path(__file__).parent
CUSTOM_TYPES: dict[str, dict[str, str]] = json.loads((_HERE / "schema_custom.json").read_text())
TYPES: dict[str, dict[str, str]] = json.loads((_HERE / "schema.json").read_text()) | CUSTOM_TYPES
FIELDS: dict[str, dict[str, Any]] = yaml.safe_load((_HERE / "fields.yaml").read_text())
"""What is asked of the fields of a type, and what is filled in."""
_SCALARS: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "string"), "int": ((int,), "int32"), "bool": ((bool,), "bool"), "datetime": ((str,), "Time"),
}  # fmt: skip
_JSON_NAMES = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}
# The same in the words of OpenAPI, which judges custom resources.
_OPENAPI_NAMES = {
    str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object",
}  # fmt: skip
UNCHECKED = Fault(
    "<nil>", "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation",
)  # fmt: skip
"""What the real server adds when a custom resource is too wrong for its rules to be tried."""

MERGE_KEYS: dict[str, tuple[str, ...]] = {
    f"List[{type_}]": tuple(rules["merge_key"]) for type_, rules in FIELDS.items() if "merge_key" in rules
}
"""What makes items of a list one and the same thing; other lists are replaced as a whole."""


def decode(kind: Kind, body: Any) -> tuple[Obj, list[str]]:
    """The object without unknown fields and nulls, and the paths of the unknown fields."""
    if not isinstance(body, dict):
        raise bad_request("the object provided is unrecognized (must be of type object)")
    unknown: list[str] = []
    try:
        result = _decode(kind.name, body, "", unknown, kind.name)
    except _MistypedError as error:
        raise _refusal(kind, body, error) from error
    return result, unknown


class _MistypedError(Exception):
    """A value of another type than its field has."""

    def __init__(self, value: Any, allowed: tuple[type, ...], name: str, path: str, owner: str) -> None:
        super().__init__(path)
        self.value, self.allowed, self.name, self.path, self.owner = value, allowed, name, path, owner


def _refusal(kind: Kind, body: Obj, error: _MistypedError) -> ApiError:
    """The error in the words of Go's decoder, or of a custom resource's schema, which leaves metadata to Go."""
    if kind.custom and error.path.partition(".")[0] in {"spec", "status"}:
        wanted = _OPENAPI_NAMES[error.allowed[0]]
        got = _OPENAPI_NAMES.get(type(error.value), "null")
        text = f'Invalid value: "{got}": {error.path} in body must be of type {wanted}: "{got}"'
        metadata = body.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, dict) else ""
        return invalid(kind, str(name), [Fault(error.path, "FieldValueTypeInvalid", text), UNCHECKED])
    got = _JSON_NAMES.get(type(error.value), "null")
    return bad_request(
        f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: '
        f"json: cannot unmarshal {got} into Go struct field {error.owner}.{error.path} of type {error.name}"
    )


def _decode(type_: str, value: Any, path: str, unknown: list[str], owner: str) -> Any:
    if type_.startswith("List["):
        inner = inner_type(type_)
        _check(value, (list,), inner, path, owner)
        return [_decode(inner, v, f"{path}[{i}]", unknown, owner) for i, v in enumerate(value)]
    if type_.startswith("Dict["):
        return _decode_map(type_, value, path, unknown, owner)
    if type_ in _SCALARS:
        allowed, name = _SCALARS[type_]
        if (owner, path.rpartition(".")[2]) in _QUANTITIES and isinstance(value, int | float):
            return str(value)
        _check(value, allowed, name, path, owner)
        return value
    fields = TYPES.get(type_)
    if fields is None:
        return value
    _check(value, (dict,), type_, path, owner)
    result = {}
    for key, item in value.items():
        where = f"{path}.{key}" if path else key
        if key not in fields:
            unknown.append(where)
        elif item is not None:
            result[key] = _decode(fields[key], item, where, unknown, type_)
    return result


def _decode_map(type_: str, value: Any, path: str, unknown: list[str], owner: str) -> Obj:
    _check(value, (dict,), "map[string]string", path, owner)
    items = {k: v for k, v in value.items() if v is not None}
    inner = inner_type(type_)
    if inner in TYPES:
        return {k: _decode(inner, v, f"{path}.{k}", unknown, owner) for k, v in items.items()}
    if inner == "str" and path.rpartition(".")[2] not in _QUANTITY_MAPS:
        for key, text in value.items():
            _check(text, (str,), "string", f"{path}.{key}", owner)
    return items


def inner_type(type_: str) -> str:
    """X of `List[X]` and `Dict[str, X]`."""
    return type_[5:-1].removeprefix("str, ")


# Quantities may be written as numbers.
_QUANTITY_MAPS = {"limits", "requests", "capacity", "allocatable", "hard", "used", "max", "min", "default",
                  "defaultRequest", "overhead", "allocatedResources", "minResources"}  # fmt: skip
# Of fields that are one.
_QUANTITIES = {
    ("MetricTarget", "value"), ("MetricTarget", "averageValue"), ("MetricValueStatus", "value"),
    ("MetricValueStatus", "averageValue"), ("HPAScalingRules", "tolerance"),
}  # fmt: skip


def _check(value: Any, allowed: tuple[type, ...], name: str, path: str, owner: str) -> None:
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        raise _MistypedError(value, allowed, name, path, owner)


def merge_key(type_: str, item: Any) -> tuple[Any, ...] | None:
    """What identifies `item` in a list of `type_`; None where the list is one value."""
    keys = MERGE_KEYS.get(type_)
    if keys is None or not isinstance(item, dict):
        return None
    return tuple(item.get(k, "TCP" if k == "protocol" else None) for k in keys)


def field_type(type_: str, field: str) -> str:
    """The type of a field; empty where nothing is known of it."""
    if type_.startswith("Dict["):
        return inner_type(type_)
    return TYPES.get(type_, {}).get(field, "")
