"""One walk over any object by the types of its schema: what `fields.yaml` asks of each field.

Kubernetes' own kinds are judged in the words of Go's validation, custom resources in those of their OpenAPI schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from devcluster.errors import Fault, duplicate, not_implemented, required, unsupported, wrong
from devcluster.kinds import Kind
from devcluster.objects import Obj
from devcluster.schema import CUSTOM_TYPES, FIELDS, MERGE_KEYS, UNCHECKED, field_type, inner_type, merge_key

from .formats import AMOUNT, FORMATS

_AMOUNTS = ("limits", "requests", "minResources")
_STOPS_RULES = {"FieldValueRequired", "FieldValueNotSupported"}


def faults(kind: Kind, obj: Obj) -> Iterator[Fault]:
    """The faults of everything but the status; 501 for what devcluster does not serve."""
    own = {
        key: value
        for key, value in obj.items()
        if key != "status" and not (kind.custom and key == "metadata")
    }
    problems = list(_walk(kind.name, own, "", custom=kind.custom))
    yield from problems
    if kind.custom and any(fault.reason in _STOPS_RULES for fault in problems):
        yield UNCHECKED
    elif kind.custom and not problems:
        yield from _repeated(kind.name, own, "")


def _walk(type_: str, value: Any, path: str, *, custom: bool) -> Iterator[Fault]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(inner_type(type_), item, f"{path}[{index}]", custom=custom)
    elif isinstance(value, dict):
        asked = FIELDS.get(type_, {})
        yield from _missing(asked, value, path, custom=custom)
        for key, item in value.items():
            where = f"{path}.{key}" if path else key
            rules = asked.get(key, {})
            _check_served(rules, item, where)
            if custom and key in _AMOUNTS and isinstance(item, dict):
                yield from _amounts(item, where)
            elif not custom or type_ in CUSTOM_TYPES:
                yield from _field(rules, item, where, custom=custom)
            yield from _walk(field_type(type_, key), item, where, custom=custom)


def _missing(asked: dict[str, Any], value: Obj, path: str, *, custom: bool) -> Iterator[Fault]:
    """Absent fields; Go takes an empty one for absent."""
    for name, rules in asked.items():
        if name == "one_of" and not (custom or value.keys() & set(rules)):
            yield required(path, "must specify a handler type")
        elif name == "served" and (other := sorted(value.keys() - set(rules))):
            raise not_implemented(f"{asked['unserved']} {other[0]} ({path}.{other[0]})")
        elif isinstance(rules, dict) and _is_missing(rules, value, name, custom=custom):
            yield required(f"{path}.{name}" if path else name)


def _is_missing(rules: dict[str, Any], value: Obj, name: str, *, custom: bool) -> bool:
    if custom:
        return "required" in rules and name not in value
    return bool({"required", "not_empty"} & rules.keys()) and not value.get(name)


def _check_served(rules: dict[str, Any], value: Any, path: str) -> None:
    unserved = rules.get("unserved")
    if isinstance(unserved, list) and value in unserved:
        raise not_implemented(f"{path} {value}")
    if isinstance(unserved, str) and value:
        raise not_implemented(f"{unserved} ({path})")


def _field(rules: dict[str, Any], value: Any, path: str, *, custom: bool) -> Iterator[Fault]:
    for text in _limits(rules, value):
        yield wrong(path, value, f"{path} in body should {text}" if custom else f"must {text}")
    choices = rules.get("enum")
    if choices is not None and value not in choices:
        # A definition lists them in its own order.
        yield unsupported(path, value, tuple(choices if custom else sorted(choices)))
    if len(value if isinstance(value, list) else "-") < rules.get("min_items", 0):
        yield wrong(path, 0, f"{path} in body should have at least {rules['min_items']} items")
    if "format" in rules and value and (text := FORMATS[rules["format"]](value)):
        yield wrong(path, value, text)
    if "unique" in rules:
        yield from _same(value, rules["unique"], path)


def _limits(rules: dict[str, Any], value: Any) -> Iterator[str]:
    if "minimum" in rules and value < rules["minimum"]:
        yield f"be greater than or equal to {rules['minimum']}"
    if "maximum" in rules and value > rules["maximum"]:
        yield f"be less than or equal to {rules['maximum']}"
    if "positive" in rules and value <= 0:
        yield "be greater than zero"
    if "min_length" in rules and len(value) < rules["min_length"]:
        yield f"be at least {rules['min_length']} chars long"


def _same(items: list[Obj], key: str, path: str) -> Iterator[Fault]:
    seen = set()
    for index, item in enumerate(items):
        if item.get(key) in seen:
            yield duplicate(f"{path}[{index}].{key}", item[key])
        seen |= {item[key]} if item.get(key) else set()


def _amounts(values: Obj, path: str) -> Iterator[Fault]:
    for key, value in values.items():
        if not re.fullmatch(AMOUNT[1:-1], str(value)):
            yield wrong(f"{path}.{key}", value, f"{path}.{key} in body should match '{AMOUNT}'")


def _repeated(type_: str, value: Any, path: str) -> Iterator[Fault]:
    """Items of a custom resource's list that have the same key."""
    if isinstance(value, list):
        seen = set()
        for index, item in enumerate(value):
            key = merge_key(type_, item)
            if key in seen and type_ in MERGE_KEYS:
                yield duplicate(f"{path}[{index}]", item)
            seen.add(key)
            yield from _repeated(inner_type(type_), item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            where = f"{path}[{key}]" if type_.startswith("Dict[") else f"{path}.{key}" if path else key
            yield from _repeated(field_type(type_, key), item, where)
