"""Binary operations of PromQL: arithmetic, comparisons, and how two vectors find each other."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass

from .functions import Element, LabelSet, Vector, label_set, nameless
from .storage import NAME


class ExecutionError(Exception):
    """The expression is right, its data are not."""


def _divide(left: float, right: float) -> float:
    if right:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _divide,
}  # fmt: skip
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
SETS = frozenset({"and", "or", "unless"})


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator, and how the two sides find each other: by the `labels` alone (`on`), or by all but these."""

    operator: str
    as_bool: bool = False
    labels: frozenset[str] = frozenset()
    on: bool = False

    @property
    def filters(self) -> bool:
        return self.operator in COMPARISONS and not self.as_bool

    def signature(self, labels: dict[str, str]) -> LabelSet:
        if self.on:
            return tuple((label, labels.get(label, "")) for label in sorted(self.labels))
        return label_set({k: v for k, v in labels.items() if k != NAME and k not in self.labels})

    def of_scalars(self, left: float, right: float) -> float:
        return float({**ARITHMETIC, **COMPARISONS}[self.operator](left, right))

    def of_values(self, left: float, right: float) -> float | None:
        """None where a comparison filters it out."""
        made = self.of_scalars(left, right)
        return made if not self.filters else left if made else None


def with_scalar(operation: Operation, vector: Vector, scalar: float, *, swapped: bool) -> Vector:
    """What is filtered keeps its own value, on whichever side it stands."""
    result = []
    for labels, value in vector:
        made = operation.of_values(*((scalar, value) if swapped else (value, scalar)))
        if made is not None:
            result.append((labels, value) if operation.filters else (nameless(labels), made))
    return result if operation.filters else unique(result)


def unique(vector: Vector) -> Vector:
    if len({label_set(labels) for labels, _ in vector}) < len(vector):
        raise ExecutionError("vector cannot contain metrics with the same labelset")
    return vector


def of_sets(operation: Operation, left: Vector, right: Vector) -> Vector:
    if operation.operator == "or":
        lefts = {operation.signature(labels) for labels, _ in left}
        return [*left, *(element for element in right if operation.signature(element[0]) not in lefts)]
    rights = {operation.signature(labels) for labels, _ in right}
    wanted = operation.operator == "and"
    return [element for element in left if (operation.signature(element[0]) in rights) == wanted]


def matched(operation: Operation, left: Vector, right: Vector) -> Vector:
    """Elements of both sides with the same signature, which each side may have once."""
    rights: dict[LabelSet, Element] = {}
    for labels, value in right:
        signature = operation.signature(labels)
        if signature in rights:
            group = _shown({label: text for label, text in signature if text})
            raise ExecutionError(
                f"found duplicate series for the match group {group} on the right hand-side of the operation: "
                f"[{_shown(labels)}, {_shown(rights[signature][0])}];many-to-many matching not allowed: matching labels "
                "must be unique on one side"
            )
        rights[signature] = (labels, value)
    elements: dict[LabelSet, Element] = {}
    for labels, value in left:
        signature = operation.signature(labels)
        made = operation.of_values(value, rights[signature][1]) if signature in rights else None
        if made is None:
            continue
        if signature in elements:
            why = "many-to-one matching must be explicit (group_left/group_right)"
            raise ExecutionError(f"multiple matches for labels: {why}")
        kept = labels if operation.filters else nameless(labels)
        asked = {label: text for label, text in kept.items() if (label in operation.labels) == operation.on}
        elements[signature] = (asked, made)
    return list(elements.values())


def _shown(labels: dict[str, str]) -> str:
    inner = ", ".join(f'{label}="{text}"' for label, text in label_set(nameless(labels)))
    return f"{labels.get(NAME, '')}{{{inner}}}"
