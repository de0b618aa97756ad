"""Evaluates an expression at one time, and at the steps of a range."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from .functions import (
    AGGREGATIONS,
    KEEPS_NAME,
    RANGE,
    VALUES,
    Vector,
    by_value,
    clamped,
    histogram_quantile,
    nameless,
    quantile,
    rounded,
)
from .matching import ARITHMETIC, COMPARE, ExecutionError, Signature, matched, of_sets, result
from .nodes import SCALAR, Aggregation, Binary, Call, Negated, Node, Number, Selector, Text
from .parser import COMPARISONS
from .storage import NAME, Series, Storage

LOOKBACK_MS = 300_000
STEPS_MAX = 11_000


Value = float | str | Vector


@dataclass(frozen=True, slots=True)
class Engine:
    """One evaluation at `at` (Unix milliseconds)."""

    storage: Storage
    at: int
    # What each selector found: the steps of a range share it.
    selected: dict[int, list[Series]] = field(default_factory=dict)

    def value(self, node: Node) -> Value:
        """Raises ExecutionError."""
        match node:
            case Number() | Text():
                return node.value
            case Selector():
                return [
                    (series.labels, found[1])
                    for series in self._series(node)
                    if (found := self._latest(node, series))
                ]
            case Negated():
                inner = self.value(node.inner)
                return (
                    -_number(inner)
                    if node.type == SCALAR
                    else [(nameless(labels), -v) for labels, v in _vector(inner)]
                )
            case Call():
                return self._call(node)
            case Aggregation():
                return self._aggregate(node)
            case Binary():
                return self._binary(node)
        raise ExecutionError(f"devcluster does not evaluate {type(node).__name__}")

    def _series(self, node: Selector) -> list[Series]:
        found = self.selected.get(id(node))
        if found is None:
            found = self.selected[id(node)] = self.storage.select(node.matchers)
        return found

    def _latest(self, node: Selector, series: Series) -> tuple[int, float] | None:
        at = self.at - node.offset
        return series.latest(at - LOOKBACK_MS, at)

    # Functions

    def _call(self, node: Call) -> Value:
        name, arguments = node.function, node.arguments
        if name in RANGE or name in {"quantile_over_time", "absent_over_time"}:
            return self._over_range(node)
        if name == "time":
            return self.at / 1000
        if name == "timestamp":
            return self._timestamps(arguments[0])
        values = [self.value(argument) for argument in arguments]
        if name == "absent":
            return [] if values[0] else _absent(arguments[0])
        special = _SPECIAL.get(name)
        if special is not None:
            return special(values)
        return self._each(name, _vector(values[0]), [_number(value) for value in values[1:]])

    @staticmethod
    def _each(name: str, vector: Vector, numbers: list[float]) -> Vector:
        function = VALUES.get(name)
        if function is None:
            match name:
                case "clamp":
                    if numbers[0] > numbers[1]:
                        return []
                    least, most = numbers
                case "clamp_min":
                    least, most = numbers[0], math.inf
                case "clamp_max":
                    least, most = -math.inf, numbers[0]
                case _:
                    nearest = numbers[0] if numbers else 1.0
                    return _unique([(nameless(labels), rounded(value, nearest)) for labels, value in vector])
            return _unique([(nameless(labels), clamped(value, least, most)) for labels, value in vector])
        return _unique([(nameless(labels), function(value)) for labels, value in vector])

    def _over_range(self, node: Call) -> Vector:
        selector = node.arguments[-1]
        if not isinstance(selector, Selector):
            raise ExecutionError(f"{node.function} takes a range of a selector")
        end = self.at - selector.offset
        start, found = end - selector.span, []
        share = _number(self.value(node.arguments[0])) if len(node.arguments) > 1 else 0.0
        for series in self._series(selector):
            points = series.between(start, end)
            if not points:
                continue
            if node.function == "quantile_over_time":
                value: float | None = quantile(share, [v for _, v in points])
            else:
                value = (
                    0.0 if node.function == "absent_over_time" else RANGE[node.function](points, start, end)
                )
            if value is not None:
                kept = series.labels if node.function in KEEPS_NAME else nameless(series.labels)
                found.append((kept, value))
        if node.function == "absent_over_time":
            return [] if found else _absent(selector)
        return _unique(found)

    def _timestamps(self, node: Node) -> Vector:
        if isinstance(node, Selector):
            pairs = [(series.labels, self._latest(node, series)) for series in self._series(node)]
            return [(nameless(labels), found[0] / 1000) for labels, found in pairs if found]
        return [(nameless(labels), self.at / 1000) for labels, _ in _vector(self.value(node))]

    # Aggregations

    def _aggregate(self, node: Aggregation) -> Vector:
        parameter = None if node.parameter is None else _number(self.value(node.parameter))
        groups: dict[Signature, tuple[dict[str, str], Vector]] = {}
        for labels, value in _vector(self.value(node.inner)):
            if node.without:
                kept = {label: text for label, text in nameless(labels).items() if label not in node.labels}
            else:
                kept = {label: labels[label] for label in node.labels if label in labels}
            groups.setdefault(tuple(sorted(kept.items())), (kept, []))[1].append((labels, value))
        if node.function in {"topk", "bottomk"}:
            return self._picked(node, [group for _, group in groups.values()], parameter or 0.0)
        return [
            (kept, AGGREGATIONS[node.function]([value for _, value in group], parameter or 0.0))
            for kept, group in groups.values()
        ]

    @staticmethod
    def _picked(node: Aggregation, groups: list[Vector], parameter: float) -> Vector:
        if math.isnan(parameter):
            raise ExecutionError("Scalar value NaN overflows int64")
        count = max(0, int(min(parameter, 2**31)))
        return [
            each for group in groups for each in by_value(group, descending=node.function == "topk")[:count]
        ]

    # Binary operations

    def _binary(self, node: Binary) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(left, float) and isinstance(right, float):
            if node.operator in COMPARISONS:
                return float(COMPARE[node.operator](left, right))
            return float(ARITHMETIC[node.operator](left, right))
        if node.operator in {"and", "or", "unless"}:
            return of_sets(node, _vector(left), _vector(right))
        if isinstance(left, float):
            return self._with_scalar(node, _vector(right), left, swapped=True)
        if isinstance(right, float):
            return self._with_scalar(node, _vector(left), right, swapped=False)
        return matched(node, _vector(left), _vector(right))

    @staticmethod
    def _with_scalar(node: Binary, vector: Vector, scalar: float, *, swapped: bool) -> Vector:
        found = []
        for labels, value in vector:
            pair = (scalar, value) if swapped else (value, scalar)
            made = result(node, *pair)
            if made is None:
                continue
            if node.operator in COMPARISONS and not node.as_bool:
                # What is filtered keeps its own value, on whichever side it stands.
                found.append((labels, value))
            else:
                found.append((nameless(labels), made))
        return _unique(found) if node.operator not in COMPARISONS or node.as_bool else found


def _absent(node: Node) -> Vector:
    """One element with the labels that the selector asks for by equality."""
    wanted = node.matchers if isinstance(node, Selector) else ()
    equal = [m for m in wanted if m.operator == "=" and m.label != NAME]
    names = [matcher.label for matcher in wanted]
    return [({m.label: m.value for m in equal if names.count(m.label) == 1}, 1.0)]


def _relabelled(vector: Vector, texts: list[str]) -> Vector:
    target, replacement, source, pattern = texts
    try:
        expression = re.compile(f"(?:{pattern})", re.DOTALL)
    except re.error as error:
        raise ExecutionError(f"invalid regular expression in label_replace(): {pattern}") from error
    if re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", target) is None:
        raise ExecutionError(f"invalid destination label name in label_replace(): {target}")
    template, found = re.sub(r"\$\{?(\w+)\}?", r"\\g<\1>", replacement.replace("\\", r"\\")), []
    for labels, value in vector:
        match = expression.fullmatch(labels.get(source, ""))
        new = dict(labels)
        if match is not None:
            new[target] = match.expand(template)
        found.append(({label: text for label, text in new.items() if text}, value))
    return _unique(found)


def _unique(vector: Vector) -> Vector:
    seen = {tuple(sorted(labels.items())) for labels, _ in vector}
    if len(seen) < len(vector):
        raise ExecutionError("vector cannot contain metrics with the same labelset")
    return vector


def _number(value: Value) -> float:
    if not isinstance(value, float):
        raise ExecutionError("a scalar is expected")
    return value


def _vector(value: Value) -> Vector:
    if not isinstance(value, list):
        raise ExecutionError("an instant vector is expected")
    return value


def _scalar(values: list[Value]) -> float:
    found = _vector(values[0])
    return found[0][1] if len(found) == 1 else math.nan


_SPECIAL: dict[str, Callable[[list[Value]], Value]] = {
    "vector": lambda values: [({}, _number(values[0]))],
    "scalar": _scalar,
    "histogram_quantile": lambda values: histogram_quantile(_number(values[0]), _vector(values[1])),
    "sort": lambda values: by_value(_vector(values[0]), descending=False),
    "sort_desc": lambda values: by_value(_vector(values[0]), descending=True),
    "label_replace": lambda values: _relabelled(_vector(values[0]), [str(value) for value in values[1:]]),
}
