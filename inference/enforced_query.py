"""A team's own query, held to the series of its own namespace: parsed, a matcher added to each selector, written again. Pure.

What runs is what is written here, never the text that was sent: where two parsers read one text in two ways, no selector
slips through between them. promql-parser's own writer does not escape texts, so it is not used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

import promql_parser as promql

from telemetry.gpu_metrics import EXPORTED_PREFIX, of_job

TOKENS_MAX: Final = 600
"""The parser takes a time that grows with their square."""
DEPTH_MAX: Final = 40
RANGE_MAX: Final = timedelta(days=1)
OFFSET_MAX: Final = timedelta(days=7)
STEP_MIN: Final = timedelta(seconds=10)
STEPS_MAX: Final = 1000
"""Of a subquery: Prometheus keeps a sample for each, of each series, while it answers."""
LENGTH_MAX: Final = 8000
"""Of what is written: a scaler asks by GET."""
NOTHING: Final = "vector(0) > 1"
"""Gives no series, which a scaler reports as an error: in the place of a stored query that can no longer be read."""

_LABEL = "namespace"
_TOKEN = re.compile(r"\w+|[^\w\s]")
_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*", re.ASCII)
_LABEL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OF_GPUS = "DCGM_FI_"
_MATCHES: Final = {
    "MatchOp.Equal": "=",
    "MatchOp.NotEqual": "!=",
    "MatchOp.Re": "=~",
    "MatchOp.NotRe": "!~",
}
_REFUSED_FUNCTIONS: Final = {"info": "it adds labels of series that no selector of the query names"}


class QueryRefusedError(ValueError):
    """A query that cannot be held to a namespace; the message is for who wrote it."""


@dataclass(frozen=True, slots=True)
class Border:
    """Which series a team may see: those that Prometheus labels with its namespace."""

    namespace: str
    exported_labels: bool = True
    """Whether GPUs' series name the pod's namespace in `exported_namespace`."""
    dcgm_job: str = ""
    """Whose series of GPUs are believed; empty for everybody's."""
    in_subquery: bool = False
    """Whether what is read now is asked again for each step of a subquery."""

    def label(self, metric: str | None) -> str:
        """The label that holds the namespace of who is measured."""
        return f"{EXPORTED_PREFIX}{_LABEL}" if self.exported_labels and _is_of_gpus(metric) else _LABEL

    def demanded(self, metric: str | None) -> list[str]:
        """What every selector has to match, besides what it says itself."""
        own = f"{self.label(metric)}={_text(self.namespace)}"
        return [own, of_job(self.dcgm_job)] if self.dcgm_job and _is_of_gpus(metric) else [own]


def _is_of_gpus(metric: str | None) -> bool:
    return (metric or "").startswith(_OF_GPUS)


def enforced(query: str, border: Border) -> str:
    """The query with the namespace demanded of every selector, beside what it demands itself.

    QueryRefusedError for what is no PromQL, what is longer or deeper than a scaler's query needs to be, and for what
    cannot be held to it: `info()`, and what only other servers understand.
    """
    if sum(1 for _ in _TOKEN.finditer(query)) > TOKENS_MAX:
        raise QueryRefusedError(f"it has more than {TOKENS_MAX} words and signs")
    try:
        text = _write(promql.parse(query), border, 0)
    except QueryRefusedError:
        raise
    except BaseException as error:
        # A length of time beyond what Rust holds (`offset nan`) is a panic, which is no Exception.
        if not isinstance(error, ValueError) and type(error).__name__ != "PanicException":
            raise
        raise QueryRefusedError(" ".join(str(error).split())) from error
    if len(text) > LENGTH_MAX:
        raise QueryRefusedError(
            f"with the namespace in each selector it has more than {LENGTH_MAX} characters"
        )
    return text


def held(query: str, border: Border) -> str:
    """The same of a stored query: one that was stored before queries were read may be none, and gives nothing then."""
    try:
        return enforced(query, border)
    except QueryRefusedError:
        return NOTHING


def _write(node: promql.Expr, border: Border, depth: int) -> str:
    if depth > DEPTH_MAX:
        raise QueryRefusedError(f"it is nested more than {DEPTH_MAX} deep")
    write = _WRITERS.get(type(node))
    if write is None:
        raise QueryRefusedError(f"a {type(node).__name__} cannot be read")
    return write(node, border, depth + 1)


def _operand(node: promql.Expr, border: Border, depth: int) -> str:
    """In parentheses where it matters what binds closer."""
    text = _write(node, border, depth)
    is_simple = not isinstance(node, (promql.BinaryExpr, promql.UnaryExpr)) and not text.startswith("-")
    return text if is_simple else f"({text})"


def _selector(node: promql.VectorSelector, border: Border, _depth: int) -> str:
    return _series(node, border) + _moment(node)


def _series(node: promql.VectorSelector, border: Border) -> str:
    if node.matchers.or_matchers:
        raise QueryRefusedError("matchers joined by or are no PromQL of Prometheus")
    if node.name and not _NAME.fullmatch(node.name):
        raise QueryRefusedError(f"{_text(node.name)} is no name of a metric")
    own = border.demanded(node.name)
    said = [f"{_label(m.name)}{_MATCHES[str(m.op)]}{_text(m.value)}" for m in node.matchers.matchers]
    # What it demands itself stays: where that is another namespace, both are demanded and nothing fits.
    wanted = [*own, *(each for each in said if each not in own)]
    return f"{node.name or ''}{{{','.join(wanted)}}}"


