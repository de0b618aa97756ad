"""What pages of costs say about budgets: of many teams in one query, with what the page has summed anyway."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import OuterRef, Q, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Coalesce
from django.urls import reverse

from budgets.periods import Span, holding_now, span_of
from budgets.standings import NOTHING_SPENT, Forecast, runs_out
from costs.models import Budget, BudgetOverride, BudgetPeriod


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSeen:
    """A budget in its present period, in micro-USD."""

    budget: Budget
    span: Span
    amount: int
    """With what is given on top of it now."""
    spent: int
    committed: int

    @property
    def reserved(self) -> int:
        """Promised to what runs, and not used yet."""
        return max(0, self.committed - self.spent)

    @property
    def left(self) -> int:
        """What is not spent; negative where more is spent than there is."""
        return self.amount - self.spent

    @property
    def percent(self) -> int:
        """How much of it is spent, rounded down."""
        return self.spent * 100 // self.amount

    @property
    def is_warned(self) -> bool:
        """Whether a threshold is passed of which people are told."""
        return any(self.percent >= each for each in self.budget.warn_percents)

    @property
    def is_monthly(self) -> bool:
        return self.budget.period == Budget.Period.MONTH

    @property
    def admin_url(self) -> str:
        """Where it is changed."""
        return reverse("admin:costs_budget_change", args=[self.budget.pk])

    def forecast(self, spent_lately: int, within: timedelta, *, now: datetime) -> Forecast:
        """When it is spent at the pace of `spent_lately` in each `within`."""
        return runs_out(self.left, spent_lately, within, NOTHING_SPENT, self.span, now)


def budgets_now(teams: Collection[int] | None, *, now: datetime) -> list[Budget]:
    """The budgets of these teams (None: all) that hold now, with `on_top` and `committed`; one query."""
    given = BudgetOverride.objects.filter(budget=OuterRef("pk"), expires_at__gt=now)
    given_sum = given.order_by().values("budget").annotate(sum=Sum("amount_micro_usd")).values("sum")
    periods = BudgetPeriod.objects.filter(budget=OuterRef("pk"), starts_at__lte=now, ends_at__gt=now)
    rows: QuerySet[Budget] = Budget.objects.filter(holding_now(now), _of(teams)).select_related("team")
    return list(
        rows.annotate(
            on_top=Coalesce(Subquery(given_sum), Value(0)),
            committed=Coalesce(Subquery(periods.values("committed_micro_usd")[:1]), Value(0)),
        )
    )


def _of(teams: Collection[int] | None) -> Q:
    return Q() if teams is None else Q(team__in=list(teams))


def seen(budget: Budget, *, spent: int, now: datetime) -> BudgetSeen | None:
    """How one of `budgets_now` stands; `spent` is what its team has spent in its period."""
    span = span_of(budget, now)
    if span is None:
        return None
    return BudgetSeen(
        budget=budget,
        span=span,
        amount=budget.amount_micro_usd + budget.on_top,  # type: ignore[attr-defined] # annotated
        spent=spent,
        committed=budget.committed,  # type: ignore[attr-defined] # annotated
    )


@dataclass(frozen=True, slots=True)
class TeamBudgets:
    """Of many teams, by their slugs: those of this month, and who has one of a fixed period."""

    monthly: Mapping[str, BudgetSeen]
    others: frozenset[str]


def of_teams(budgets: Collection[Budget], spent: Mapping[str, int], *, now: datetime) -> TeamBudgets | None:
    """How `budgets_now` stand, where `spent` is what each team has spent this month; None of no budgets."""
    known = {
        budget.team.slug: seen(budget, spent=spent.get(budget.team.slug, 0), now=now)
        for budget in budgets
        if budget.period == Budget.Period.MONTH
    }
    shown = {slug: each for slug, each in known.items() if each is not None}
    others = frozenset(budget.team.slug for budget in budgets) - shown.keys()
    return TeamBudgets(shown, others) if budgets else None
