"""The parts of a PromQL expression, as the parser makes and the engine reads them."""

from __future__ import annotations

from dataclasses import dataclass, field

from typing_extensions import override

from .storage import Matcher

SCALAR, VECTOR, MATRIX, STRING = "scalar", "instant vector", "range vector", "string"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """`at` is the offset in the query's text, for errors."""

    at: int = 0

    @property
    def type(self) -> str:
        return VECTOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Node):
    value: float

    @property
    @override
    def type(self) -> str:
        return SCALAR


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Node):
    value: str

    @property
    @override
    def type(self) -> str:
        return STRING


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector(Node):
    """Times in milliseconds; a `span` makes it a range vector."""

    matchers: tuple[Matcher, ...]
    span: int = 0
    offset: int = 0

    @property
    @override
    def type(self) -> str:
        return MATRIX if self.span else VECTOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Node):
    function: str
    arguments: tuple[Node, ...]
    returns: str = VECTOR

    @property
    @override
    def type(self) -> str:
        return self.returns


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation(Node):
    function: str
    inner: Node
    parameter: Node | None = None
    labels: tuple[str, ...] = ()
    without: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """How the two sides of a binary operation find each other."""

    labels: tuple[str, ...] = ()
    on: bool = False
    # "left" or "right" where that side may have many.
    group: str = ""
    include: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary(Node):
    operator: str
    left: Node
    right: Node
    matching: Matching = field(default_factory=Matching)
    as_bool: bool = False

    @property
    @override
    def type(self) -> str:
        return SCALAR if self.left.type == self.right.type == SCALAR else VECTOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Negated(Node):
    inner: Node

    @property
    @override
    def type(self) -> str:
        return self.inner.type
