"""The tab that shows what the GPUs of a run or an endpoint did: drawings, and the same in tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any, Final

from console.pages.panels import register_panel
from console.pages.reading import PageReading
from foundation.time_zones import reader_zone
from inference.specs import KIND as ENDPOINT
from jobs.adapter import KIND as RUN
from pages.charts import Chart, ChartSeries, Mark, draw, number_words
from pages.ranges_asked import range_facts
from pages.time_ranges import LONGEST, SHORTEST, TimeRange, read_range
from telemetry.gpu_metrics import XID_MEANINGS
from telemetry.gpu_series import CardTotal, GpuCard, GpuFigures, GpuSeries, gpu_series
from telemetry.size_advice import right_size_of
from workloads.models import Workload

GIB: Final = float(1 << 30)
LINES: Final = (("highest", "series-c", 2), ("average", "series-b", 1), ("lowest", "series-e", 0))
_SHOWN_IN: Final[Mapping[str, tuple[str, float]]] = {
    "percent": (" %", 1),
    "bytes": (" GiB", GIB),
    "celsius": (" °C", 1),
    "watts": (" W", 1),
    "megahertz": (" MHz", 1),
    "number": ("", 1),
}
DRAWN: Final = (
    "utilization",
    "memory_used",
    "temperature",
    "power",
    "sm_clock",
    "tensor_activity",
    "copy_utilization",
)
IN_ROWS: Final = ("utilization", "memory_used", "temperature", "power")
TOPS: Final[Mapping[str, float]] = {"percent": 100.0, "celsius": 50.0}
"""The least that the vertical axis reaches to."""


@dataclass(frozen=True, slots=True)
class CardRow:
    """One card in the table, in words."""

    card: GpuCard
    cells: tuple[str, ...]
    xid: str


@dataclass(frozen=True, slots=True)
class StepRow:
    """One step in the table: lowest, average and highest of each of `IN_ROWS`."""

    at: datetime
    cells: tuple[str, ...]


def gpu_panel(asked: PageReading[Any]) -> dict[str, Any]:
    """The figures of the time that the address names. Raises Malformed for a range that is none."""
    shown = range_of(asked)
    series = gpu_series(asked.workload, begin=shown.begin, step=shown.step, slots=shown.slots, now=asked.now)
    by_name = {figures.metric.name: figures for figures in series.figures if figures.of_cards}
    totals = {name: {each.card: each for each in figures.totals()} for name, figures in by_name.items()}
    marks = _marks(asked)
    return {
        **range_facts(asked, shown=shown),
        "gpus": series,
        "right_size": right_size_of(asked.workload, now=asked.now) if _was_run(asked.workload) else None,
        "charts": [_chart(by_name[name], series, shown, marks) for name in DRAWN if name in by_name],
        "card_rows": [_card_row(card, by_name, totals) for card in series.cards],
        "step_rows": _step_rows(series, by_name)[::-1],
        "step_heads": [by_name[name].metric.title for name in IN_ROWS if name in by_name],
    }


def _was_run(workload: Workload) -> bool:
    """Whether it is a run with GPUs that has ended: only such a one is asked for again."""
    return workload.kind == RUN and workload.is_final and workload.units > 0


def range_of(asked: PageReading[Any]) -> TimeRange:
    """What the address says; else of what has ended its whole time, as far as a page shows one."""
    workload, values = asked.workload, asked.request.GET
    if not workload.is_final or any(values.get(name) for name in ("range", "from", "to")):
        return read_range(values, now=asked.now, zone=reader_zone())
    return _whole(workload, asked.now, zone=reader_zone())


def _whole(workload: Workload, now: datetime, *, zone: tzinfo) -> TimeRange:
    end = workload.finished_at or now
    begin = max(workload.started_at or workload.created_at, end - LONGEST + timedelta(minutes=1))
    begin = min(begin, end - SHORTEST)
    return read_range({"from": _text(begin), "to": _text(end)}, now=now, zone=zone)


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _marks(asked: PageReading[Any]) -> list[Mark]:
    """The moves of its phase, as its timeline has them."""
    return [Mark(at=moved.at, text=f"{moved.to_phase}: {moved.reason}") for moved in asked.past]


def _chart(figures: GpuFigures, series: GpuSeries, shown: TimeRange, marks: Sequence[Mark]) -> Chart:
    unit, factor = _SHOWN_IN[figures.metric.unit]
    spreads = [figures.spread(slot) for slot in range(series.slots)]
    lines = LINES if len(figures.of_cards) > 1 else LINES[1:2]
    return draw(
        figures.metric.title,
        begin=shown.begin,
        step=shown.step,
        slots=shown.slots,
        series=[
            ChartSeries(
                name=name if len(lines) > 1 else figures.metric.title.lower(),
                look=look,
                values=[None if spread is None else spread[place] / factor for spread in spreads],
            )
            for name, look, place in lines
        ],
        marks=marks,
        unit=unit,
        least_top=TOPS.get(figures.metric.unit, 1.0),
        zone=shown.zone,
    )


def _card_row(
    card: GpuCard, by_name: Mapping[str, GpuFigures], of_cards: Mapping[str, Mapping[GpuCard, CardTotal]]
) -> CardRow:
    totals = {name: known[card] for name, known in of_cards.items() if card in known}

    def words(name: str, *values: str) -> str:
        total = totals.get(name)
        if total is None:
            return "not measured"
        return " / ".join(_words(getattr(total, value), by_name[name].metric.unit) for value in values)

    xid = totals.get("xid")
    return CardRow(
        card,
        (
            words("utilization", "average", "highest"),
            words("memory_used", "highest"),
            words("memory_total", "latest"),
            words("temperature", "highest"),
            words("power", "average"),
        ),
        _xid_words(int(xid.highest)) if xid is not None and xid.highest else "",
    )


def _xid_words(number: int) -> str:
    meaning = XID_MEANINGS.get(number)
    return f"XID {number}: {meaning}" if meaning else f"XID {number}"


def _step_rows(series: GpuSeries, by_name: Mapping[str, GpuFigures]) -> list[StepRow]:
    shown = [by_name[name] for name in IN_ROWS if name in by_name]
    rows = []
    for slot, at in enumerate(series.moments):
        spreads = [figures.spread(slot) for figures in shown]
        if any(spread is not None for spread in spreads):
            rows.append(
                StepRow(
                    at,
                    tuple(
                        "" if spread is None else _spread_words(spread, figures.metric.unit)
                        for spread, figures in zip(spreads, shown, strict=True)
                    ),
                )
            )
    return rows


def _spread_words(spread: tuple[float, float, float], unit: str) -> str:
    lowest, average, highest = spread
    if lowest == highest:
        return _words(average, unit)
    return f"{_words(average, unit)} ({_words(lowest, unit)} to {_words(highest, unit)})"


def _words(value: float, unit: str) -> str:
    sign, factor = _SHOWN_IN[unit]
    return f"{number_words(round(value / factor, 1))}{sign}"


def register() -> None:
    """Called once, when all apps are loaded."""
    for kind in (RUN, ENDPOINT):
        register_panel(kind, "gpus", gpu_panel)
