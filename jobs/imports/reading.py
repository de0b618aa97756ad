"""A manifest as text, and read field by field so that nothing of it can be lost unseen. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from foundation.errors import FieldProblem, Malformed
from workloads.podspec.specs import says_nothing

TEXT_BYTES_MAX = 128 * 1024
NODES_MAX = 20_000
"""Values in all; those behind an alias count each time that it is used."""
DOCUMENTS_MAX = 20
UNREADABLE = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RecursionError)
"""What PyYAML's own types, such as sexagesimal numbers and times, raise when a value does not fit."""
NO_PLACE = "There is no place for it in a training run."
_TYPES = {str: "text", int: "whole number", bool: "true or false", dict: "object", list: "list"}


class _Loader(yaml.SafeLoader):
    """Reads times as the texts that they are in Kubernetes."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def documents(text: str) -> list[Any]:
    """The documents of a YAML or JSON text without the empty ones. Malformed says what is wrong with it."""
    if len(text.encode("utf-8", "replace")) > TEXT_BYTES_MAX:
        raise _malformed(f"A manifest has at most {TEXT_BYTES_MAX // 1024} KiB.", "too_large")
    try:
        parsed = (
            [json.loads(text, object_pairs_hook=_unique)] if text.lstrip().startswith("{") else _yaml(text)
        )
        # What an alias stands for becomes a value of its own; what is no JSON raises here.
        plain = [
            json.loads(json.dumps(document, allow_nan=False)) for document in parsed if document is not None
        ]
    except yaml.YAMLError as error:
        raise _malformed(f"This is neither YAML nor JSON: {' '.join(str(error).split())[:300]}") from error
    except UNREADABLE as error:
        raise _malformed(f"This is no manifest: {str(error)[:300] or 'it is nested too deeply'}") from error
    if len(plain) > DOCUMENTS_MAX:
        raise _malformed(f"At most {DOCUMENTS_MAX} documents are read.", "too_large")
    return plain


def _yaml(text: str) -> list[Any]:
    loader = _Loader(text)
    parsed = []
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                _check_size(node, {}, set())
                parsed.append(loader.construct_document(node))
    finally:
        loader.dispose()
    return parsed


def _check_size(node: yaml.Node, known: dict[int, int], above: set[int]) -> int:
    """Values below the node, each alias expanded. ValueError for too many, for a cycle and for a key given twice."""
    if id(node) in above:
        raise ValueError("an alias stands for something that holds it")
    if id(node) in known:
        return known[id(node)]
    inner: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(keys) != len(node.value):
            raise ValueError("a key is no text")
        twice = next((key for key, times in Counter(keys).items() if key != "<<" and times > 1), None)
        if twice is not None:
            raise ValueError(f"the key {twice[:80]} is given twice")
        inner = [value for _, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        inner = list(node.value)
    size = 1 + sum(_check_size(value, known, above | {id(node)}) for value in inner)
    if size > NODES_MAX:
        raise ValueError(f"it has more than {NODES_MAX} values")
    known[id(node)] = size
    return size


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
        self.refused: list[FieldProblem] = []
        self.dropped: dict[str, str] = {}

    def refuse(self, path: str, message: str = NO_PLACE, code: str = "no_place") -> None:
        """Say that this manifest cannot be mapped, for this."""
        self.refused.append(FieldProblem(field=path, code=code, message=message))

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
