"""How long requests took, as a histogram of fixed bounds. Pure.

A histogram is a list of counts, one for each bound and a last one for whatever took longer; zeros at its end are left
out, so that of a quick endpoint little is stored.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final

BOUNDS: Final = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0,
)  # fmt: skip
"""Upper bounds in seconds, each inside its bucket. Stored rows mean these: they are never changed."""


def add(histogram: list[int], seconds: float) -> None:
    """Counts one request."""
    place = bisect_left(BOUNDS, seconds)
    histogram.extend([0] * (place + 1 - len(histogram)))
    histogram[place] += 1


def merged(histograms: Iterable[Sequence[int]]) -> list[int]:
    """Their sum."""
    total: list[int] = []
    for histogram in histograms:
        total.extend([0] * (len(histogram) - len(total)))
        for place, count in enumerate(histogram):
            total[place] += count
    return total


def quantile(histogram: Sequence[int], share: float) -> float | None:
    """Seconds within which that share of the requests ended, taken as evenly spread inside a bucket.

    None where nothing was counted. Beyond the last bound it is that bound.
    """
    rank = share * sum(histogram)
    if not histogram or not any(histogram):
        return None
    below = 0
    for place, count in enumerate(histogram):
        if count and below + count >= rank:
            if place >= len(BOUNDS):
                break
            low = BOUNDS[place - 1] if place else 0.0
            return low + (BOUNDS[place] - low) * max(0.0, rank - below) / count
        below += count
    return BOUNDS[-1]
