"""The ledger's lines of teams as rows of FOCUS 1.2, the FinOps Open Cost and Usage Specification.

A line that the window cuts is told with the part that lies within it, and one that lies in two months in two rows: rows of
windows that follow each other add up to the ledger, to the micro-USD.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db.models import Q, QuerySet
from django.db.models.expressions import RawSQL

from costs.models import LedgerEntry
from costs.reports.groups import CostFilters
from costs.reports.sql import OVER_A_DAY
from costs.reports.windows import CostWindow, midnight, next_month
from workloads.models import CapacityType

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


class FocusLine(NamedTuple):
    """What a row is made of: rows of the tables would be made by the million, to be looked at once."""

    started_at: datetime
    ended_at: datetime
    amount: int
    transaction_id: UUID
    account: str
    pod_uid: str
    node_name: str
    flavor_name: str
    units: int
    project: str
    phase: str
    reverses: int | None
    reason: str
    posted_at: datetime
    slug: str | None
    team: str | None
    user: str | None
    run: str | None
    kind: str | None
    run_id: UUID | None
    price_id: UUID | None
    price: int
    """Micro-USD for a card-hour; never read of a line without one."""
    card: str | None
    capacity: str | None


_FIELDS: Final = (
    "started_at",
    "ended_at",
    "amount_micro_usd",
    "transaction_id",
    "account",
    "pod_uid",
    "node_name",
    "flavor_name",
    "units",
    "project",
    "phase",
    "reverses_id",
    "reason",
    "posted_at",
    "team__slug",
    "team__name",
    "user__username",
    "workload__name",
    "workload__kind",
    "workload__public_id",
    "price__public_id",
    "price__micro_usd_per_card_hour",
    "price__priced__card",
    "price__priced__capacity_type",
)
"""Where each part of a line stands, in their order."""


def focus_rows(
    *, teams: Collection[int] | None, window: CostWindow, filters: CostFilters
) -> Iterator[list[Any]]:
    """Rows of `COLUMNS`, in the order of time; read as they are asked for."""
    if window.is_empty:
        return
    for rows in _lines(teams, window, filters):
        for values in rows.values_list(*_FIELDS).iterator(chunk_size=CHUNK):
            line = FocusLine._make(values)
            for start, end in _within(line, window):
                yield _row(line, start, end)


def _part_of(line: FocusLine, start: datetime, end: datetime) -> int:
    """Micro-USD of the line between two moments, as the database's `costs_until` says it."""
    return _until(line, end) - _until(line, start)


def _until(line: FocusLine, moment: datetime) -> int:
    amount: int = line.amount
    if moment <= line.started_at:
        return 0
    if moment >= line.ended_at:
        return amount
    length = (line.ended_at - line.started_at) // _MICROSECOND
    part = abs(amount) * ((moment - line.started_at) // _MICROSECOND) // length
    return part if amount >= 0 else -part


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
    rows = rows.order_by("started_at", "id")
    if window.start is None:
        return [rows]
    day = midnight(window.start.astimezone(UTC).date())
    long = RawSQL(  # noqa: S611 - the statement is a constant
        f"SELECT id FROM costs_ledgerentry WHERE {OVER_A_DAY} AND started_at < %s AND ended_at > %s",  # noqa: S608
        (day, window.start),
    )
    within = Q(ended_at__gt=window.start) | Q(started_at__gte=window.start)
    return [rows.filter(pk__in=long), rows.filter(within, started_at__gte=day)]


def _within(line: FocusLine, window: CostWindow) -> Iterator[tuple[datetime, datetime]]:
    """The line's time in the window, cut where a month ends."""
    start = line.started_at if window.start is None else max(line.started_at, window.start)
    end = line.ended_at if window.end is None else min(line.ended_at, window.end)
    if line.started_at == line.ended_at:
        yield start, end
    while start < end:
        month = midnight(next_month(start.astimezone(UTC).date()))
        yield start, min(end, month)
        start = month


def _row(line: FocusLine, start: datetime, end: datetime) -> list[Any]:
    amount = line.amount if start == end else _part_of(line, start, end)
    cost = amount * MICRO
    first = start.astimezone(UTC).date().replace(day=1)
    month_end = midnight(next_month(first))
    # Of an earlier month that had been over when this was posted.
    corrects = line.reverses is not None and line.posted_at >= month_end
    priced = line.price is not None
    unit_price = line.price * MICRO if priced else ""
    usage = bool(line.pod_uid) and priced
    model = "Standard" if line.capacity == CapacityType.ON_DEMAND.value else "Dynamic"
    return [
        cost, ACCOUNT, WHO, "USD", _moment(month_end), _moment(midnight(first)),
        "Usage" if usage else "Adjustment", "Correction" if corrects else "", _description(line),
        "Usage-Based" if usage else "One-Time", _moment(end), _moment(start),
        _unit_seconds(line, start, end) if usage else "", "Unit-Seconds" if usage else "",
        cost, unit_price, cost, WHO, cost, unit_price, model if usage else "",
        _card_hours(amount, line.price) if usage else "", "Card-Hours" if usage else "",
        WHO, WHO, line.pod_uid, line.run or "", line.kind or "", "Compute", "GPU capacity",
        f"{line.card}:{line.capacity}" if priced else "", line.price_id or "", line.slug or "", line.team or "",
        _tags(line), line.transaction_id, line.account, line.run_id or "", line.pod_uid, line.node_name,
        line.flavor_name, line.units, line.reason, _moment(line.posted_at), amount,
    ]  # fmt: skip


def _unit_seconds(line: FocusLine, start: datetime, end: datetime) -> Decimal | int:
    """What was used; of a line that takes another back, negative."""
    seconds, rest = divmod(line.units * ((end - start) // _MICROSECOND), 1_000_000)
    used = seconds + rest * MICRO if rest else seconds
    return -used if line.amount < 0 else used


def _card_hours(amount: int, micro_usd_per_card_hour: int) -> Decimal:
    """What costs the amount at the price: their product is the cost, to the micro-USD."""
    if micro_usd_per_card_hour == 0:
        return Decimal(0)
    return (Decimal(amount) / micro_usd_per_card_hour).quantize(QUANTITY, ROUND_HALF_EVEN)


def _description(line: FocusLine) -> str:
    if line.reason:
        return str(line.reason)
    return f"{line.units} {line.flavor_name}" if line.flavor_name else str(line.account)


def _tags(line: FocusLine) -> str:
    tags = {"project": line.project, "user": line.user, "phase": line.phase, "flavor": line.flavor_name}
    return json.dumps({name: value for name, value in tags.items() if value})


@lru_cache(maxsize=256)
def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
