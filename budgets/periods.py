"""Which period of a budget a moment belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Q

from costs.models import Budget


@dataclass(frozen=True)
class Span:
    """`[starts_at, ends_at)`."""

    starts_at: datetime
    ends_at: datetime


def month_of(now: datetime) -> Span:
    """The calendar month (UTC)."""
    first = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return Span(first, (first + timedelta(days=32)).replace(day=1))


def span_of(budget: Budget, now: datetime) -> Span | None:
    """The budget's present period; None where its fixed one is over or to come."""
    if budget.starts_at is None or budget.ends_at is None:
        return month_of(now)
    span = Span(budget.starts_at, budget.ends_at)
    return span if span.starts_at <= now < span.ends_at else None


def holding_now(now: datetime) -> Q:
    """The condition of budgets that hold at this moment."""
    begun = Q(starts_at__isnull=True) | Q(starts_at__lte=now)
    return begun & (Q(ends_at__isnull=True) | Q(ends_at__gt=now))
