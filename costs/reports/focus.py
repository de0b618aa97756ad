"""The ledger's lines of teams as rows of FOCUS 1.2, the FinOps Open Cost and Usage Specification.

A line that the window cuts is told with the part that lies within it, and one that lies in two months in two rows: rows of
windows that follow each other add up to the ledger, to the micro-USD.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from itertools import chain
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL

from costs.models import LedgerEntry
from costs.reports.groups import CostFilters
from costs.reports.sql import OVER_A_DAY
from costs.reports.windows import CostWindow, midnight, next_month

CHUNK = 500
WHO = "ML Platform Portal"
ACCOUNT = "ml-platform-portal"
MICRO = Decimal(1).scaleb(-6)
QUANTITY = Decimal(1).scaleb(-15)
_MICROSECOND = timedelta(microseconds=1)

COLUMNS = (
    "BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd",
    "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency",
    "ChargePeriodEnd", "ChargePeriodStart", "ConsumedQuantity", "ConsumedUnit", "ContractedCost",
    "ContractedUnitPrice", "EffectiveCost", "InvoiceIssuerName", "ListCost", "ListUnitPrice", "PricingCategory",
    "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName", "ResourceId", "ResourceName",
    "ResourceType", "ServiceCategory", "ServiceName", "SkuId", "SkuPriceId", "SubAccountId", "SubAccountName",
    "Tags", "x_TransactionId", "x_Account", "x_WorkloadId", "x_PodUid", "x_NodeName", "x_FlavorName",
    "x_Units", "x_Reason", "x_PostedAt", "x_MicroUsd",
)  # fmt: skip


def focus_rows(
    *, teams: Collection[int] | None, window: CostWindow, filters: CostFilters
) -> Iterator[list[Any]]:
    """Rows of `COLUMNS`, in the order of time; read as they are asked for."""
    if window.is_empty:
        return
    for entry in chain.from_iterable(
        each.iterator(chunk_size=CHUNK) for each in _lines(teams, window, filters)
    ):
        for start, end in _within(entry, window):
            yield _row(entry, start, end)


def part_of(entry: LedgerEntry, start: datetime, end: datetime) -> int:
    """Micro-USD of the line between two moments, as the database's `costs_until` says it."""
    return _until(entry, end) - _until(entry, start)


def _until(entry: LedgerEntry, moment: datetime) -> int:
    if moment <= entry.started_at:
        return 0
    if moment >= entry.ended_at:
        return entry.amount_micro_usd
    length = (entry.ended_at - entry.started_at) // _MICROSECOND
    part = abs(entry.amount_micro_usd) * ((moment - entry.started_at) // _MICROSECOND) // length
    return part if entry.amount_micro_usd >= 0 else -part


def _lines(
    teams: Collection[int] | None, window: CostWindow, filters: CostFilters
) -> list[QuerySet[LedgerEntry]]:
    """First the few that began on a day before and last into the window, then those of its own days."""
    chosen = {
        "team__in": teams,
        "user__in": filters.users,
        "project__in": filters.projects,
        "flavor_name__in": filters.flavors,
        "price__priced__capacity_type__in": filters.capacities,
    }
    where = Q(**{name: list(values) for name, values in chosen.items() if values is not None})
    rows = LedgerEntry.objects.filter(where, account__startswith="team:")
    if window.end is not None:
        rows = rows.filter(started_at__lt=window.end)
    rows = rows.select_related("team", "workload", "price__priced", "user").order_by("started_at", "id")
    if window.start is None:
        return [rows]
    day = midnight(window.start.astimezone(UTC).date())
    long = RawSQL(  # noqa: S611 - the statement is a constant
        f"SELECT id FROM costs_ledgerentry WHERE {OVER_A_DAY} AND started_at < %s AND ended_at > %s",  # noqa: S608
        (day, window.start),
    )
    within = Q(ended_at__gt=window.start) | Q(started_at__gte=window.start)
    return [rows.filter(pk__in=long), rows.filter(within, started_at__gte=day)]


def _within(entry: LedgerEntry, window: CostWindow) -> Iterator[tuple[datetime, datetime]]:
    """The line's time in the window, cut where a month ends."""
    start = entry.started_at if window.start is None else max(entry.started_at, window.start)
    end = entry.ended_at if window.end is None else min(entry.ended_at, window.end)
    if entry.started_at == entry.ended_at:
        yield start, end
    while start < end:
        month = midnight(next_month(start.astimezone(UTC).date()))
        yield start, min(end, month)
        start = month


def _row(entry: LedgerEntry, start: datetime, end: datetime) -> list[Any]:
    amount = entry.amount_micro_usd if start == end else part_of(entry, start, end)
    cost = amount * MICRO
    first = start.astimezone(UTC).date().replace(day=1)
    month_end = midnight(next_month(first))
    # Of an earlier month that had been over when this was posted.
    corrects = entry.reverses_id is not None and entry.posted_at >= month_end
    price, team, run = entry.price, entry.team, entry.workload
    lane = price.priced if price else None
    unit_price = price.micro_usd_per_card_hour * MICRO if price else None
    sign = -1 if entry.amount_micro_usd < 0 else 1
    seconds = Decimal(sign * entry.units * ((end - start) // _MICROSECOND)) * MICRO
    usage = bool(entry.pod_uid) and price is not None
    spot = lane is not None and lane.capacity_type != "on-demand"
    return [
        cost, ACCOUNT, WHO, "USD", _moment(month_end), _moment(midnight(first)),
        "Usage" if usage else "Adjustment", "Correction" if corrects else "", _description(entry),
        "Usage-Based" if usage else "One-Time", _moment(end), _moment(start),
        seconds.normalize() + 0 if usage else "", "Unit-Seconds" if usage else "",
        cost, unit_price if unit_price is not None else "", cost, WHO, cost,
        unit_price if unit_price is not None else "", ("Dynamic" if spot else "Standard") if usage else "",
        _quantity(amount, price.micro_usd_per_card_hour) if price and usage else "", "Card-Hours" if usage else "",
        WHO, WHO, entry.pod_uid, run.name if run else "", run.kind if run else "", "Compute", "GPU capacity",
        f"{lane.card}:{lane.capacity_type}" if lane else "", price.public_id if price else "",
        team.slug if team else "", team.name if team else "", _tags(entry), entry.transaction_id,
        entry.account, run.public_id if run else "", entry.pod_uid, entry.node_name, entry.flavor_name,
        entry.units, entry.reason, _moment(entry.posted_at), amount,
    ]  # fmt: skip


def _quantity(amount: int, micro_usd_per_card_hour: int) -> Decimal:
    """Card-hours that cost the amount at the price: their product is the cost, to the micro-USD."""
    if micro_usd_per_card_hour == 0:
        return Decimal(0)
    return (Decimal(amount) / micro_usd_per_card_hour).quantize(QUANTITY, ROUND_HALF_EVEN)


def _description(entry: LedgerEntry) -> str:
    if entry.reason:
        return entry.reason
    return f"{entry.units} {entry.flavor_name}" if entry.flavor_name else entry.account


def _tags(entry: LedgerEntry) -> str:
    tags = {
        "project": entry.project,
        "user": entry.user.username if entry.user else "",
        "phase": entry.phase,
        "flavor": entry.flavor_name,
    }
    return json.dumps({name: value for name, value in tags.items() if value})


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
