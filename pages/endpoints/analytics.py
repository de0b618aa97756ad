"""The figures of an endpoint over time: replicas against load, calls, errors and latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final, TypeVar

from console.pages.reading import PageReading
from gateway.series import Summary, classes_by_step, request_series
from inference.models import ScaleSample
from inference.now import EndpointNow
from inference.queries import scale_samples
from inference.triggers import (
    CPU,
    CRON,
    GPU_UTILIZATION,
    IN_FLIGHT,
    PROMETHEUS,
    QUEUE_DEPTH,
    QUEUE_LATENCY,
    REQUESTS_PER_SECOND,
)
from pages.charts import Chart, ChartSeries, Mark, draw, number_words, table_of
from pages.ranges_asked import range_facts
from pages.time_ranges import TimeRange
from workloads.models import Workload

DECISIONS_MAX: Final = 50
CLASSES: Final = (
    (2, "2xx", "series-b"),
    (3, "3xx", "series-e"),
    (4, "4xx", "series-c"),
    (5, "5xx", "series-d"),
)
Of = TypeVar("Of")
QUANTILES: Final = (("p50", "series-b"), ("p95", "series-a"), ("p99", "series-c"))
STALE: Final = timedelta(minutes=6)
"""A sample holds until the next one, but no longer than this: what has a scaler is noted every minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDecision:
    """The scaler, or a person, wanted another number of replicas."""

    at: datetime
    before: int
    after: int
    why: str

    @property
    def text(self) -> str:
        """`Scaled 1 → 3: 11 requests in flight a replica, target 4`."""
        said = f"Scaled {self.before} → {self.after}"
        return f"{said}: {self.why}" if self.why else said


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRow:
    """How one revision was called in the whole time; milliseconds."""

    number: int
    requests: int
    failed_percent: float
    p50: str
    p95: str
    p99: str


def analytics_panel(asked: PageReading[EndpointNow]) -> dict[str, Any]:
    """Charts, and the same in tables. Raises Malformed for a range that is none."""
    facts = range_facts(asked)
    shown = facts["shown"]
    calls = request_series(endpoint=asked.workload, begin=shown.begin, end=shown.end, step=shown.step)
    samples = scale_samples(asked.workload, begin=shown.begin, end=shown.end)
    decisions = decisions_of(samples, trigger=trigger_of(asked))
    by_step = _steps(calls.by_step, shown, asked.now)
    classes = [None if step is None else step.classes for step in by_step]
    charts = [
        replicas_chart(samples, decisions, shown, now=asked.now),
        metric_chart(samples, decisions, shown, now=asked.now),
        calls_chart(classes, shown),
        latency_chart(by_step, shown),
    ]
    tabled = "table" in asked.request.GET
    marks = _marks(decisions)
    return {
        **facts,
        "charts": charts,
        "chart_table": table_of(charts, marks, step=shown.step, zone=shown.zone) if tabled else None,
        "decisions": decisions[::-1][:DECISIONS_MAX],
        "revision_rows": [
            _revision_row(number, calls.revisions[number]) for number in sorted(calls.revisions, reverse=True)
        ],
        "total": calls.total,
        "total_failed": failed_percent(calls.total),
        "total_latency": [(name, _latency_words(calls.total, name)) for name, _ in QUANTILES],
    }


def calls_of_range(workload: Workload, shown: TimeRange, *, now: datetime) -> Chart:
    """Requests a second in that time."""
    calls = classes_by_step(endpoint=workload, begin=shown.begin, end=shown.end, step=shown.step)
    return calls_chart(_steps(calls, shown, now), shown)


def _steps(by_step: Mapping[datetime, Of], shown: TimeRange, now: datetime) -> list[Of | None]:
    """The value of each step that has ended: one that has not would look like a fall."""
    return [by_step.get(moment) for moment in shown.moments if moment + shown.step <= now]


def trigger_of(asked: PageReading[EndpointNow]) -> str:
    """By what it scales; empty where it has a fixed number of replicas."""
    scaling = asked.own.spec.scaling
    return scaling.trigger if scaling is not None else ""


def decisions_of(samples: Sequence[ScaleSample], *, trigger: str = "") -> list[ScaleDecision]:
    """Where the wanted number of replicas changed, oldest first; `trigger` is by what it scales now."""
    return [
        ScaleDecision(at=new.at, before=old.desired, after=new.desired, why=_why(old, new, trigger))
        for old, new in pairwise(samples)
        if old.desired != new.desired
    ]


_MEASURED: Final[Mapping[str, str]] = {
    IN_FLIGHT: "requests in flight a replica",
    REQUESTS_PER_SECOND: "requests a second a replica",
    QUEUE_DEPTH: "requests waiting in a replica's queue",
    QUEUE_LATENCY: "ms in the server's queue",
    GPU_UTILIZATION: "% GPU utilization",
    CPU: "% of the CPU that it asks for",
    PROMETHEUS: "by its own query",
    CRON: "replicas by its schedule",
}
"""What the number is that a scaler goes by. Of totals the cluster tells the share of one replica."""
BY_TARGET: Final = frozenset({"ReadyForNewScale", "SucceededRescale", "DesiredWithinRange"})
"""Reasons that say no more than the number and its target do."""

