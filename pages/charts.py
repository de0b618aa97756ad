"""Time series as one drawing: paths, ticks and hover texts, as SVG takes them. Pure.

A drawing is 1000 wide and 100 high, and is stretched to its place; what must not be stretched (text) is placed by
percentages beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

WIDTH: Final = 1000.0
HEIGHT: Final = 100.0
Y_TICKS: Final = 4
_NICE: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_X_STEPS: Final = tuple(
    timedelta(minutes=minutes)
    for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10080, 20160, 43200, 87840)
)
X_TICKS_MAX: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSeries:
    """One line: a value for every slot, None where nothing is known. `stepped` holds each value until the next."""

    name: str
    look: str
    """The class of its path, and of its key in the legend."""
    values: Sequence[float | None]
    stepped: bool = False
    filled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something that happened at a moment."""

    at: datetime
    text: str
    look: str = "mark"


@dataclass(frozen=True, slots=True)
class Path:
    look: str
    d: str


@dataclass(frozen=True, slots=True)
class Tick:
    """`place` is a percentage: from the left, or from the top."""

    place: str
    text: str


@dataclass(frozen=True, slots=True)
class Slot:
    """What a pointer over this part of the drawing shows."""

    left: str
    width: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    title: str
    paths: tuple[Path, ...]
    y_ticks: tuple[Tick, ...]
    x_ticks: tuple[Tick, ...]
    slots: tuple[Slot, ...]
    marks: tuple[Tick, ...]
    legend: tuple[ChartSeries, ...]
    empty: bool
    """Whether no value is known at all."""


def draw(
    title: str,
    *,
    begin: datetime,
    step: timedelta,
    slots: int,
    series: Sequence[ChartSeries],
    marks: Sequence[Mark] = (),
    unit: str = "",
    least_top: float = 1.0,
) -> Chart:
    """The drawing of series in so many slots of length `step`, the first one from `begin`; a series may end earlier.

    The vertical axis begins at 0 and ends at a round number, `least_top` at least.
    """
    known = [value for line in series for value in line.values if value is not None]
    top = _round_up(max([least_top, *known]))
    end = begin + step * slots
    return Chart(
        title=title,
        paths=tuple(Path(look, d) for line in series for look, d in _paths(line, slots, top)),
        y_ticks=tuple(
            Tick(_percent(1 - index / Y_TICKS), f"{number_words(top * index / Y_TICKS)}{unit}")
            for index in range(Y_TICKS + 1)
        ),
        x_ticks=tuple(_x_ticks(begin, end)),
        slots=tuple(_slots(series, slots, begin, step, unit)),
        marks=tuple(
            Tick(_percent((mark.at - begin) / (end - begin)), mark.text)
            for mark in marks
            if begin <= mark.at <= end
        ),
        legend=tuple(series),
        empty=not known,
    )


def number_words(value: float) -> str:
    """`0`, `0.25`, `12.5`, `1,200`: as many digits as tell something."""
    if value == 0:
        return "0"
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _paths(series: ChartSeries, count: int, top: float) -> list[tuple[str, str]]:
    """One path a piece between gaps, and the area under it where it is filled."""
    paths = []
    for first, values in _pieces(series.values):
        points = _points(first, values, count, top, stepped=series.stepped)
        line = "M" + "L".join(f"{x:.1f} {y:.2f}" for x, y in points)
        if series.filled:
            area = f"{line}L{points[-1][0]:.1f} {HEIGHT:.0f}L{points[0][0]:.1f} {HEIGHT:.0f}Z"
            paths.append((f"{series.look} area", area))
        paths.append((f"{series.look} line", line))
    return paths


def _pieces(values: Sequence[float | None]) -> list[tuple[int, list[float]]]:
    pieces: list[tuple[int, list[float]]] = []
    before = False
    for index, value in enumerate(values):
        if value is not None:
            if not before:
                pieces.append((index, []))
            pieces[-1][1].append(value)
        before = value is not None
    return pieces


def _points(
    first: int, values: Sequence[float], count: int, top: float, *, stepped: bool
) -> list[tuple[float, float]]:
    wide = WIDTH / count
    points: list[tuple[float, float]] = []
    for offset, value in enumerate(values):
        left, y = (first + offset) * wide, HEIGHT * (1 - max(0.0, value) / top)
        if stepped or len(values) == 1:
            points += [(left, y), (left + wide, y)]
        else:
            points.append((left + wide / 2, y))
    return points


def _slots(
    series: Sequence[ChartSeries], count: int, begin: datetime, step: timedelta, unit: str
) -> list[Slot]:
    slots = []
    for index in range(count):
        values = [
            f"{line.name}: {number_words(value)}{unit}"
            for line in series
            if index < len(line.values) and (value := line.values[index]) is not None
        ]
        if values:
            at = begin + step * index
            when = f"{at:%Y-%m-%d}" if step >= timedelta(days=1) else f"{at:%Y-%m-%d %H:%M}"
            text = "\n".join([f"{when} UTC", *values])
            slots.append(Slot(_percent(index / count), _percent(1 / count), text))
    return slots


def _x_ticks(begin: datetime, end: datetime) -> list[Tick]:
    """At round times, each with its hour, or with its day where the drawing spans several."""
    whole = end - begin
    every = next((step for step in _X_STEPS if whole / step <= X_TICKS_MAX), _X_STEPS[-1])
    midnight = begin.replace(hour=0, minute=0, second=0, microsecond=0)
    at = midnight + every * math.ceil((begin - midnight) / every)
    ticks = []
    while at <= end:
        text = f"{at:%d %b}" if every >= timedelta(days=1) else f"{at:%H:%M}"
        ticks.append(Tick(_percent((at - begin) / whole), text))
        at += every
    return ticks


def _round_up(value: float) -> float:
    size = 10.0 ** math.floor(math.log10(value))
    return next(step * size for step in _NICE if step * size >= value * (1 - 1e-9))


def _percent(part: float) -> str:
    return f"{part * 100:.3f}%"
