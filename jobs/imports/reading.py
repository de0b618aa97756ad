"""A manifest as text, and read field by field so that nothing of it can be lost unseen. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from foundation import bounded_yaml
from foundation.errors import FieldProblem, Malformed
from workloads.podspec.specs import says_nothing

TEXT_BYTES_MAX = 128 * 1024
LIMITS = bounded_yaml.Limits(values=20_000, documents=20, aliases=1000)
REFUSED_MAX = 100
"""Paths that are named of one manifest; the last says how many more there are."""
NO_PLACE = "There is no place for it in a training run."
_TYPES = {str: "text", int: "whole number", bool: "true or false", dict: "object", list: "list"}


def documents(text: str) -> list[Any]:
    """The documents of a YAML or JSON text without the empty ones. Malformed says what is wrong with it."""
    if len(text.encode("utf-8", "replace")) > TEXT_BYTES_MAX:
        raise _malformed(f"A manifest has at most {TEXT_BYTES_MAX // 1024} KiB.", "too_large")
    try:
        parsed = (
            [json.loads(text, object_pairs_hook=_unique)]
            if text.lstrip().startswith("{")
            else bounded_yaml.read(text, LIMITS)
        )
        # What an alias stands for becomes a value of its own; what is no JSON raises here.
        return [
            json.loads(json.dumps(document, allow_nan=False)) for document in parsed if document is not None
        ]
    except bounded_yaml.TooMuchError as error:
        raise _malformed(f"This is too much for a manifest: {error}.", "too_large") from error
    except bounded_yaml.UNREADABLE as error:
        said = str(error)[:300] or "it is nested too deeply"
        raise _malformed(f"This is neither YAML nor JSON: {said}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a key is given twice")
    return values


def _malformed(message: str, code: str = "invalid") -> Malformed:
    return Malformed(message, code=code, errors=(FieldProblem(field="manifest", code=code, message=message),))


class Notes:
    """What was found on the way: what has no place, and what is left out because the portal sees to it itself."""

    def __init__(self) -> None:
        self._refused: list[FieldProblem] = []
        self._unnamed = 0
        self.dropped: dict[str, str] = {}

    @property
    def refused(self) -> list[FieldProblem]:
        """What has no place, up to REFUSED_MAX of it by name."""
        if not self._unnamed:
            return self._refused
        more = f"And {self._unnamed:,} more that have no place in a training run."
        return [*self._refused, FieldProblem(field="", code="no_place", message=more)]

    def refuse(self, path: str, message: str = NO_PLACE, code: str = "no_place") -> None:
        """Say that this manifest cannot be mapped, for this."""
        if len(self._refused) < REFUSED_MAX:
            self._refused.append(FieldProblem(field=path, code=code, message=message))
        else:
            self._unnamed += 1

    def drop(self, path: str, why: str) -> None:
        """Say what is left out, and why that is no loss."""
        self.dropped.setdefault(path, why)


class Fields:
    """An object of the manifest. `refuse_rest` refuses the fields that were not taken."""

    def __init__(self, value: Any, path: str, notes: Notes) -> None:
        self.path, self.notes = path, notes
        self.children: list[Fields] = []
        self.rest: dict[str, Any] = dict(value) if isinstance(value, Mapping) else {}
        if not isinstance(value, Mapping) and value is not None:
            notes.refuse(path, "An object is needed here.", "invalid")

    def at(self, name: str | int) -> str:
        """The path of a field."""
        return f"{self.path}.{name}" if self.path else str(name)

    def take(self, name: str, kind: type) -> Any:
        """The value, which then counts as seen; None where there is none. One of another type is refused."""
        value = self.rest.pop(name, None)
        if value is None or (isinstance(value, kind) and isinstance(value, bool) == (kind is bool)):
            return value
        self.notes.refuse(self.at(name), f"This must be a {_TYPES[kind]}.", "invalid")
        return None

    def quantity(self, name: str) -> str | None:
        """A quantity as text, also where a number is written."""
        value = self.rest.pop(name, None)
        if value is None or (isinstance(value, (str, int, float)) and not isinstance(value, bool)):
            return None if value is None else str(value)
        self.notes.refuse(self.at(name), "This must be a quantity.", "invalid")
        return None

    def object(self, name: str) -> Fields:
        """The object of that name; an empty one where there is none."""
        child = Fields(self.rest.pop(name, None), self.at(name), self.notes)
        self.children.append(child)
        return child

    def items(self, name: str) -> list[Fields]:
        """The objects of the list of that name."""
        listed = self.take(name, list) or []
        children = [Fields(item, f"{self.at(name)}.{index}", self.notes) for index, item in enumerate(listed)]
        self.children += children
        return children

    def texts(self, name: str) -> list[str]:
        """The texts of the list of that name."""
        texts: list[str] = []
        for index, item in enumerate(self.take(name, list) or []):
            if isinstance(item, str):
                texts.append(item)
            else:
                self.notes.refuse(f"{self.at(name)}.{index}", "This must be a text.", "invalid")
        return texts

    def drop(self, name: str, why: str) -> None:
        """Leave a field out, saying why; nothing is said where it is empty."""
        if not says_nothing(self.rest.pop(name, None)):
            self.notes.drop(self.at(name), why)

    def pass_over(self, **values: Any) -> None:
        """Take fields that say what holds anyway, such as a default that an API server wrote out."""
        for name, value in values.items():
            if name in self.rest and self.rest[name] == value:
                del self.rest[name]

    def names(self) -> Iterator[str]:
        """What is left, by name."""
        yield from [name for name, value in self.rest.items() if not says_nothing(value)]

    def refuse_rest(self) -> None:
        """Refuse every field that was not taken, here and below, each with its path."""
        for name in self.names():
            self.notes.refuse(self.at(name))
        self.rest = {}
        for child in self.children:
            child.refuse_rest()
