"""PromQL: promql-parser reads it, and every expression becomes a function of the moment that it is evaluated at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import promql_parser as promql

from .functions import AGGREGATIONS, OVER_RANGE, LabelSet, Vector, histogram_quantile, label_set, nameless
from .operators import ARITHMETIC, COMPARISONS, SETS, Operation, matched, of_sets, unique, with_scalar
from .storage import NAME, Matcher, Storage

LOOKBACK_MS = 300_000
CHARACTERS_MAX, DEPTH_MAX = 8000, 100
_MATCH_OPERATORS = {"MatchOp.Equal": "=", "MatchOp.NotEqual": "!=", "MatchOp.Re": "=~", "MatchOp.NotRe": "!~"}
_GROUPING = {
    "VectorMatchCardinality.ManyToOne": "group_left",
    "VectorMatchCardinality.OneToMany": "group_right",
}

Value = float | Vector


class ParseError(Exception):
    """No PromQL, or something of it that devcluster does not evaluate."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The samples, and a time in Unix milliseconds."""

    storage: Storage
    at: int


Expression = Callable[[Moment], Value]


def parse(query: str) -> Expression:
    """Raises ParseError; what is returned raises ExecutionError."""
    if len(query) > CHARACTERS_MAX:
        raise ParseError(f"the query has more than {CHARACTERS_MAX} characters")
    try:
        node = promql.parse(query)
    except ValueError as error:
        raise ParseError(str(error)) from error
    if isinstance(_bare(node), promql.MatrixSelector):
        raise ParseError('invalid expression type "range vector", must be Scalar or instant Vector')
    return _expression(node, 0)


def _refused(what: str) -> ParseError:
    return ParseError(f"devcluster does not evaluate {what}")


def _bare(node: promql.Expr) -> promql.Expr:
    """The expression without its parentheses, up to a depth that is refused anyway."""
    for _ in range(DEPTH_MAX):
        if not isinstance(node, promql.ParenExpr):
            break
        node = node.expr
    return node


def _expression(node: promql.Expr, depth: int) -> Expression:
    if depth > DEPTH_MAX:
        raise ParseError(f"the expression is nested more than {DEPTH_MAX} deep")
    read = _READERS.get(type(node))
    if read is None:
        raise _refused("strings" if isinstance(node, promql.StringLiteral) else "subqueries")
    return read(node, depth + 1)


class _Selector:
    """A selector of series, at one time or over a range."""

    def __init__(self, node: promql.VectorSelector, span: int = 0) -> None:
        if node.at is not None:
            raise _refused("the @ modifier")
        if node.matchers.or_matchers:
            raise _refused("matchers that are joined by or")
        self.matchers = [Matcher(NAME, "=", node.name)] if node.name else []
        self.matchers += [
            Matcher(m.name, _MATCH_OPERATORS[str(m.op)], m.value) for m in node.matchers.matchers
        ]
        self._offset = int(node.offset.total_seconds() * 1000) if node.offset else 0
        self._span = span
        try:
            for matcher in self.matchers:
                matcher.test()
        except ValueError as error:
            raise ParseError(str(error)) from error

    def __call__(self, moment: Moment) -> Vector:
        at = moment.at - self._offset
        newest = (
            (series.labels, series.latest(at - LOOKBACK_MS, at))
            for series in moment.storage.select(self.matchers)
        )
        return [(labels, sample[1]) for labels, sample in newest if sample]

    def over_range(self, name: str, moment: Moment) -> Vector:
        """The function of the samples of every series that has some."""
        end = moment.at - self._offset
        start, vector = end - self._span, []
        for series in moment.storage.select(self.matchers):
            points = series.between(start, end)
            value = OVER_RANGE[name](points, start, end) if points else None
            if value is not None:
                vector.append((nameless(series.labels), value))
        return unique(vector)


def _negated(node: promql.UnaryExpr, depth: int) -> Expression:
    inner = _expression(node.expr, depth)

    def negated(moment: Moment) -> Value:
        value = inner(moment)
        return -value if isinstance(value, float) else [(nameless(labels), -v) for labels, v in value]

    return negated


