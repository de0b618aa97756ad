"""What two requests and their outcomes have not in common. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

VALUE_LENGTH_MAX: Final = 300
_NAMED_BY: Final = ("name", "path", "claim", "key")
_NO_CAUSE: Final = frozenset({"name", "left_out"})
"""What differs between any two requests and changes nothing of how they run."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A field by its path; None where that side does not have it."""

    field: str
    a: str | None
    b: str | None


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Difference]:
    """The fields that differ, by their paths; lists of things with names are compared by name."""
    one, other = dict(_flat(a, "")), dict(_flat(b, ""))
    return [
        Difference(name, _text(one.get(name)), _text(other.get(name)))
        for name in sorted(one.keys() | other.keys())
        if name.split(".")[0] not in _NO_CAUSE and one.get(name) != other.get(name)
    ]


def _flat(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)) and value and all(_name(item) for item in value):
        for item in value:
            name = _name(item)
            rest = {key: inner for key, inner in item.items() if inner is not None and inner != name}
            yield from _flat(rest or {"there": True}, f"{path}.{name}")
    elif isinstance(value, (list, tuple)):
        yield path, " ".join(str(item) for item in value) or None
    else:
        yield path, value


def _name(item: Any) -> str:
    if not isinstance(item, Mapping):
        return ""
    return next((str(item[key]) for key in _NAMED_BY if item.get(key)), "")


def _text(value: Any) -> str | None:
    if value is None or value == "":
        return None
    text = str(value)
    return text if len(text) <= VALUE_LENGTH_MAX else text[: VALUE_LENGTH_MAX - 1] + "…"
