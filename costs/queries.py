"""Questions about money; nothing here writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import QuerySet, Sum
from django.db.models.functions import TruncDate

from costs.models import LedgerEntry, Price, PricedCard, UsageInterval
from costs.pricing import PriceSpan, accrued, priced_segments, rate_per_hour
from workloads.models import ResourceFlavor, Workload

PriceBook = dict[tuple[str, str], list[PriceSpan]]


@dataclass(frozen=True)
class Cost:
    """Micro-USD; None where a price is missing, with the reason why."""

    so_far: int | None
    rate_per_hour: int | None
    """Of all that it asks for; of what scales, at its most."""
    at_time_limit: int | None
    current_rate_per_hour: int | None = 0
    """Of the pods that are charged at this moment."""
    reason: str = ""


@dataclass(frozen=True)
class CostLine:
    workload_id: int
    pod_uid: str
    node_name: str
    flavor_name: str
    units: int
    started_at: datetime
    ended_at: datetime | None
    amount_micro_usd: int | None
    settled: bool


def spans_of(priced: PricedCard | None) -> list[PriceSpan]:
    """The card's prices, oldest first."""
    if priced is None:
        return []
    return [_span(row) for row in priced.prices.order_by("valid_from")]


def spans_by_card() -> PriceBook:
    """All prices, by card and capacity type."""
    book: PriceBook = {}
    for row in Price.objects.select_related("priced").order_by("valid_from"):
        book.setdefault((row.priced.card, row.priced.capacity_type), []).append(_span(row))
    return book


def _span(row: Price) -> PriceSpan:
    return PriceSpan(row.pk, row.micro_usd_per_card_hour, row.valid_from, row.valid_until)


def rate_now(
    flavor: ResourceFlavor | None, capacity_type: str, units: int, price_book: PriceBook, now: datetime
) -> int | None:
    """Micro-USD per hour of so many units now; 0 without a GPU, None without a price."""
    if flavor is None or units == 0:
        return 0
    span = _span_at(price_book.get((flavor.card, capacity_type), []), now)
    return rate_per_hour(units * flavor.gpu_fraction, span.micro_usd_per_card_hour) if span else None


def cost_of(workload: Workload, *, now: datetime) -> Cost:
    """What the workload has cost so far, to the second, and would cost at its time limit."""
    return costs_of([workload], now=now)[workload.pk]


def costs_of(workloads: Sequence[Workload], *, now: datetime) -> dict[int, Cost]:
    """The same of many, by their keys, in three queries however many they are."""
    price_book = spans_by_card()
    lines: dict[int, list[CostLine]] = {workload.pk: [] for workload in workloads}
    for line in _lines_of(list(lines), price_book, now):
        lines[line.workload_id].append(line)
    return {workload.pk: _cost(workload, lines[workload.pk], price_book, now) for workload in workloads}


def cost_lines(workload: Workload, *, now: datetime) -> list[CostLine]:
    """One line per pod: what the ledger holds and what has come up since, oldest first."""
    return _lines_of([workload.pk], spans_by_card(), now)


def _cost(workload: Workload, lines: Sequence[CostLine], price_book: PriceBook, now: datetime) -> Cost:
    charges = [line.amount_micro_usd for line in lines]
    running = sum(line.units for line in lines if line.ended_at is None)
    current = rate_now(workload.flavor, workload.capacity_type, running, price_book, now)
    rate = rate_now(workload.flavor, workload.capacity_type, workload.units, price_book, now)
    limit = None
    if rate is not None and workload.time_limit_seconds is not None:
        limit = rate * workload.time_limit_seconds // 3600
    if rate is None or None in charges:
        return Cost(None, rate, limit, current, reason="no price")
    return Cost(sum(charge for charge in charges if charge is not None), rate, limit, current)


def _lines_of(workload_ids: Sequence[int], price_book: PriceBook, now: datetime) -> list[CostLine]:
    entries = LedgerEntry.objects.filter(workload__in=workload_ids, account__startswith="team:")
    posted = {
        row["pod_uid"]: row["total"]
        for row in entries.values("pod_uid").annotate(total=Sum("amount_micro_usd"))
    }
    usages = UsageInterval.objects.filter(workload__in=workload_ids).order_by("started_at", "id")
    return [
        _line(usage, posted.get(usage.pod_uid, 0), price_book.get((usage.card, usage.capacity_type), []), now)
        for usage in usages
    ]


def _line(usage: UsageInterval, posted: int, spans: Sequence[PriceSpan], now: datetime) -> CostLine:
    end = usage.ended_at or max(now.replace(microsecond=0), usage.settled_until)
    segments = list(priced_segments(usage.settled_until, end, spans))
    complete = end == usage.settled_until or (bool(segments) and segments[-1].end == end)
    return CostLine(
        workload_id=usage.workload_id,
        pod_uid=usage.pod_uid,
        node_name=usage.node_name,
        flavor_name=usage.flavor_name,
        units=usage.units,
        started_at=usage.started_at,
        ended_at=usage.ended_at,
        amount_micro_usd=posted + accrued(segments, usage.cards) if complete else None,
        settled=usage.ended_at is not None and usage.settled_until == usage.ended_at,
    )


def _span_at(spans: Sequence[PriceSpan], moment: datetime) -> PriceSpan | None:
    return next((s for s in spans if s.start <= moment and (s.until is None or moment < s.until)), None)


GROUPS: dict[str, tuple[str, ...]] = {
    "team": ("team__slug",),
    "flavor": ("flavor_name",),
    "workload": ("workload__public_id", "workload__name"),
    "day": ("day",),
}


@dataclass(frozen=True)
class CostGroup:
    key: str
    name: str
    amount_micro_usd: int


def summary(entries: QuerySet[LedgerEntry], *, group_by: str) -> list[CostGroup]:
    """What teams were charged, by one of `GROUPS`, the dearest first; days are UTC and in their order.

    A line counts for the day on which it began.
    """
    fields = GROUPS[group_by]
    rows = entries.filter(account__startswith="team:")
    if group_by == "day":
        rows = rows.annotate(day=TruncDate("started_at", tzinfo=UTC))
    sums = rows.order_by().values(*fields).annotate(total=Sum("amount_micro_usd"))
    groups = [CostGroup(str(row[fields[0]]), str(row[fields[-1]]), row["total"]) for row in sums]
    by_day = group_by == "day"
    return sorted(groups, key=lambda group: group.key if by_day else (-group.amount_micro_usd, group.key))


def ledger_difference() -> int:
    """Sum over all postings, which must be 0, in micro-USD."""
    return LedgerEntry.objects.aggregate(total=Sum("amount_micro_usd"))["total"] or 0
