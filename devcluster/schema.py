"""Decoding as Go does it: known fields of the right type stay, unknown ones are dropped and reported.

`schema.json` lists the fields of every type; tests/devcluster proves it equal to the official client's models.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .errors import bad_request
from .kinds import Kind
from .objects import Obj

TYPES: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "schema.json").read_text())
_SCALARS: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "string"), "int": ((int,), "int32"), "bool": ((bool,), "bool"), "datetime": ((str,), "Time"),
}  # fmt: skip
_JSON_NAMES = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}

# The key by which items of a list are one and the same thing; other lists are replaced as a whole.
MERGE_KEYS: dict[str, tuple[str, ...]] = {
    "List[Container]": ("name",), "List[EphemeralContainer]": ("name",), "List[EnvVar]": ("name",),
    "List[Volume]": ("name",), "List[VolumeMount]": ("mountPath",), "List[VolumeDevice]": ("devicePath",),
    "List[ContainerPort]": ("containerPort", "protocol"), "List[ServicePort]": ("port", "protocol"),
    "List[LocalObjectReference]": ("name",), "List[OwnerReference]": ("uid",), "List[PodSchedulingGate]": ("name",),
    "List[PodCondition]": ("type",), "List[JobCondition]": ("type",), "List[DeploymentCondition]": ("type",),
    "List[NodeCondition]": ("type",), "List[Condition]": ("type",), "List[ReplicaSetCondition]": ("type",),
    "List[HostAlias]": ("ip",), "List[TopologySpreadConstraint]": ("topologyKey", "whenUnsatisfiable"),
}  # fmt: skip


def decode(kind: Kind, body: Any) -> tuple[Obj, list[str]]:
    """The object without unknown fields and nulls, and the paths of the unknown fields."""
    if not isinstance(body, dict):
        raise bad_request("the object provided is unrecognized (must be of type object)")
    unknown: list[str] = []
    result = _decode(kind.name, body, "", unknown, kind.name, kind)
    return result, unknown


def _decode(type_: str, value: Any, path: str, unknown: list[str], owner: str, kind: Kind) -> Any:
    if type_.startswith("List["):
        _check(value, (list,), type_[5:-1], path, owner, kind)
        inner = type_[5:-1]
        return [_decode(inner, v, f"{path}[{i}]", unknown, owner, kind) for i, v in enumerate(value)]
    if type_.startswith("Dict["):
        _check(value, (dict,), "map[string]string", path, owner, kind)
        if type_ == "Dict[str, str]" and path.rpartition(".")[2] not in _QUANTITY_MAPS:
            for key, text in value.items():
                _check(text, (str,), "string", f"{path}.{key}", owner, kind)
        return {k: v for k, v in value.items() if v is not None}
    if type_ in _SCALARS:
        allowed, name = _SCALARS[type_]
        _check(value, allowed, name, path, owner, kind)
        return value
    fields = TYPES.get(type_)
    if fields is None:
        return value
    _check(value, (dict,), type_, path, owner, kind)
    result = {}
    for key, item in value.items():
        where = f"{path}.{key}" if path else key
        if key not in fields:
            unknown.append(where)
        elif item is not None:
            result[key] = _decode(fields[key], item, where, unknown, type_, kind)
    return result


# Quantities may be written as numbers.
_QUANTITY_MAPS = {"limits", "requests", "capacity", "allocatable", "hard", "used", "max", "min", "default",
                  "defaultRequest", "overhead", "allocatedResources"}  # fmt: skip


def _check(value: Any, allowed: tuple[type, ...], name: str, path: str, owner: str, kind: Kind) -> None:
    if isinstance(value, allowed) and not (isinstance(value, bool) and bool not in allowed):
        return
    got = _JSON_NAMES.get(type(value), "null")
    raise bad_request(
        f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: '
        f"json: cannot unmarshal {got} into Go struct field {owner}.{path} of type {name}"
    )


def merge_key(type_: str, item: Any) -> tuple[Any, ...] | None:
    """What identifies `item` in a list of `type_`; None where the list is one value."""
    keys = MERGE_KEYS.get(type_)
    if keys is None or not isinstance(item, dict):
        return None
    return tuple(item.get(k, "TCP" if k == "protocol" else None) for k in keys)


def field_type(type_: str, field: str) -> str:
    """The type of a field; empty where nothing is known of it."""
    if type_.startswith("Dict["):
        return "str"
    return TYPES.get(type_, {}).get(field, "")
