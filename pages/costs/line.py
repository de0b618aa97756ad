"""What this month cost, in one line: for pages that are about something else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views import View

from costs.reports.queries import spent
from costs.reports.windows import CostWindow
from foundation import clock
from foundation.http.query import check_query_parameters, one
from pages.costs.budgets import BudgetSeen, budgets_now, of_teams
from pages.costs.pages import whose_costs
from teams.models import Team

TEAMS_TOLD: Final = 4
"""Of more teams the line tells the sum alone."""


@dataclass(frozen=True, slots=True)
class TeamMonth:
    """What one team spent this month, in micro-USD, and how its monthly budget stands, where it has one."""

    team: Team
    spent: int
    budget: BudgetSeen | None


class MonthLine(LoginRequiredMixin, View):
    """GET is a fragment: the sum of this month of one team, or of each of a few, or of all that the person may see."""

    def get(self, request: HttpRequest) -> HttpResponse:
        check_query_parameters(request, ("team",))
        now, whose = clock.now(), whose_costs(request, one(request, "team") or "")
        report = spent(teams=whose.keys, window=CostWindow.month_of(now), group_by="team", now=now)
        told = [whose.team] if whose.team else whose.teams if len(whose.teams) <= TEAMS_TOLD else []
        known = {group.key: group.amount_micro_usd for group in report.groups}
        budgets = budgets_now([team.pk for team in told], now=now) if told else []
        standing = of_teams(budgets, known, now=now)
        monthly = standing.monthly if standing else {}
        context = {
            "lines": [TeamMonth(team, known.get(team.slug, 0), monthly.get(team.slug)) for team in told],
            "total": report.total_micro_usd,
            "asked": whose.team,
        }
        return render(request, "portal/costs_line.html", context)