# Functions


def _call(node: promql.Call, depth: int) -> Expression:
    name = node.func.name
    if name in OVER_RANGE:
        matrix = _bare(node.args[0])
        if not isinstance(matrix, promql.MatrixSelector):
            raise _refused("subqueries")
        selector = _Selector(matrix.vector_selector, int(matrix.range.total_seconds() * 1000))
        return lambda moment: selector.over_range(name, moment)
    if name not in _OF_VALUES:
        raise _refused(f"the function {name}")
    return _OF_VALUES[name](*(_expression(argument, depth) for argument in node.args))


def _quantile(share: Expression, buckets: Expression) -> Expression:
    return lambda moment: histogram_quantile(_number(share(moment)), _vector(buckets(moment)))


_OF_VALUES: dict[str, Callable[..., Expression]] = {
    "histogram_quantile": _quantile,
    "vector": lambda inner: lambda moment: [({}, _number(inner(moment)))],
}


# Aggregations and operators


def _aggregation(node: promql.AggregateExpr, depth: int) -> Expression:
    name, inner = str(node.op), _expression(node.expr, depth)
    if name not in AGGREGATIONS:
        raise _refused(f"the aggregation {name}")
    labels = set(node.modifier.labels if node.modifier else ())
    without = node.modifier is not None and node.modifier.type == promql.AggModifierType.Without

    def aggregated(moment: Moment) -> Vector:
        groups: dict[LabelSet, list[float]] = {}
        for metric, value in _vector(inner(moment)):
            kept = {
                k: v for k, v in metric.items() if (k not in labels and k != NAME if without else k in labels)
            }
            groups.setdefault(label_set(kept), []).append(value)
        return [(dict(kept), AGGREGATIONS[name](values)) for kept, values in groups.items()]

    return aggregated


def _binary(node: promql.BinaryExpr, depth: int) -> Expression:
    left, right, operation = (
        _expression(node.lhs, depth), _expression(node.rhs, depth), _operation(node),
    )  # fmt: skip

    def joined(moment: Moment) -> Value:
        first, second = left(moment), right(moment)
        if isinstance(first, float) and isinstance(second, float):
            return operation.of_scalars(first, second)
        if operation.operator in SETS:
            return of_sets(operation, _vector(first), _vector(second))
        if isinstance(first, float):
            return with_scalar(operation, _vector(second), first, swapped=True)
        if isinstance(second, float):
            return with_scalar(operation, first, second, swapped=False)
        return matched(operation, first, second)

    return joined


def _operation(node: promql.BinaryExpr) -> Operation:
    name, modifier = str(node.op), node.modifier
    if name not in {*ARITHMETIC, *COMPARISONS, *SETS}:
        raise _refused(f"the operator {name}")
    if modifier is None:
        return Operation(name)
    if modifier.fill_values.lhs is not None or modifier.fill_values.rhs is not None:
        raise _refused("fill modifiers")
    if str(modifier.card) in _GROUPING:
        raise _refused(_GROUPING[str(modifier.card)])
    matching = modifier.matching
    return Operation(
        name, as_bool=modifier.return_bool, labels=frozenset(matching.labels if matching else ()),
        on=matching is not None and matching.type == promql.LabelModifierType.Include,
    )  # fmt: skip


_READERS: dict[type[promql.Expr], Callable[[Any, int], Expression]] = {
    promql.ParenExpr: lambda node, depth: _expression(node.expr, depth),
    promql.NumberLiteral: lambda node, _depth: lambda _moment: float(node.val),
    promql.VectorSelector: lambda node, _depth: _Selector(node),
    promql.UnaryExpr: _negated,
    promql.Call: _call,
    promql.AggregateExpr: _aggregation,
    promql.BinaryExpr: _binary,
}


def _number(value: Value) -> float:
    return cast("float", value)


def _vector(value: Value) -> Vector:
    return cast("Vector", value)
