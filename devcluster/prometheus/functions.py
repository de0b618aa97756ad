"""PromQL's functions and aggregations, as Prometheus works them out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .storage import NAME

Point = tuple[int, float]
Element = tuple[dict[str, str], float]
Vector = list[Element]
OverRange = Callable[[Sequence[Point], int, int], float | None]
LabelSet = tuple[tuple[str, str], ...]


def nameless(labels: dict[str, str]) -> dict[str, str]:
    return {label: text for label, text in labels.items() if label != NAME}


def label_set(labels: dict[str, str]) -> LabelSet:
    """The labels of a group or a match, to be compared."""
    return tuple(sorted(labels.items()))


# Over a range: the points, the beginning and the end of the range in milliseconds; None gives no element.


def _increase(points: Sequence[Point], start: int, end: int) -> float | None:
    """What a counter grew by over the whole range, of which the samples show a part."""
    if len(points) < 2:
        return None
    (first_at, first), (last_at, last) = points[0], points[-1]
    change, before = last - first, first
    for _, value in points[1:]:
        change += before if value < before else 0.0
        before = value
    to_start, to_end = (first_at - start) / 1000, (end - last_at) / 1000
    sampled = (last_at - first_at) / 1000
    average = sampled / (len(points) - 1)
    if change > 0 and first >= 0:
        # It was not below zero before its first sample.
        to_start = min(to_start, sampled * (first / change))
    whole = sampled
    for missing in (to_start, to_end):
        whole += missing if missing < average * 1.1 else average / 2
    return change * (whole / sampled)


def _rate(points: Sequence[Point], start: int, end: int) -> float | None:
    change = _increase(points, start, end)
    return None if change is None else change / ((end - start) / 1000)


def _irate(points: Sequence[Point], _start: int, _end: int) -> float | None:
    if len(points) < 2:
        return None
    (before_at, before), (at, value) = points[-2:]
    return (value if value < before else value - before) / ((at - before_at) / 1000)


def _of_values(function: Callable[[Sequence[float]], float]) -> OverRange:
    return lambda points, _start, _end: function([value for _, value in points])


def _extreme(pick: Callable[[Sequence[float]], float]) -> Callable[[Sequence[float]], float]:
    """A number is preferred to NaN."""

    def picked(values: Sequence[float]) -> float:
        numbers = [value for value in values if not math.isnan(value)]
        return pick(numbers) if numbers else math.nan

    return picked


def _sum(values: Sequence[float]) -> float:
    return math.fsum(values) if all(map(math.isfinite, values)) else sum(values)


AGGREGATIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "sum": _sum,
    "avg": lambda values: _sum(values) / len(values),
    "min": _extreme(min),
    "max": _extreme(max),
    "count": lambda values: float(len(values)),
}
OVER_RANGE: dict[str, OverRange] = {
    "rate": _rate,
    "irate": _irate,
    "increase": _increase,
    **{f"{name}_over_time": _of_values(function) for name, function in AGGREGATIONS.items()},
}


# Histograms


def histogram_quantile(share: float, vector: Vector) -> Vector:
    """The quantile of the buckets in `vector`, by the labels that they have beside `le`."""
    groups: dict[LabelSet, dict[float, float]] = {}
    for labels, value in vector:
        try:
            bound = float(labels.get("le", ""))
        except ValueError:
            continue
        kept = {label: text for label, text in nameless(labels).items() if label != "le"}
        buckets = groups.setdefault(label_set(kept), {})
        buckets[bound] = buckets.get(bound, 0.0) + value
    return [(dict(kept), _of_buckets(share, sorted(buckets.items()))) for kept, buckets in groups.items()]


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
    start, below = buckets[index - 1][0], counts[index - 1]
    return start + (end - start) * ((rank - below) / (count - below))
