"""PromQL's functions over samples and over vectors, as Prometheus 2 works them out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from .storage import NAME

Point = tuple[int, float]
Element = tuple[dict[str, str], float]
Vector = list[Element]


def nameless(labels: dict[str, str]) -> dict[str, str]:
    return {label: text for label, text in labels.items() if label != NAME}


# Over a range: the points, the beginning and the end of the range in milliseconds; None gives no element.


def _extrapolated(
    points: Sequence[Point], start: int, end: int, *, counter: bool, rate: bool
) -> float | None:
    """The change over the whole range, of which the samples show a part."""
    if len(points) < 2:
        return None
    (first_at, first), (last_at, last) = points[0], points[-1]
    change, before = last - first, first
    if counter:
        for _, value in points[1:]:
            change += before if value < before else 0.0
            before = value
    to_start, to_end = (first_at - start) / 1000, (end - last_at) / 1000
    sampled = (last_at - first_at) / 1000
    average = sampled / (len(points) - 1)
    if counter and change > 0 and first >= 0:
        # A counter was not below zero before its first sample.
        to_start = min(to_start, sampled * (first / change))
    whole = sampled
    for missing in (to_start, to_end):
        whole += missing if missing < average * 1.1 else average / 2
    factor = whole / sampled
    return change * factor / ((end - start) / 1000) if rate else change * factor


def _instant(points: Sequence[Point], *, counter: bool) -> float | None:
    if len(points) < 2:
        return None
    (before_at, before), (at, value) = points[-2:]
    change = value if counter and value < before else value - before
    return change / ((at - before_at) / 1000) if counter else change


def _moments(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values)


def extreme(values: Sequence[float], *, largest: bool) -> float:
    """A number is preferred to NaN."""
    numbers = [value for value in values if not math.isnan(value)]
    return (max if largest else min)(numbers) if numbers else math.nan


def quantile(share: float, values: Sequence[float]) -> float:
    """Interpolated between the two nearest ranks."""
    if not values or math.isnan(share):
        return math.nan
    if share < 0:
        return -math.inf
    if share > 1:
        return math.inf
    # NaN sorts before everything.
    ranked = sorted(values, key=lambda value: (not math.isnan(value), value))
    rank = share * (len(ranked) - 1)
    lower = max(0, math.floor(rank))
    upper, weight = min(len(ranked) - 1, lower + 1), rank - math.floor(rank)
    return ranked[lower] * (1 - weight) + ranked[upper] * weight


def _changes(points: Sequence[Point]) -> float:
    pairs = pairwise(points)
    return float(sum(a != b and not (math.isnan(a) and math.isnan(b)) for (_, a), (_, b) in pairs))


RANGE: dict[str, Callable[[Sequence[Point], int, int], float | None]] = {
    "rate": lambda p, s, e: _extrapolated(p, s, e, counter=True, rate=True),
    "increase": lambda p, s, e: _extrapolated(p, s, e, counter=True, rate=False),
    "delta": lambda p, s, e: _extrapolated(p, s, e, counter=False, rate=False),
    "irate": lambda p, _s, _e: _instant(p, counter=True),
    "idelta": lambda p, _s, _e: _instant(p, counter=False),
    "changes": lambda p, _s, _e: _changes(p),
    "resets": lambda p, _s, _e: float(sum(b < a for (_, a), (_, b) in pairwise(p))),
    "avg_over_time": lambda p, _s, _e: sum(v for _, v in p) / len(p),
    "min_over_time": lambda p, _s, _e: extreme([v for _, v in p], largest=False),
    "max_over_time": lambda p, _s, _e: extreme([v for _, v in p], largest=True),
    "sum_over_time": lambda p, _s, _e: math.fsum(v for _, v in p),
    "count_over_time": lambda p, _s, _e: float(len(p)),
    "last_over_time": lambda p, _s, _e: p[-1][1],
    "present_over_time": lambda _p, _s, _e: 1.0,
    "stdvar_over_time": lambda p, _s, _e: _moments([v for _, v in p]),
    "stddev_over_time": lambda p, _s, _e: math.sqrt(_moments([v for _, v in p])),
}
KEEPS_NAME = frozenset({"last_over_time"})


# Over values


def _logarithm(value: float, base: float) -> float:
    if value == 0:
        return -math.inf
    return math.log(value, base) if value > 0 else math.nan


def _guarded(function: Callable[[float], float]) -> Callable[[float], float]:
    def guarded(value: float) -> float:
        try:
            return float(function(value))
        except OverflowError:
            return value if not math.isfinite(value) else math.inf
        except ValueError:
            return value if math.isinf(value) and value > 0 else math.nan

    return guarded


VALUES: dict[str, Callable[[float], float]] = {
    name: _guarded(function)
    for name, function in {
        "abs": abs, "ceil": lambda v: v if not math.isfinite(v) else math.ceil(v),
        "floor": lambda v: v if not math.isfinite(v) else math.floor(v), "exp": math.exp, "sqrt": math.sqrt,
        "ln": lambda v: _logarithm(v, math.e), "log2": lambda v: -math.inf if v == 0 else math.log2(v),
        "log10": lambda v: -math.inf if v == 0 else math.log10(v),
        "sgn": lambda v: v if math.isnan(v) else (v > 0) - (v < 0),
    }.items()
}  # fmt: skip


def clamped(value: float, least: float, most: float) -> float:
    return max(least, min(most, value)) if not math.isnan(value) else value


def rounded(value: float, nearest: float) -> float:
    """To a multiple of `nearest`, halves upwards."""
    if not math.isfinite(value):
        return value
    inverse = 1.0 / nearest
    return math.floor(value * inverse + 0.5) / inverse


# Histograms


def histogram_quantile(share: float, vector: Vector) -> Vector:
    """Of the buckets in `vector`, by the labels that they have beside `le`."""
    groups: dict[tuple[tuple[str, str], ...], tuple[dict[str, str], dict[float, float]]] = {}
    for labels, value in vector:
        try:
            bound = float(labels.get("le", ""))
        except ValueError:
            continue
        kept = {label: text for label, text in nameless(labels).items() if label != "le"}
        buckets = groups.setdefault(tuple(sorted(kept.items())), (kept, {}))[1]
        buckets[bound] = buckets.get(bound, 0.0) + value
    return [(kept, _of_buckets(share, sorted(buckets.items()))) for kept, buckets in groups.values()]


def _of_buckets(share: float, buckets: list[tuple[float, float]]) -> float:
    if math.isnan(share) or not buckets or buckets[-1][0] != math.inf or len(buckets) < 2:
        return math.nan
    if not 0 <= share <= 1:
        return -math.inf if share < 0 else math.inf
    counts: list[float] = []
    for _, count in buckets:
        counts.append(max(count, counts[-1]) if counts else count)
    if counts[-1] == 0:
        return math.nan
    rank = share * counts[-1]
    index = next((i for i, count in enumerate(counts[:-1]) if count >= rank), len(counts) - 1)
    if index == len(counts) - 1:
        return buckets[-2][0]
    end, count = buckets[index][0], counts[index]
    if index == 0:
        return end if end <= 0 else end * (rank / count)
    start = buckets[index - 1][0]
    below = counts[index - 1]
    return start + (end - start) * ((rank - below) / (count - below))


def by_value(vector: Vector, *, descending: bool) -> Vector:
    """NaN last."""
    sign = -1.0 if descending else 1.0
    return sorted(
        vector, key=lambda each: (math.isnan(each[1]), sign * each[1] if each[1] == each[1] else 0.0)
    )


def _sum(values: Sequence[float]) -> float:
    return math.fsum(values) if all(map(math.isfinite, values)) else sum(values)


AGGREGATIONS: dict[str, Callable[[Sequence[float], float], float]] = {
    "sum": lambda values, _: _sum(values),
    "avg": lambda values, _: _sum(values) / len(values),
    "min": lambda values, _: extreme(values, largest=False),
    "max": lambda values, _: extreme(values, largest=True),
    "count": lambda values, _: float(len(values)),
    "group": lambda _values, _: 1.0,
    "quantile": lambda values, share: quantile(share, values),
    "stdvar": lambda values, _: _moments(values),
    "stddev": lambda values, _: math.sqrt(_moments(values)),
}
"""One group's values and the parameter; topk and bottomk pick elements and are no business of these."""
