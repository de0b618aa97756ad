"""Binary operations of PromQL: arithmetic, comparisons, and how two vectors find each other."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from .functions import Element, Vector, nameless
from .nodes import Binary, Matching
from .parser import COMPARISONS
from .storage import NAME


class ExecutionError(Exception):
    """The expression is right, its data are not."""


Signature = tuple[tuple[str, str], ...]


def _modulo(left: float, right: float) -> float:
    try:
        return math.fmod(left, right)
    except ValueError:
        return math.nan


def _divide(left: float, right: float) -> float:
    if right:
        return left / right
    return (
        math.nan
        if left == 0 or math.isnan(left)
        else math.copysign(math.inf, left) * math.copysign(1.0, right)
    )


def _power(left: float, right: float) -> float:
    try:
        result = left**right
    except ZeroDivisionError:
        return math.inf
    except OverflowError:
        return math.inf if left > 0 or right % 2 == 0 else -math.inf
    return math.nan if isinstance(result, complex) else result


ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _divide, "%": _modulo, "^": _power,
    "atan2": math.atan2,
}  # fmt: skip
COMPARE: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _signature(labels: dict[str, str], matching: Matching) -> Signature:
    if matching.on:
        return tuple((label, labels.get(label, "")) for label in sorted(matching.labels))
    left_out = {NAME, *matching.labels}
    return tuple(sorted((label, text) for label, text in labels.items() if label not in left_out))


def _shown(labels: dict[str, str]) -> str:
    inner = ", ".join(f'{label}="{text}"' for label, text in sorted(labels.items()) if label != NAME)
    return f"{labels.get(NAME, '')}{{{inner}}}"


def result(node: Binary, left: float, right: float) -> float | None:
    """None where a comparison filters it out."""
    if node.operator not in COMPARISONS:
        return ARITHMETIC[node.operator](left, right)
    holds = COMPARE[node.operator](left, right)
    if node.as_bool:
        return float(holds)
    return left if holds else None


def of_sets(node: Binary, left: Vector, right: Vector) -> Vector:
    lefts = {_signature(labels, node.matching) for labels, _ in left}
    rights = {_signature(labels, node.matching) for labels, _ in right}
    if node.operator == "or":
        return [*left, *(each for each in right if _signature(each[0], node.matching) not in lefts)]
    wanted = node.operator == "and"
    return [each for each in left if (_signature(each[0], node.matching) in rights) == wanted]


def matched(node: Binary, left: Vector, right: Vector) -> Vector:
    """Elements of both sides with the same signature; one side may have many where the query says so."""
    matching = node.matching
    swapped = matching.group == "right"
    many, one = (right, left) if swapped else (left, right)
    ones = _one_side(one, matching, "left" if swapped else "right")
    found: Vector = []
    seen: set[Signature] = set()
    for labels, value in many:
        signature = _signature(labels, matching)
        other = ones.get(signature)
        if other is None:
            continue
        made = result(node, *((other[1], value) if swapped else (value, other[1])))
        if made is None:
            continue
        kept = _kept(node, labels, other[0])
        key = tuple(sorted(kept.items())) if matching.group else signature
        if key in seen:
            if not matching.group:
                raise ExecutionError(
                    "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
                )
            raise ExecutionError("multiple matches for labels: grouping labels must ensure unique matches")
        seen.add(key)
        found.append((kept, made))
    return found


def _one_side(vector: Vector, matching: Matching, side: str) -> dict[Signature, Element]:
    ones: dict[Signature, Element] = {}
    for labels, value in vector:
        signature = _signature(labels, matching)
        if signature in ones:
            group = "{" + ", ".join(f'{label}="{text}"' for label, text in signature if text) + "}"
            both = f"{_shown(labels)}, {_shown(ones[signature][0])}"
            raise ExecutionError(
                f"found duplicate series for the match group {group} on the {side} hand-side of the operation: "
                f"[{both}];many-to-many matching not allowed: matching labels must be unique on one side"
            )
        ones[signature] = (labels, value)
    return ones


def _kept(node: Binary, many: dict[str, str], one: dict[str, str]) -> dict[str, str]:
    matching = node.matching
    kept = dict(many) if node.operator in COMPARISONS and not node.as_bool else nameless(many)
    if matching.group:
        for label in matching.include:
            kept.pop(label, None)
            if label in one:
                kept[label] = one[label]
        return kept
    if matching.on:
        return {label: text for label, text in kept.items() if label in matching.labels}
    return {label: text for label, text in kept.items() if label not in matching.labels}
