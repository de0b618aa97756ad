"""YAML of somebody else: counted event by event, and composed only when the whole of it is small enough. Pure.

The events are libyaml's, which builds nothing; what is too much ends the reading where it stands. Numbers are those of YAML 1.2
where YAML 1.1 costs more than it says: `1:30` is a text (as a base-60 number it takes a time that grows with the square of its
length, and no Kubernetes reads one), and so is a number of more digits than 64 bits need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

UNREADABLE: Final = (
    ValueError,
    TypeError,
    ArithmeticError,
    LookupError,
    AttributeError,
    RecursionError,
)
"""What PyYAML's own types, such as times, raise when a value does not fit."""
DIGITS_MAX: Final = 40
_TAG: Final = "tag:yaml.org,2002:"
_PLAIN_TAGS: Final = frozenset(
    f"{_TAG}{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")
)
_STARTS = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
_ENDS = (yaml.MappingEndEvent, yaml.SequenceEndEvent)
_VALUES = (yaml.ScalarEvent, yaml.AliasEvent, *_STARTS)


class UnreadableError(ValueError):
    """The text is no YAML, or not as it is wanted; the message is for who wrote it."""


class TooMuchError(UnreadableError):
    """More of something than is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    values: int
    """Keys and values in all; those behind an alias count each time that it is used."""
    depth: int = 64
    documents: int = 1
    aliases: int = 0
    times: bool = False
    """Whether times are read as such; else they are the texts that they are in Kubernetes."""


class _Texts(yaml.CSafeLoader):
    """Times are texts, and so is what only looks like a number."""


class _Times(yaml.CSafeLoader):
    """The same with times."""


def _number(loader: Any, node: yaml.ScalarNode) -> Any:
    text = loader.construct_scalar(node)
    if ":" in text or len(text) > DIGITS_MAX:
        return text
    tag = node.tag.removeprefix(_TAG)
    return loader.construct_yaml_int(node) if tag == "int" else loader.construct_yaml_float(node)


for _kind in (_Texts, _Times):
    _kind.add_constructor(f"{_TAG}int", _number)
    _kind.add_constructor(f"{_TAG}float", _number)
_Texts.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != f"{_TAG}timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def read(text: str, limits: Limits) -> list[Any]:
    """The documents of a text, an empty one as None. UnreadableError says what is wrong with it, TooMuchError what is too much."""
    try:
        count(text, limits)
        return list(_documents(text, limits))
    except UnreadableError:
        raise
    except yaml.YAMLError as error:
        raise UnreadableError(" ".join(str(error).split())[:300]) from error
    except UNREADABLE as error:
        raise UnreadableError(str(error)[:300] or "it is nested too deeply") from error


def count(text: str, limits: Limits) -> int:
    """The number of values of a text that keeps to the limits. Raises TooMuchError at the first that does not."""
    values = depth = documents = aliases = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, _VALUES):
            values += 1
            _check_tag(event)
        if isinstance(event, _STARTS):
            depth += 1
        elif isinstance(event, _ENDS):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            aliases += 1
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        for found, most, what in (
            (values, limits.values, "values"),
            (depth, limits.depth, "levels"),
            (aliases, limits.aliases, "aliases"),
            (documents, limits.documents, "documents"),
        ):
            if found > most:
                raise TooMuchError(_too_much(most, what))
    return values


def _too_much(most: int, what: str) -> str:
    if most > 1:
        return f"at most {most} {what} are read"
    return f"only one of its {what} is read" if most else f"{what} are not read, so write them out"


def _check_tag(event: yaml.Event) -> None:
    tag = getattr(event, "tag", None)
    if tag not in {None, "!"} and tag not in _PLAIN_TAGS:
        raise UnreadableError(f"the tag {tag[:80]} is not read")


def _documents(text: str, limits: Limits) -> Iterator[Any]:
    loader = (_Times if limits.times else _Texts)(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is None:
                yield None
                continue
            _check_node(node, limits.values, {}, set())
            yield loader.construct_document(node)
    finally:
        loader.dispose()


def _check_node(node: yaml.Node, most: int, known: dict[int, int], above: set[int]) -> int:
    """Values below the node, each alias expanded. Raises for too many, for a cycle and for a key given twice."""
    if id(node) in above:
        raise UnreadableError("an alias stands for something that holds it")
    if id(node) in known:
        return known[id(node)]
    inner: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(keys) != len(node.value):
            raise UnreadableError("a key is no text")
        twice = next((key for key, times in Counter(keys).items() if key != "<<" and times > 1), None)
        if twice is not None:
            raise UnreadableError(f"the key {twice[:80]} is given twice")
        inner = [value for _, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        inner = list(node.value)
    size = 1 + sum(_check_node(value, most, known, above | {id(node)}) for value in inner)
    if size > most:
        raise TooMuchError(f"at most {most} values are read")
    known[id(node)] = size
    return size
