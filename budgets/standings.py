"""How a budget stands: what is spent, promised and left, and when it runs out. Nothing here writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import QuerySet

from budgets.periods import Span, holding_now, span_of
from budgets.reservations import ceiling_of, outstanding_of
from budgets.spending import costs_so_far, spent_in_period
from costs.models import Budget, BudgetOverride, BudgetReservation
from costs.queries import PriceBook, held_by, rate_of, spans_by_card
from costs.reports.windows import DAY, midnight
from teams.models import Team, User
from teams.permissions import visible_teams

WEEK = timedelta(days=7)
FOREVER = timedelta(days=3650)
NOTHING_SPENT = "Nothing was spent in the last 7 days."
NOTHING_RUNS = "Nothing that costs money runs."
NO_PRICE = "A part of what runs has no price."
LASTS = "It lasts to the end of its period."
NOT_NOW = "Its period is over, or is yet to begin."


@dataclass(frozen=True)
class Forecast:
    """The day on which the money is spent; None, and then why."""

    runs_out_at: datetime | None
    unknown_because: str | None = None


@dataclass(frozen=True)
class BudgetStanding:
    """A budget in its present period, in micro-USD."""

    budget: Budget
    span: Span | None
    amount: int
    """With what is given on top of it now."""
    on_top: int
    spent: int
    reserved: int
    """Promised to what runs, and not used."""
    by_rate: Forecast
    """As what runs now goes on."""
    by_week: Forecast
    """As the team has spent in the last 7 days."""
    overrides: Sequence[BudgetOverride]

    @property
    def left(self) -> int:
        """What new work may be promised; negative where more is spent than there is."""
        return self.amount - self.spent - self.reserved

    @property
    def percent(self) -> int:
        """How much of it is spent, rounded down."""
        return self.spent * 100 // self.amount

    @property
    def warned(self) -> tuple[int, ...]:
        """The thresholds that are passed."""
        return tuple(each for each in sorted(self.budget.warn_percents) if self.percent >= each)


def seen_by(user: User) -> QuerySet[Budget]:
    """The budgets of the teams that the user may see; a manager's are all."""
    return Budget.objects.select_related("team").filter(team__in=visible_teams(user))


def budget_of(team: Team, *, now: datetime) -> Budget | None:
    """The team's budget that holds now."""
    return Budget.objects.select_related("team").filter(holding_now(now), team=team).first()


def standing(budget: Budget, *, now: datetime, price_book: PriceBook | None = None) -> BudgetStanding:
    """How the budget stands now."""
    book = spans_by_card() if price_book is None else price_book
    span = span_of(budget, now)
    amount = ceiling_of(budget, now)
    spent = reserved = 0
    by_rate = by_week = Forecast(None, NOT_NOW)
    if span is not None:
        spent = spent_in_period(budget.team, span, now=now, price_book=book)
        reserved = _reserved(budget, span, book, now)
        by_rate = _by_rate(budget.team, amount - spent, span, book, now)
        by_week = _by_week(budget.team, amount - spent, span, book, now)
    return BudgetStanding(
        budget=budget,
        span=span,
        amount=amount,
        on_top=amount - budget.amount_micro_usd,
        spent=spent,
        reserved=reserved,
        by_rate=by_rate,
        by_week=by_week,
        overrides=tuple(budget.overrides.filter(expires_at__gt=now)),
    )


def _reserved(budget: Budget, span: Span, book: PriceBook, now: datetime) -> int:
    """What of the open promises is not used."""
    promised = BudgetReservation.objects.filter(
        period__budget=budget, period__starts_at=span.starts_at, closed_at__isnull=True
    ).select_related("workload__flavor")
    rows = list(promised)
    so_far = costs_so_far([row.workload for row in rows], now=now, price_book=book)
    return sum(outstanding_of(row, so_far[row.workload_id]) for row in rows)


def _by_rate(team: Team, left: int, span: Span, book: PriceBook, now: datetime) -> Forecast:
    held = Team.objects.annotate(lanes=held_by(team)).values_list("lanes", flat=True).get(pk=team.pk)
    rate = rate_of(held, book, now)
    if rate is None:
        return Forecast(None, NO_PRICE)
    return runs_out(left, rate, timedelta(hours=1), NOTHING_RUNS, span, now)


def _by_week(team: Team, left: int, span: Span, book: PriceBook, now: datetime) -> Forecast:
    # The kept sums are of whole days: today and the six before.
    tomorrow = midnight(now.astimezone(UTC).date() + DAY)
    spent = spent_in_period(team, Span(tomorrow - WEEK, tomorrow), now=now, price_book=book)
    return runs_out(left, spent, WEEK, NOTHING_SPENT, span, now)


def runs_out(left: int, spent: int, within: timedelta, nothing: str, span: Span, now: datetime) -> Forecast:
    """When so much is spent that is left, if `spent` is spent in each such time."""
    if left <= 0:
        return Forecast(now)
    if spent <= 0:
        return Forecast(None, nothing)
    lasts = min(FOREVER, timedelta(seconds=left * int(within.total_seconds()) // spent))
    return Forecast(now + lasts) if now + lasts < span.ends_at else Forecast(None, LASTS)
