"""The team's page: what it may use, who uses it, who is in it, what changed."""

from __future__ import annotations

from typing import Any, Final

from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views import View

from controller.page_lists import Row, rows_of
from controller.page_queries import submit_teams, teams_of
from foundation import clock
from foundation.models import PlatformSettings
from portal.web.quota_changes import Changed, differences_of
from portal.web.team_quota import pools_context, team_of
from quotas.models import QuotaChange
from teams.models import Membership, Team
from teams.permissions import role_in
from teams.queries import members_of, secrets_of
from workloads.models import Workload
from workloads.states import HOLDS_CLAIM

HOLDERS_MAX: Final = 50
CHANGES_MAX: Final = 20


class TeamListPage(LoginRequiredMixin, View):
    """The teams that the person may see; with one alone, that one."""

    def get(self, request: HttpRequest) -> HttpResponse:
        teams = teams_of(request)
        if len(teams) == 1:
            return redirect("portal:team-detail", slug=teams[0].slug)
        return render(request, "portal/team_list.html", {"teams": teams})


class TeamDetailPage(LoginRequiredMixin, View):
    """GET is the page; with `HX-Target: usage` the part that refreshes."""

    def get(self, request: HttpRequest, slug: str) -> HttpResponse:
        team = team_of(request, slug)
        fragment = "#usage" if request.headers.get("HX-Target") == "usage" else ""
        with PlatformSettings.held():
            return render(request, f"portal/team_detail.html{fragment}", self._facts(request, team))

    def _facts(self, request: HttpRequest, team: Team) -> dict[str, Any]:
        now = clock.now()
        holding = Workload.objects.filter(team=team, phase__in=HOLDS_CLAIM)
        rows = rows_of(
            list(holding.select_related("team", "owner", "flavor").order_by("-units", "-id")[:HOLDERS_MAX]),
            now=now,
        )
        members = list(members_of(team).order_by("user__username")[:200])
        mine = next((each.role for each in members if each.user_id == request.user.pk), "")
        changes = QuotaChange.objects.filter(team_slug=team.slug).select_related("change_set")[:CHANGES_MAX]
        return {
            **pools_context(request, team, now=now),
            "holders": rows,
            "rate": _rate(rows),
            "members": members,
            "my_role": mine,
            "may_manage": role_in(request.user, team) == Membership.Role.LEAD,
            "roles": Membership.Role.choices,
            "changes": [Changed(change, differences_of(change)) for change in changes],
            "secrets": list(secrets_of(team)),
            "may_submit": team in submit_teams(request),
        }


def _rate(rows: list[Row]) -> int | None:
    """Micro-USD per hour that run up now, of all together; None where one has no price."""
    rates = [row.cost.current_rate_per_hour for row in rows]
    return None if None in rates else sum(rate or 0 for rate in rates)
