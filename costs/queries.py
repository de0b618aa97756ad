"""Questions about money; nothing here writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any, Protocol

from django.contrib.postgres.expressions import ArraySubquery
from django.db import connection
from django.db.models import Q, Sum
from django.db.models.functions import JSONObject

from costs.models import LedgerEntry, Price, PricedCard, UsageInterval
from costs.pricing import PriceSpan, accrued, has_price_at_end, priced_segments, quote, rate_per_hour
from foundation.money import half_up
from teams.models import Team
from workloads.models import ResourceFlavor, Workload

PriceBook = dict[tuple[str, str], list[PriceSpan]]
LINES_MAX = 500
"""Pods of one workload whose lines are shown at once; the ledger has them all, page by page."""


@dataclass(frozen=True)
class Cost:
    """Micro-USD; None where a price is missing, with the reason why."""

    so_far: int | None
    rate_per_hour: int | None
    """The rate of all that it asks for; of an endpoint that scales, at its most."""
    at_time_limit: int | None
    """What all that it asks for costs from its start to its time limit, by the prices that are known; of what was
    interrupted, as if it had run on. See `costs.pricing.quote` for how it is the sum of the ledger's lines.
    """
    current_rate_per_hour: int | None = 0
    """The rate of the pods that are charged at this moment."""
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


@dataclass(frozen=True)
class CostLines:
    """One line a pod, oldest first; not `complete` where older pods are left out."""

    lines: list[CostLine]
    complete: bool


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


class Priced(Protocol):
    """What has a price: an exact fraction of a card."""

    @property
    def card(self) -> str: ...

    @property
    def gpu_fraction(self) -> Fraction: ...


def rate_now(
    flavor: Priced | None, capacity_type: str, units: int, price_book: PriceBook, now: datetime
) -> int | None:
    """Micro-USD per hour of so many units now, rounded half up; 0 without a GPU, None without a price."""
    exact = exact_rate_now(flavor, capacity_type, units, price_book, now)
    return None if exact is None else half_up(exact)


def exact_rate_now(
    flavor: Priced | None, capacity_type: str, units: int, price_book: PriceBook, now: datetime
) -> Fraction | None:
    """The same to the last fraction, for who multiplies it."""
    if flavor is None or units == 0:
        return Fraction(0)
    span = _span_at(price_book.get((flavor.card, capacity_type), []), now)
    return units * flavor.gpu_fraction * span.micro_usd_per_card_hour if span else None


def cost_for(
    flavor: Priced | None,
    capacity_type: str,
    units: int,
    seconds: int | None,
    price_book: PriceBook,
    start: datetime,
) -> int | None:
    """Micro-USD of so many units for so many seconds from `start` on; 0 without a GPU, None without a price or an end.

    The one function by which a cost is told beforehand: it says what the ledger will.
    """
    if seconds is None:
        return None
    if flavor is None or units == 0:
        return 0
    spans = price_book.get((flavor.card, capacity_type), [])
    return quote(units * flavor.gpu_fraction, start, seconds, spans)


@dataclass(frozen=True)
class CapacityQuote:
    """What the same costs on one capacity type, in micro-USD."""

    capacity_type: str
    rate_per_hour: int
    at_time_limit: int | None


def quotes_for(
    flavor: ResourceFlavor, units: int, seconds: int | None, price_book: PriceBook, start: datetime
) -> tuple[CapacityQuote, ...]:
    """The cost on each capacity type that the flavor has and that has a price now, by name."""
    quotes = []
    for capacity_type in sorted(flavor.capacity):
        rate = rate_now(flavor, capacity_type, units, price_book, start)
        if rate is not None:
            limit = cost_for(flavor, capacity_type, units, seconds, price_book, start)
            quotes.append(CapacityQuote(capacity_type, rate, limit))
    return tuple(quotes)


def held_by(team: Team) -> ArraySubquery:
    """What the team's pods hold now, to be read with rows, once for all of them: `rate_of` knows what it costs."""
    held = UsageInterval.objects.filter(team=team, ended_at__isnull=True).order_by()
    lanes = held.values(*_LANE).annotate(held=Sum("units"))
    return ArraySubquery(lanes.values_list(JSONObject(held="held", **{name: name for name in _LANE})))


def rate_of(held: Sequence[Mapping[str, Any]], price_book: PriceBook, now: datetime) -> int | None:
    """Micro-USD per hour of what `held_by` found; None where a part of it has no price."""
    rates = []
    for lane in held:
        span = _span_at(price_book.get((lane["card"], lane["capacity_type"]), []), now)
        if span is None:
            return None
        cards = lane["held"] * Fraction(lane["fraction_numerator"], lane["fraction_denominator"])
        rates.append(rate_per_hour(cards, span.micro_usd_per_card_hour))
    return sum(rates)


_LANE = ("card", "capacity_type", "fraction_numerator", "fraction_denominator")
"""What has one price, and one part of a card in a unit."""