_WHY: Final[Mapping[str, str]] = {
    "ScalerNotActive": "nobody called for the cool-down",
    "ScalerActive": "a call woke it",
    "TooFewReplicas": "not below its minimum",
    "TooManyReplicas": "not above its maximum",
    "ScaleUpLimit": "not faster than its scaler may grow",
    "ScaleDownLimit": "not faster than its scaler may shrink",
    "ScaleDownStabilized": "recent load counts, too",
    "ScaleUpStabilized": "a short peak does not count",
}
"""What the reasons of KEDA and of the cluster's autoscaler mean; any other reason is shown as it is."""


def _why(old: ScaleSample, new: ScaleSample, trigger: str) -> str:
    """What the scaler saw, and what held it back; of another size than it was allowed before, that."""
    parts = []
    if (old.minimum, old.maximum) != (new.minimum, new.maximum):
        parts.append(f"it may have {new.minimum} to {new.maximum} replicas now")
    if new.metric is not None and new.target is not None:
        measured = _MEASURED.get(trigger, "by its metric")
        parts.append(f"{number_words(new.metric)} {measured}, target {number_words(new.target)}")
    if new.reason and new.reason not in BY_TARGET:
        parts.append(_WHY.get(new.reason, new.reason))
    return "; ".join(parts)


def replicas_chart(
    samples: Sequence[ScaleSample], decisions: Sequence[ScaleDecision], shown: TimeRange, *, now: datetime
) -> Chart:
    """Ready and wanted, between the smallest and the largest number that the scaler may choose."""
    held = _held(samples, shown, now)
    return draw(
        "Replicas",
        begin=shown.begin,
        step=shown.step,
        slots=shown.slots,
        series=[
            ChartSeries(
                name="ready", look="series-b", values=_values(held, "ready"), stepped=True, filled=True
            ),
            ChartSeries(name="wanted", look="series-a", values=_values(held, "desired"), stepped=True),
            ChartSeries(name="most", look="series-f", values=_values(held, "maximum"), stepped=True),
        ],
        marks=_marks(decisions),
        whole=True,
        zone=shown.zone,
    )


def metric_chart(
    samples: Sequence[ScaleSample], decisions: Sequence[ScaleDecision], shown: TimeRange, *, now: datetime
) -> Chart:
    """What the scaler goes by, against its target."""
    held = _held(samples, shown, now)
    return draw(
        "Scaling metric",
        begin=shown.begin,
        step=shown.step,
        slots=shown.slots,
        series=[
            ChartSeries(name="metric", look="series-a", values=_values(held, "metric")),
            ChartSeries(name="target", look="series-f", values=_values(held, "target"), stepped=True),
        ],
        marks=_marks(decisions),
        zone=shown.zone,
    )


def calls_chart(by_step: Sequence[Mapping[int, int] | None], shown: TimeRange) -> Chart:
    """Requests a second by class of status; a step without a request is 0."""
    seconds = shown.step.total_seconds()
    numbers = {number for counts in by_step if counts for number in counts}
    return draw(
        "Requests per second",
        begin=shown.begin,
        step=shown.step,
        slots=shown.slots,
        series=[
            ChartSeries(
                name=name,
                look=look,
                values=[counts.get(number, 0) / seconds if counts else 0.0 for counts in by_step],
            )
            for number, name, look in CLASSES
            if number in numbers
        ],
        least_top=0.1,
        zone=shown.zone,
    )


def latency_chart(by_step: Sequence[Summary | None], shown: TimeRange) -> Chart:
    """Milliseconds within which half, 95 and 99 of 100 answers were complete."""
    return draw(
        "Latency",
        begin=shown.begin,
        step=shown.step,
        slots=shown.slots,
        series=[
            ChartSeries(name=name, look=look, values=[_milliseconds(summary, name) for summary in by_step])
            for name, look in QUANTILES
        ],
        unit=" ms",
        zone=shown.zone,
    )


def failed_percent(summary: Summary) -> float:
    """The share of answers that were 5xx; 0 where there was none at all."""
    return 100 * summary.classes.get(5, 0) / summary.requests if summary.requests else 0.0


def _held(samples: Sequence[ScaleSample], shown: TimeRange, now: datetime) -> list[ScaleSample | None]:
    """The sample that is newest at the end of each step, as long as it can be believed."""
    longest = max(STALE, shown.step)
    held: list[ScaleSample | None] = []
    index, newest = 0, None
    for moment in shown.moments:
        while index < len(samples) and samples[index].at < moment + shown.step:
            newest = samples[index]
            index += 1
        past = moment <= now
        held.append(newest if newest is not None and past and moment - newest.at <= longest else None)
    return held


def _values(held: Sequence[ScaleSample | None], name: str) -> list[float | None]:
    return [None if sample is None else getattr(sample, name) for sample in held]


def _marks(decisions: Sequence[ScaleDecision]) -> list[Mark]:
    return [Mark(at=decision.at, text=decision.text) for decision in decisions]


def _milliseconds(summary: Summary | None, name: str) -> float | None:
    seconds = None if summary is None else getattr(summary, name)
    return None if seconds is None else seconds * 1000


def _revision_row(number: int, summary: Summary) -> RevisionRow:
    latencies = {name: _latency_words(summary, name) for name, _ in QUANTILES}
    return RevisionRow(
        number=number, requests=summary.requests, failed_percent=failed_percent(summary), **latencies
    )


def _latency_words(summary: Summary, name: str) -> str:
    value = _milliseconds(summary, name)
    return "not timed" if value is None else f"{number_words(value)} ms"