def _range(node: promql.MatrixSelector, border: Border, _depth: int) -> str:
    selector = node.vector_selector
    _check_range(node.range)
    return f"{_series(selector, border)}[{_duration(node.range)}]{_moment(selector)}"


def _subquery(node: promql.SubqueryExpr, border: Border, depth: int) -> str:
    if border.in_subquery:
        raise QueryRefusedError("a subquery has none inside of it")
    step = _duration(node.step) if node.step else ""
    _check_range(node.range)
    if node.step and (node.step < STEP_MIN or (node.range or timedelta()) / node.step > STEPS_MAX):
        least = _duration(STEP_MIN)
        raise QueryRefusedError(f"a subquery has steps of {least} at least, and {STEPS_MAX} of them at most")
    inner = _write(node.expr, replace(border, in_subquery=True), depth)
    if not isinstance(node.expr, (promql.ParenExpr, promql.Call, promql.AggregateExpr)):
        inner = f"({inner})"
    return f"{inner}[{_duration(node.range)}:{step}]{_moment(node)}"


def _check_range(length: timedelta | None) -> None:
    if length is not None and length > RANGE_MAX:
        raise QueryRefusedError(f"it looks back further than {_duration(RANGE_MAX)}")


def _moment(node: Any) -> str:
    if node.at is not None:
        raise QueryRefusedError("a scaler goes by what is now: @ has no place in its query")
    if node.offset is None:
        return ""
    if abs(node.offset) > OFFSET_MAX:
        raise QueryRefusedError(f"its offset is longer than {_duration(OFFSET_MAX)}")
    sign = "-" if node.offset < timedelta(0) else ""
    return f" offset {sign}{_duration(abs(node.offset))}"


def _call(node: promql.Call, border: Border, depth: int) -> str:
    name = node.func.name
    if name in _REFUSED_FUNCTIONS:
        raise QueryRefusedError(f"{name}() is not for scalers: {_REFUSED_FUNCTIONS[name]}")
    return f"{name}({', '.join(_write(argument, border, depth) for argument in node.args)})"


def _aggregation(node: promql.AggregateExpr, border: Border, depth: int) -> str:
    inner = [_write(each, border, depth) for each in (node.param, node.expr) if each is not None]
    by = ""
    if node.modifier is not None:
        word = "by" if node.modifier.type == promql.AggModifierType.By else "without"
        by = f" {word} ({_labels(node.modifier.labels)}) "
    return f"{node.op}{by}({', '.join(inner)})"


def _binary(node: promql.BinaryExpr, border: Border, depth: int) -> str:
    left, right = _operand(node.lhs, border, depth), _operand(node.rhs, border, depth)
    return f"{left} {node.op}{_matching(node.modifier)} {right}"


def _matching(modifier: promql.BinModifier | None) -> str:
    if modifier is None:
        return ""
    if modifier.fill_values.lhs is not None or modifier.fill_values.rhs is not None:
        raise QueryRefusedError("fill modifiers are not supported")
    text = " bool" if modifier.return_bool else ""
    if modifier.matching is not None:
        word = "on" if modifier.matching.type == promql.LabelModifierType.Include else "ignoring"
        text += f" {word} ({_labels(modifier.matching.labels)})"
    group = _GROUPS.get(str(modifier.card))
    return f"{text} {group} ({_labels(modifier.group_labels or ())})" if group else text


_GROUPS: Final = {
    "VectorMatchCardinality.ManyToOne": "group_left",
    "VectorMatchCardinality.OneToMany": "group_right",
}


def _number(node: promql.NumberLiteral, _border: Border, _depth: int) -> str:
    value = node.val
    if math.isfinite(value):
        return repr(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)
    return "NaN" if math.isnan(value) else "Inf" if value > 0 else "-Inf"


_WRITERS: dict[type[promql.Expr], Callable[[Any, Border, int], str]] = {
    promql.VectorSelector: _selector,
    promql.MatrixSelector: _range,
    promql.SubqueryExpr: _subquery,
    promql.Call: _call,
    promql.AggregateExpr: _aggregation,
    promql.BinaryExpr: _binary,
    promql.UnaryExpr: lambda node, border, depth: f"-{_operand(node.expr, border, depth)}",
    promql.ParenExpr: lambda node, border, depth: f"({_write(node.expr, border, depth)})",
    promql.NumberLiteral: _number,
    promql.StringLiteral: lambda node, _border, _depth: _text(node.val),
}


def _duration(length: timedelta | None) -> str:
    milliseconds = round(length / timedelta(milliseconds=1)) if length is not None else 0
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


def _labels(names: Iterable[str]) -> str:
    return ", ".join(_label(name) for name in names)


def _label(name: str) -> str:
    if not _LABEL_NAME.fullmatch(name):
        raise QueryRefusedError(f"{_text(name)} is no name of a label")
    return name


def _text(value: str) -> str:
    """A text in quotes, as Go reads it: printable ASCII as it is, all else escaped."""
    return f'"{"".join(_ESCAPES.get(each) or _escaped(each) for each in value)}"'


_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n"}


def _escaped(character: str) -> str:
    if " " <= character <= "~":
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
