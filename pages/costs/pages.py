"""The page of costs: what the teams of the person spent in a month or in some days, on what, with what runs now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views import View

from budgets.standings import WEEK, Forecast
from console.pages.queries import teams_of
from costs.reports.queries import spent_with_days
from costs.reports.windows import DAY, CostWindow, midnight
from foundation import clock
from foundation.errors import NotFound
from foundation.http.query import check_query_parameters, one, refuse
from foundation.money import MICRO
from pages.charts import Chart, ChartSeries, draw
from pages.costs.budgets import BudgetSeen, budgets_now, of_teams, seen
from pages.costs.rows import BY, ROWS_MAX, TEAM, query_ordering, read_ordering, table_of
from pages.costs.spans import CostSpan, read_span
from teams.models import Team
from teams.permissions import has_global_role, visible_teams

ASKED: Final = ("month", "from", "to", "team", "by", "ordering")
FEW: Final = MICRO
"""Below a dollar amounts are shown to a hundredth of a cent."""


@dataclass(frozen=True, slots=True)
class Whose:
    """Of whom the page tells: one team that was asked for, or all that the person may see."""

    teams: list[Team]
    team: Team | None
    sees_all: bool

    @property
    def keys(self) -> list[int] | None:
        """As reports take them: None is all there are."""
        if self.team is not None:
            return [self.team.pk]
        return None if self.sees_all else [team.pk for team in self.teams]

    @property
    def alone(self) -> Team | None:
        """The one team that the page is about; None where it is about several, or none."""
        if self.team is not None or len(self.teams) != 1:
            return self.team
        return self.teams[0]


class CostsPage(LoginRequiredMixin, View):
    """GET is the page; with `HX-Target: costs-table` the table alone."""

    def get(self, request: HttpRequest) -> HttpResponse:
        check_query_parameters(request, ASKED)
        asked = {name: one(request, name) or "" for name in ASKED}
        now, whose = clock.now(), whose_costs(request, asked["team"])
        span, by = read_span(asked, now=now), _by(asked["by"], whose)
        ordering = read_ordering(asked["ordering"], by)
        # Of several teams the budgets are a column of the table by team.
        shows_budgets = span.is_this_month if by == TEAM else span.is_now and whose.alone is not None
        budgets = budgets_now(whose.keys, now=now) if shows_budgets else []
        standing = seen(budgets[0], spent=0, now=now) if budgets and whose.alone is not None else None
        report, by_day = spent_with_days(
            teams=whose.keys,
            window=span.window,
            days=_days(span, standing),
            group_by=by,
            now=now,
            limit=ROWS_MAX if by == "workload" else None,
            ordering=query_ordering(ordering),
        )
        spent = {group.key: group.amount_micro_usd for group in report.groups} if by == TEAM else {}
        context = {
            "table": table_of(report, by=by, ordering=ordering, budgets=of_teams(budgets, spent, now=now) if by == TEAM else None),
            "tabs": [(word, title, word == by) for word, title in _tabs(whose).items()],
            "places": 4 if 0 < report.total_micro_usd < FEW else 2,
            "report": report,
            "span": span,
            "whose": whose,
            "now": now,
        }  # fmt: skip
        if request.headers.get("HX-Target") == "costs-table":
            return render(request, "portal/costs.html#table", context)
        days = {date.fromisoformat(group.key): group.amount_micro_usd for group in by_day.groups}
        return render(request, "portal/costs.html", context | _beside(span, whose, days, standing, now))


def whose_costs(request: HttpRequest, slug: str) -> Whose:
    """Raises NotFound for a team that there is not, or that the person may not know of."""
    teams, team = teams_of(request), None
    if slug:
        team = next((each for each in teams if each.slug == slug), None)
        team = team or visible_teams(request.user).filter(slug=slug).first()
        if team is None:
            raise NotFound("There is no such team, or you are not a member of it.")
    return Whose(teams, team, has_global_role(request.user))


def _tabs(whose: Whose) -> dict[str, str]:
    return dict(BY) if whose.alone is not None else {"workload": BY["workload"], TEAM: "Team", **BY}


def _by(asked: str, whose: Whose) -> str:
    allowed = _tabs(whose)
    if asked and asked not in allowed:
        # A link to the teams of somebody who sees one is no mistake.
        if asked == TEAM:
            return "workload"
        raise refuse("by", f"must be one of {', '.join(allowed)}.")
    return asked or "workload"


def _days(span: CostSpan, standing: BudgetSeen | None) -> CostWindow:
    """The days of the page; where there is a budget, those of its period and of the last week too."""
    first, last = span.first, span.last
    if standing is not None:
        first = min(first, span.today - WEEK + DAY, standing.span.starts_at.date())
        last = max(last, span.today)
    return CostWindow(midnight(first), midnight(last + DAY))


def _beside(
    span: CostSpan, whose: Whose, days: dict[date, int], standing: BudgetSeen | None, now: datetime
) -> dict[str, Any]:
    """What the whole page has besides its table."""
    export = {"team": whose.team.slug} if whose.team else {}
    shown = [(day, days.get(day, 0)) for day in span.until_today]
    budget, forecast = _budget(days, standing, now) if standing is not None else (None, None)
    return {
        "chart": _chart(span, shown),
        "day_rows": shown,
        "budget": budget,
        "forecast": forecast,
        "export": f"{reverse('costs-api:cost-export')}?{span.export}{'&' + urlencode(export) if export else ''}",
        "may_manage": has_manager(whose),
    }


def has_manager(whose: Whose) -> bool:
    """Whether the person sets budgets, and sees what nobody used."""
    return whose.sees_all


def _budget(
    days: dict[date, int], standing: BudgetSeen, now: datetime
) -> tuple[BudgetSeen | None, Forecast | None]:
    """The budget with what is spent of it, and when it runs out at the pace of the last seven days."""
    begin, end = standing.span.starts_at, standing.span.ends_at
    spent = sum(amount for day, amount in days.items() if begin <= midnight(day) < end)
    budget = seen(standing.budget, spent=spent, now=now)
    week = midnight(now.date() - WEEK + DAY)
    lately = sum(amount for day, amount in days.items() if week <= midnight(day) <= now)
    within = max(timedelta(seconds=1), now - week)
    return budget, budget.forecast(lately, within, now=now) if budget else None


def _chart(span: CostSpan, shown: list[tuple[date, int]]) -> Chart:
    """Its values are dollars as floating-point numbers: they say where a line goes, and are no amounts."""
    values = [amount / MICRO for _, amount in shown]
    return draw(
        "Cost by day",
        begin=midnight(span.first),
        step=DAY,
        slots=span.days,
        series=[ChartSeries(name="cost", look="series-a", values=values, stepped=True, filled=True)],
        unit=" USD",
        least_top=0.01,
    )
