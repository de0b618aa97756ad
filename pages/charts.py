"""Time series as one drawing: paths, ticks and hover texts, as SVG takes them. Pure.

A drawing is 1000 wide and 100 high, and is stretched to its place; what must not be stretched (text) is placed by
percentages beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

WIDTH: Final = 1000.0
HEIGHT: Final = 100.0
Y_TICKS_MAX: Final = 5
"""How many of them there are at most, beside the 0."""
_NICE: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_NICE_WHOLE: Final = (1.0, 2.0, 5.0, 10.0)
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
    """Something that happened at a moment, in words without the time."""

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
    begin: datetime
    end: datetime
    unit: str


@dataclass(frozen=True, slots=True)
class ChartRow:
    """One slot of several drawings: a cell for each of their series, and what happened in it."""

    at: str
    cells: tuple[str, ...]
    happened: str


@dataclass(frozen=True, slots=True)
class ChartTable:
    """The same as drawings, in words; the newest slot first."""

    heads: tuple[str, ...]
    rows: tuple[ChartRow, ...]
    zone: str


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
    whole: bool = False,
    zone: tzinfo = UTC,
) -> Chart:
    """The drawing of series in so many slots of length `step`, the first one from `begin`; a series may end earlier.

    The vertical axis begins at 0 and ends at a round number, `least_top` at least; its ticks are whole numbers where the
    values are counts, as `whole` says. The horizontal one has its ticks at round times of the `zone`.
    """
    known = [value for line in series for value in line.values if value is not None]
    every = _y_step(max([least_top, *known]), whole=whole)
    count = max(1, math.ceil(max([least_top, *known]) / every * (1 - 1e-9)))
    top = every * count
    end = begin + step * slots
    return Chart(
        title=title,
        paths=tuple(Path(look, d) for line in series for look, d in _paths(line, slots, top)),
        y_ticks=tuple(
            Tick(_percent(1 - index / count), f"{number_words(every * index)}{unit}")
            for index in range(count + 1)
        ),
        x_ticks=tuple(_x_ticks(begin, end, zone)),
        slots=tuple(_slots(series, slots, begin, step, unit=unit, zone=zone)),
        marks=tuple(
            Tick(_percent((mark.at - begin) / (end - begin)), _mark_words(mark, zone))
            for mark in marks
            if begin <= mark.at <= end
        ),
        legend=tuple(series),
        empty=not known,
        begin=begin,
        end=end,
        unit=unit,
    )


def table_of(
    charts: Sequence[Chart], marks: Sequence[Mark], *, step: timedelta, zone: tzinfo = UTC
) -> ChartTable:
    """Drawings of the same time as one table; a slot in which nothing is known and nothing happened is left out."""
    lines = [(chart, line) for chart in charts for line in chart.legend]
    begin, end = charts[0].begin, charts[0].end
    rows = []
    for index in range(round((end - begin) / step)):
        values = [line.values[index] if index < len(line.values) else None for _, line in lines]
        at = begin + step * index
        happened = "; ".join(mark.text for mark in marks if at <= mark.at < at + step)
        if happened or any(value is not None for value in values):
            cells = tuple(
                "" if value is None else f"{number_words(value)}{chart.unit}"
                for value, (chart, _) in zip(values, lines, strict=True)
            )
            rows.append(ChartRow(f"{at.astimezone(zone):%Y-%m-%d %H:%M}", cells, happened))
    heads = tuple(f"{chart.title}: {line.name}" for chart, line in lines)
    return ChartTable(heads, tuple(reversed(rows)), zone_words(zone, begin))


def zone_words(zone: tzinfo, at: datetime) -> str:
    """`UTC`, `CET`, or `UTC+05:45` where the zone has no letters of its own."""
    name = at.astimezone(zone).tzname() or "UTC"
    if name.isalpha():
        return name
    offset = at.astimezone(zone).isoformat()[-6:]
    return f"UTC{offset}"


def _mark_words(mark: Mark, zone: tzinfo) -> str:
    return f"{mark.at.astimezone(zone):%Y-%m-%d %H:%M:%S} {zone_words(zone, mark.at)}\n{mark.text}"


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
    series: Sequence[ChartSeries], count: int, begin: datetime, step: timedelta, *, unit: str, zone: tzinfo
) -> list[Slot]:
    slots = []
    for index in range(count):
        values = [
            f"{line.name}: {number_words(value)}{unit}"
            for line in series
            if index < len(line.values) and (value := line.values[index]) is not None
        ]
        if values:
            at = (begin + step * index).astimezone(zone)
            when = f"{at:%Y-%m-%d}" if step >= timedelta(days=1) else f"{at:%Y-%m-%d %H:%M}"
            text = "\n".join([f"{when} {zone_words(zone, at)}", *values])
            slots.append(Slot(_percent(index / count), _percent(1 / count), text))
    return slots


def _x_ticks(begin: datetime, end: datetime, zone: tzinfo) -> list[Tick]:
    """At round times of the zone, each with its hour; with its day at midnight, and where the drawing spans many days."""
    whole = end - begin
    every = next((step for step in _X_STEPS if whole / step <= X_TICKS_MAX), _X_STEPS[-1])
    # By the clock on the wall, which a change of summer time leaves round.
    wall = begin.astimezone(zone).replace(tzinfo=None)
    midnight = wall.replace(hour=0, minute=0, second=0, microsecond=0)
    wall = midnight + every * math.ceil((wall - midnight) / every)
    ticks = []
    while (at := wall.replace(tzinfo=zone)) <= end:
        # An hour that its clocks leave out is the one after it.
        shown = at.astimezone(UTC).astimezone(zone)
        new_day = shown.hour == shown.minute == 0
        text = f"{shown:%d %b}" if new_day or every >= timedelta(days=1) else f"{shown:%H:%M}"
        if at >= begin:
            ticks.append(Tick(_percent((at - begin) / whole), text))
        wall += every
    return ticks


def _y_step(top: float, *, whole: bool) -> float:
    """From one tick to the next: the smallest round number with which a few reach the top."""
    least = top / Y_TICKS_MAX * (1 - 1e-9)
    size = 10.0 ** math.floor(math.log10(least))
    if whole and least <= 1:
        return 1.0
    return next(step * size for step in (_NICE_WHOLE if whole else _NICE) if step * size >= least)


def _percent(part: float) -> str:
    return f"{part * 100:.3f}%"
