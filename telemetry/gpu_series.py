"""What the GPUs of one workload did over a time: every metric, of every card that its pods had."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Q

from telemetry.gpu_metrics import SHOWN, GpuMetric
from telemetry.gpu_queries import PodLabels, metric_of, of_pods, over_steps
from telemetry.prometheus_reading import PrometheusReader, UnknownError
from workloads.models import PodRecord, Workload
from workloads.placement import Sharing

PODS_MAX: Final = 64
CARDS_MAX: Final = 256
NO_GPU: Final = "It asks for no GPU."
NO_PODS: Final = "No pod of it had a GPU in this time."
NO_SERIES: Final = "Prometheus has nothing of its GPUs in this time: dcgm-exporter is not scraped, or what it had is no longer kept."


@dataclass(frozen=True, slots=True)
class GpuCard:
    """One card, or one slice of a card, in the hands of one pod."""

    pod: str
    node: str
    gpu: str
    slice: str
    """The MIG profile and the number of the slice; empty for a whole card."""
    model: str
    uuid: str

    @property
    def words(self) -> str:
        return f"GPU {self.gpu}" + (f" ({self.slice})" if self.slice else "")


@dataclass(frozen=True, slots=True)
class CardTotal:
    """One metric of one card over the whole time."""

    card: GpuCard
    average: float
    highest: float
    latest: float


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """One metric: for each card a value of each slot, None where nothing is known."""

    metric: GpuMetric
    of_cards: Mapping[GpuCard, Sequence[float | None]]

    def spread(self, slot: int) -> tuple[float, float, float] | None:
        """The lowest, the average and the highest of the cards in a slot."""
        values = [values[slot] for values in self.of_cards.values()]
        known = [value for value in values if value is not None]
        return (min(known), math.fsum(known) / len(known), max(known)) if known else None

    def totals(self) -> list[CardTotal]:
        """Of each card of which anything is known."""
        known = {
            card: [each for each in values if each is not None] for card, values in self.of_cards.items()
        }
        return [
            CardTotal(card, math.fsum(values) / len(values), max(values), values[-1])
            for card, values in known.items()
            if values
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSeries:
    """`unknown_because` is a sentence where nothing is known; a slot begins at so many steps after `begin` as its number."""

    begin: datetime
    step: timedelta
    slots: int
    cards: tuple[GpuCard, ...] = ()
    figures: tuple[GpuFigures, ...] = ()
    unknown_because: str = ""
    shared: bool = False
    """Whether pods of others may use the same cards, which are measured as a whole."""
    complete: bool = True
    """Whether all its pods and cards are there."""
    moments: tuple[datetime, ...] = field(default=())


def gpu_series(
    workload: Workload, *, begin: datetime, step: timedelta, slots: int, now: datetime
) -> GpuSeries:
    """All that is shown of the workload's GPUs. Asks Prometheus: never inside a transaction."""
    blank = GpuSeries(
        begin=begin, step=step, slots=slots, moments=tuple(begin + step * index for index in range(slots))
    )
    if not workload.units or workload.flavor is None:
        return _unknown(blank, NO_GPU)
    pods = pods_of(workload, begin=begin, end=begin + step * slots)
    if not pods:
        return _unknown(blank, NO_PODS)
    try:
        return _read(workload, pods, blank, now)
    except UnknownError as error:
        return _unknown(blank, str(error))


def pods_of(workload: Workload, *, begin: datetime, end: datetime) -> list[PodRecord]:
    """Those with GPUs that were there at some moment of the time, the newest first; one more than is shown."""
    there = Q(gone_at=None) | Q(gone_at__gte=begin)
    rows = workload.pods.filter(there, units__gt=0, created_at__lt=end).order_by("-created_at", "-id")
    return list(rows[: PODS_MAX + 1])


def card_of(labels: Mapping[str, str], by: PodLabels) -> GpuCard:
    """The card that a series is of."""
    number, profile = labels.get("GPU_I_ID", ""), labels.get("GPU_I_PROFILE", "")
    return GpuCard(
        pod=labels.get(by.pod, ""),
        node=labels.get("Hostname", ""),
        gpu=labels.get("gpu", ""),
        slice=" ".join(part for part in (profile, number and f"#{number}") if part),
        model=labels.get("modelName", ""),
        uuid=labels.get("UUID", ""),
    )


def _unknown(blank: GpuSeries, why: str) -> GpuSeries:
    return GpuSeries(
        begin=blank.begin, step=blank.step, slots=blank.slots, moments=blank.moments, unknown_because=why
    )


def _read(workload: Workload, pods: Sequence[PodRecord], blank: GpuSeries, now: datetime) -> GpuSeries:
    reader, shown = PrometheusReader(), pods[:PODS_MAX]
    by = reader.labels()
    matchers = of_pods(by, shown[0].namespace, {pod.name for pod in shown})
    sharing = workload.flavor.sharing if workload.flavor else Sharing.NONE
    # The newest step that has ended: one that runs would look like a fall.
    ended = min(blank.slots, (now - blank.begin) // blank.step)
    if ended < 1:
        return _unknown(blank, NO_SERIES)
    figures = [
        _figures(metric_of(metric, is_mig=sharing == Sharing.MIG), reader, by, matchers, blank, ended)
        for metric in SHOWN
    ]
    cards = sorted(
        {card for each in figures for card in each.of_cards},
        key=lambda card: (card.pod, card.node, card.gpu, card.slice, card.uuid),
    )
    if not cards:
        return _unknown(blank, NO_SERIES)
    kept = cards[:CARDS_MAX]
    return GpuSeries(
        begin=blank.begin,
        step=blank.step,
        slots=blank.slots,
        moments=blank.moments,
        cards=tuple(kept),
        figures=tuple(
            GpuFigures(each.metric, {card: each.of_cards[card] for card in kept if card in each.of_cards})
            for each in figures
        ),
        shared=sharing in {Sharing.TIME_SLICING, Sharing.MPS},
        complete=len(pods) <= PODS_MAX and len(cards) <= CARDS_MAX,
    )


def _figures(
    metric: GpuMetric, reader: PrometheusReader, by: PodLabels, matchers: str, blank: GpuSeries, ended: int
) -> GpuFigures:
    query = over_steps(metric, by, matchers, step_seconds=int(blank.step.total_seconds()))
    # A value at the end of a step is of that step.
    begin, end = blank.begin + blank.step, blank.begin + blank.step * ended
    of_cards = {}
    for labels, samples in reader.over(query, begin=begin, end=end, step=blank.step):
        at_end = {round(at): value for at, value in samples.items() if math.isfinite(value)}
        values = [at_end.get(round((moment + blank.step).timestamp())) for moment in blank.moments[:ended]]
        of_cards[card_of(labels, by)] = [*values, *[None] * (blank.slots - ended)]
    return GpuFigures(metric, of_cards)
