"""Which period of a budget a moment belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import Q, QuerySet

from costs.models import Budget
from costs.reports.windows import midnight, next_month


@dataclass(frozen=True)
class Span:
    """`[starts_at, ends_at)`."""

    starts_at: datetime
    ends_at: datetime


def month_of(now: datetime) -> Span:
    """The calendar month (UTC)."""
    first = now.astimezone(UTC).date().replace(day=1)
    return Span(midnight(first), midnight(next_month(first)))


def span_of(budget: Budget, now: datetime) -> Span | None:
    """The budget's present period; None where its fixed one is over or to come."""
    if budget.starts_at is None or budget.ends_at is None:
        return month_of(now)
    span = Span(budget.starts_at, budget.ends_at)
    return span if span.starts_at <= now < span.ends_at else None


def held() -> QuerySet[Budget]:
    """Budgets with their teams, of which the rows that are read are locked until the transaction ends, but for keys."""
    return Budget.objects.select_for_update(no_key=True, of=("self",)).select_related("team")


def holding_now(now: datetime) -> Q:
    """The condition of budgets that hold at this moment."""
    begun = Q(starts_at__isnull=True) | Q(starts_at__lte=now)
    return begun & (Q(ends_at__isnull=True) | Q(ends_at__gt=now))
