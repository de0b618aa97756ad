"""Sums of the ledger, by team, flavor, workload or day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC

from django.db.models import QuerySet, Sum
from django.db.models.functions import TruncDate

from costs.models import LedgerEntry

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