def cost_of(workload: Workload, *, now: datetime, price_book: PriceBook | None = None) -> Cost:
    """What the workload has cost so far, to the second, and would cost at its time limit."""
    return costs_of([workload], now=now, price_book=price_book)[workload.pk]


def cost_of_nothing(workload: Workload, *, now: datetime, price_book: PriceBook) -> Cost:
    """The same for a workload that has never had a pod; no query."""
    return _cost(workload, 0, [], price_book, now)


# One statement sees one moment: what is settled meanwhile is neither missed nor counted twice.
_CHARGED = """
SELECT w.id, coalesce(c.posted_micro_usd, 0), u.id, u.pod_uid, u.node_name, u.flavor_name, u.card, u.capacity_type,
    u.units, u.fraction_numerator, u.fraction_denominator, u.started_at, u.ended_at, u.settled_until
FROM workloads_workload AS w
LEFT JOIN costs_workloadcharge AS c ON c.workload_id = w.id
LEFT JOIN costs_usageinterval AS u ON u.workload_id = w.id AND NOT u.settled
WHERE w.id = ANY(%s)
"""
_USAGE = (
    *("pod_uid", "node_name", "flavor_name", "card", "capacity_type", "units"),
    *("fraction_numerator", "fraction_denominator", "started_at", "ended_at", "settled_until"),
)


def costs_of(
    workloads: Sequence[Workload], *, now: datetime, price_book: PriceBook | None = None
) -> dict[int, Cost]:
    """The same of many, by their keys, in two queries however many they are and however long they have lived.

    One query where the caller has `spans_by_card` already.
    """
    prices = spans_by_card() if price_book is None else price_book
    posted = {workload.pk: 0 for workload in workloads}
    unsettled: dict[int, list[CostLine]] = {workload.pk: [] for workload in workloads}
    with connection.cursor() as cursor:
        cursor.execute(_CHARGED, [list(posted)])
        for key, charged, usage_id, *columns in cursor.fetchall():
            posted[key] = charged
            if usage_id is not None:
                usage = UsageInterval(workload_id=key, **dict(zip(_USAGE, columns, strict=True)))
                unsettled[key].append(_line(usage, 0, prices, now))
    return {
        workload.pk: _cost(workload, posted[workload.pk], unsettled[workload.pk], prices, now)
        for workload in workloads
    }


def cost_lines(
    workload: Workload, *, now: datetime, price_book: PriceBook | None = None, limit: int = LINES_MAX
) -> CostLines:
    """What the ledger holds of each pod and what has come up since, of the newest pods."""
    prices = spans_by_card() if price_book is None else price_book
    usages = list(UsageInterval.objects.filter(workload=workload).order_by("-started_at", "-id")[: limit + 1])
    shown = usages[:limit][::-1]
    posted = _posted([usage.pod_uid for usage in shown])
    lines = [_line(usage, posted.get(usage.pod_uid, 0), prices, now) for usage in shown]
    return CostLines(lines, complete=len(usages) <= limit)


def _posted(pod_uids: Sequence[str]) -> dict[str, int]:
    """What the ledger charges teams for each of the pods."""
    # Each half has an index of its own.
    first, taken_back = Q(reverses__isnull=True) & ~Q(pod_uid=""), Q(reverses__isnull=False)
    entries = LedgerEntry.objects.filter(
        first | taken_back, pod_uid__in=pod_uids, account__startswith="team:"
    )
    sums = entries.order_by().values("pod_uid").annotate(total=Sum("amount_micro_usd"))
    return {row["pod_uid"]: row["total"] for row in sums}


def _cost(
    workload: Workload, posted: int, unsettled: Sequence[CostLine], price_book: PriceBook, now: datetime
) -> Cost:
    if workload.is_final and workload.finished_at is not None:
        # What it costs an hour does not follow the prices of a later time.
        now = min(now, workload.finished_at)
    charges = [line.amount_micro_usd for line in unsettled]
    running = sum(line.units for line in unsettled if line.ended_at is None)
    current = rate_now(workload.flavor, workload.capacity_type, running, price_book, now)
    rate = rate_now(workload.flavor, workload.capacity_type, workload.units, price_book, now)
    limit = cost_for(
        workload.flavor,
        workload.capacity_type,
        workload.units,
        workload.time_limit_seconds,
        price_book,
        min(now, workload.started_at or now),
    )
    if rate is None or None in charges:
        return Cost(None, rate, limit, current, reason="no price")
    return Cost(posted + sum(charge for charge in charges if charge is not None), rate, limit, current)


def _line(usage: UsageInterval, posted: int, price_book: PriceBook, now: datetime) -> CostLine:
    spans = price_book.get((usage.card, usage.capacity_type), [])
    end = usage.ended_at or max(now.replace(microsecond=0), usage.settled_until)
    segments = list(priced_segments(usage.settled_until, end, spans))
    complete = has_price_at_end(segments, usage.settled_until, end)
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
