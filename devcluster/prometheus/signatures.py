"""The functions that are evaluated: what they take and give."""

from __future__ import annotations

from dataclasses import dataclass

from .nodes import MATRIX, SCALAR, STRING, VECTOR


@dataclass(frozen=True, slots=True)
class Signature:
    """Types of the arguments, of which the first `least` have to be there, and of the result."""

    arguments: tuple[str, ...]
    least: int
    returns: str


def _signature(*arguments: str, least: int | None = None, returns: str = VECTOR) -> Signature:
    return Signature(arguments, len(arguments) if least is None else least, returns)


OVER_RANGE = (
    "rate", "increase", "delta", "irate", "idelta", "changes", "resets", "avg_over_time", "min_over_time", "max_over_time",
    "sum_over_time", "count_over_time", "last_over_time", "present_over_time", "stddev_over_time", "stdvar_over_time",
)  # fmt: skip
OVER_VALUES = ("abs", "ceil", "floor", "exp", "sqrt", "ln", "log2", "log10", "sgn")
FUNCTIONS: dict[str, Signature] = {
    **{name: _signature(MATRIX) for name in OVER_RANGE},
    **{name: _signature(VECTOR) for name in OVER_VALUES},
    "quantile_over_time": _signature(SCALAR, MATRIX),
    "absent_over_time": _signature(MATRIX),
    "absent": _signature(VECTOR),
    "clamp": _signature(VECTOR, SCALAR, SCALAR),
    "clamp_min": _signature(VECTOR, SCALAR),
    "clamp_max": _signature(VECTOR, SCALAR),
    "round": _signature(VECTOR, SCALAR, least=1),
    "histogram_quantile": _signature(SCALAR, VECTOR),
    "label_replace": _signature(VECTOR, STRING, STRING, STRING, STRING),
    "scalar": _signature(VECTOR, returns=SCALAR),
    "sort": _signature(VECTOR),
    "sort_desc": _signature(VECTOR),
    "time": _signature(returns=SCALAR),
    "timestamp": _signature(VECTOR),
    "vector": _signature(SCALAR),
}
