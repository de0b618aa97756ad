"""Writes down what the GPUs of runs did, soon after these have ended."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from foundation import leases
from telemetry.gpu_metrics import MEMORY_USED, UTILIZATION, UTILIZATION_OF_SLICE, GpuMetric
from telemetry.gpu_queries import PodLabels, of_pods, over_steps
from telemetry.gpu_series import PODS_MAX, GpuCard, card_of, pods_of
from telemetry.models import GpuSummary
from telemetry.prometheus_reading import PrometheusReader, UnknownError
from workloads.models import PodRecord, Workload
from workloads.states import FINAL

AFTER: Final = timedelta(minutes=2)
"""By then what was measured last has been scraped."""
TRIED_FOR: Final = timedelta(hours=6)
SHORTEST: Final = timedelta(minutes=3)
AT_ONCE: Final = 20
STEPS: Final = 120
USED_PERCENT: Final = 5.0
"""A card did something if a step of it was busier than that."""
_MEMORY: Final = GpuMetric("memory_used", "", "mebibytes", (MEMORY_USED,), highest=True)

Steps = Mapping[GpuCard, Sequence[float]]


@dataclass(frozen=True, slots=True)
class _Asked:
    """Of which pods, from when to when, in steps of so many seconds."""

    pods: Sequence[PodRecord]
    begin: datetime
    end: datetime
    step: int


def write_summaries(*, now: datetime) -> None:
    """Of workloads that have ended a while ago; those of which Prometheus says nothing now are tried again."""
    ended = Workload.objects.filter(
        phase__in=sorted(FINAL),
        units__gt=0,
        started_at__isnull=False,
        finished_at__gt=now - TRIED_FOR,
        finished_at__lte=now - AFTER,
        gpu_summary=None,
    )
    due = list(ended.order_by("finished_at", "pk")[:AT_ONCE])
    if not due:
        return
    try:
        reader = PrometheusReader(budget_seconds=15.0)
        by = reader.labels()
        summaries = [_summary(workload, reader, by, now) for workload in due]
    except UnknownError:
        return
    with transaction.atomic():
        leases.check()
        GpuSummary.objects.bulk_create(summaries, ignore_conflicts=True)


def _summary(workload: Workload, reader: PrometheusReader, by: PodLabels, now: datetime) -> GpuSummary:
    end = workload.finished_at or now
    begin = workload.started_at or end
    seconds = max(0, int((end - begin).total_seconds()))
    blank = GpuSummary(
        workload=workload,
        written_at=now,
        seconds=seconds,
        cards=0,
        used_each=0,
        average_utilization=0.0,
        peak_memory_mib=0.0,
        coverage=0.0,
    )
    pods = pods_of(workload, begin=begin, end=end)[:PODS_MAX]
    if not pods or end - begin < SHORTEST:
        return blank
    asked = _Asked(pods, begin, end, max(60, seconds // STEPS))
    busy: dict[GpuCard, Sequence[float]] = {}
    for metric in (UTILIZATION_OF_SLICE, UTILIZATION):
        busy |= _steps(metric, reader, by, asked)
    if not busy:
        return blank
    memory = _steps(_MEMORY, reader, by, asked)
    return _filled(blank, busy, memory, max(1, seconds // asked.step))


def _steps(metric: GpuMetric, reader: PrometheusReader, by: PodLabels, asked: _Asked) -> Steps:
    matchers = of_pods(by, asked.pods[0].namespace, {pod.name for pod in asked.pods})
    step = timedelta(seconds=asked.step)
    query = over_steps(metric, by, matchers, step_seconds=asked.step)
    found = reader.over(query, begin=asked.begin + step, end=asked.end, step=step)
    return {
        card_of(labels, by): [value for value in samples.values() if math.isfinite(value)]
        for labels, samples in found
    }


def _filled(row: GpuSummary, busy: Steps, memory: Steps, steps: int) -> GpuSummary:
    used = {card: values for card, values in busy.items() if max(values, default=0.0) > USED_PERCENT}
    each: dict[str, int] = defaultdict(int)
    for card in used:
        each[card.pod] += 1
    known = [value for values in (used or busy).values() for value in values]
    row.cards = len(busy)
    row.used_each = max(each.values(), default=0)
    row.average_utilization = math.fsum(known) / len(known) if known else 0.0
    row.peak_memory_mib = max((value for values in memory.values() for value in values), default=0.0)
    measured = [len(values) for values in busy.values()]
    row.coverage = min(1.0, sum(measured) / (len(measured) * steps))
    return row
