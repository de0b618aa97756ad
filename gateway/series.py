"""How an endpoint was called over a time: requests, classes of answers and how long they took, by revision."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection

from gateway import latency
from gateway.models import RequestCount
from workloads.models import Workload

POINTS_MAX: Final = 2000
STEPS: Final = (60, 300, 900, 3600, 6 * 3600)
_POINTS_WANTED: Final = 150

_COUNTS = """
SELECT date_bin(make_interval(secs => %(step)s), minute, %(origin)s) AS at, revision, status_class, sum(count)
FROM gateway_requestcount
WHERE endpoint_id = %(endpoint)s AND minute >= %(begin)s AND minute < %(end)s
GROUP BY at, revision, status_class
"""
_LATENCIES = """
SELECT date_bin(make_interval(secs => %(step)s), minute, %(origin)s) AS at, revision, place, sum(ended)
FROM gateway_requestcount, unnest(latency) WITH ORDINALITY AS buckets (ended, place)
WHERE endpoint_id = %(endpoint)s AND minute >= %(begin)s AND minute < %(end)s AND ended > 0
GROUP BY at, revision, place
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Requests that ended, by class of status (2 for 2xx); seconds, None where no answer of the endpoint was timed."""

    requests: int
    classes: Mapping[int, int]
    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One step of the time, which begins `at`, and one revision (0 where that is not known)."""

    at: datetime
    revision: int
    summary: Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSeries:
    """Steps without a request are left out. `revisions` and `total` are over the whole time, `by_step` over all revisions."""

    step: timedelta
    points: tuple[Point, ...]
    by_step: Mapping[datetime, Summary]
    revisions: Mapping[int, Summary]
    total: Summary


def step_for(begin: datetime, end: datetime) -> timedelta:
    """The shortest of the usual steps that gives no more points than a chart shows."""
    seconds = (end - begin).total_seconds()
    fits = (step for step in STEPS if seconds / step <= _POINTS_WANTED)
    return timedelta(seconds=next(fits, STEPS[-1]))


def _asked(endpoint: Workload, begin: datetime, end: datetime, step: timedelta) -> dict[str, Any]:
    """Parameters of the statements: from the minute of `begin` on, in steps that begin at multiples of `step` in UTC."""
    return {
        "endpoint": endpoint.pk,
        "begin": begin.replace(second=0, microsecond=0),
        "end": end,
        "step": step.total_seconds(),
        "origin": datetime.fromisoformat("2000-01-01T00:00:00+00:00"),
    }


def classes_by_step(
    *, endpoint: Workload, begin: datetime, end: datetime, step: timedelta
) -> dict[datetime, dict[int, int]]:
    """Requests by class of status in each step of `request_series`, of all revisions together; in one query."""
    classes: defaultdict[datetime, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    with connection.cursor() as cursor:
        cursor.execute(_COUNTS, _asked(endpoint, begin, end, step))
        for at, _, status_class, count in cursor.fetchall():
            classes[at][status_class] += int(count)
    return dict(classes)


def request_series(*, endpoint: Workload, begin: datetime, end: datetime, step: timedelta) -> CallSeries:
    """What ended from `begin` (its minute included) to `end`, in steps that begin at multiples of `step` in UTC."""
    values = _asked(endpoint, begin, end, step)
    classes: defaultdict[tuple[datetime, int], dict[int, int]] = defaultdict(dict)
    histograms: defaultdict[tuple[datetime, int], list[int]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_COUNTS, values)
        for at, revision, status_class, count in cursor.fetchall():
            classes[at, revision][status_class] = int(count)
        cursor.execute(_LATENCIES, values)
        for at, revision, place, ended in cursor.fetchall():
            histogram = histograms[at, revision]
            histogram.extend([0] * (place - len(histogram)))
            histogram[place - 1] = int(ended)
    keys = sorted(classes)
    of_step: defaultdict[datetime, list[tuple[datetime, int]]] = defaultdict(list)
    of_revision: defaultdict[int, list[tuple[datetime, int]]] = defaultdict(list)
    for key in keys:
        of_step[key[0]].append(key)
        of_revision[key[1]].append(key)
    return CallSeries(
        step=step,
        points=tuple(
            Point(at=at, revision=revision, summary=_summary([(at, revision)], classes, histograms))
            for at, revision in keys
        ),
        by_step={moment: _summary(of_this, classes, histograms) for moment, of_this in of_step.items()},
        revisions={
            number: _summary(of_this, classes, histograms) for number, of_this in sorted(of_revision.items())
        },
        total=_summary(keys, classes, histograms),
    )


def summaries_since(endpoints: Sequence[Workload], *, since: datetime) -> dict[int, Summary]:
    """How each endpoint, by its key, was called since then; without those that were not called."""
    counts: defaultdict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    histograms: defaultdict[int, list[Sequence[int]]] = defaultdict(list)
    rows = RequestCount.objects.filter(endpoint__in=endpoints, minute__gte=since)
    for key, status_class, count, histogram in rows.values_list(
        "endpoint", "status_class", "count", "latency"
    ):
        counts[key][status_class] += count
        histograms[key].append(histogram)
    return {key: _told(counts[key], latency.merged(histograms[key])) for key in counts}


def _summary(
    keys: list[tuple[datetime, int]],
    classes: Mapping[tuple[datetime, int], Mapping[int, int]],
    histograms: Mapping[tuple[datetime, int], list[int]],
) -> Summary:
    counts: defaultdict[int, int] = defaultdict(int)
    for key in keys:
        for status_class, count in classes[key].items():
            counts[status_class] += count
    return _told(counts, latency.merged(histograms[key] for key in keys if key in histograms))


def _told(counts: Mapping[int, int], histogram: Sequence[int]) -> Summary:
    return Summary(
        requests=sum(counts.values()),
        classes=dict(sorted(counts.items())),
        p50=latency.quantile(histogram, 0.5),
        p95=latency.quantile(histogram, 0.95),
        p99=latency.quantile(histogram, 0.99),
    )
