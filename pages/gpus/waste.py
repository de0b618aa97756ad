"""Idle GPUs and open alerts as plain tables."""

from __future__ import annotations

from typing import Final

from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views import View

from console.pages.queries import teams_of
from foundation import clock
from foundation.http.query import check_query_parameters, one
from teams.permissions import has_global_role
from telemetry.queries import idle_list, rules_shown_to, visible_alerts, visible_holds
from telemetry.rules import IDLE, title_of_rule

ALERTS_SHOWN: Final = 100


class IdlePage(LoginRequiredMixin, View):
    """GET: who of the user's teams holds GPUs and does nothing with them, and the alerts that are open."""

    def get(self, request: HttpRequest) -> HttpResponse:
        check_query_parameters(request, ("team",))
        team = one(request, "team") or ""
        rules = {rule.name: rule for rule in rules_shown_to(request.user)}
        alerts = visible_alerts(request.user).filter(closed_at=None)
        holds = visible_holds(request.user)
        if team:
            alerts, holds = alerts.filter(team__slug=team), holds.filter(team__slug=team)
        context = {
            "found": idle_list(holds, now=clock.now()),
            "rule": rules.get(IDLE),
            "rules": rules.values(),
            "alerts": [(title_of_rule(alert.rule), alert) for alert in alerts[:ALERTS_SHOWN]],
            "may_change": has_global_role(request.user, "quota-manager"),
            "teams": teams_of(request),
            "team": team,
        }
        return render(request, "portal/idle.html", context)
