"""The team's page: what it may use, who uses it, who is in it, what changed."""

from __future__ import annotations

from typing import Any, Final

from django.contrib.auth.mixins import LoginRequiredMixin
from django.db.models import Count, Window
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views import View

from console.pages.lists import plain_rows
from console.pages.queries import teams_of, watches_of
from costs.queries import held_by, rate_of, spans_by_card
from foundation import clock
from foundation.models import PlatformSettings
from pages.quotas.changes import Changed, differences_of
from pages.teams.pools import TeamSeen, pool_lines, team_seen
from quotas.models import QuotaChange
from teams.models import Membership
from teams.permissions import has_global_role
from teams.pod_security import level_of, level_of_platform
from teams.queries import members_of, secrets_of
from workloads.models import Workload
from workloads.states import HOLDS_CLAIM
from workloads.watches import Watches

HOLDERS_MAX: Final = 50
MEMBERS_MAX: Final = 200
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
        seen = team_seen(request, slug)
        if request.headers.get("HX-Target") == "usage":
            return render(request, "portal/team_detail.html#usage", _usage(seen))
        return render(
            request, "portal/team_detail.html", _usage(seen) | _beside(request, seen, watches_of(request))
        )


def _usage(seen: TeamSeen) -> dict[str, Any]:
    """What the team may use, and who uses it."""
    now, price_book = clock.now(), spans_by_card()
    holding = Workload.objects.filter(team=seen.team, phase__in=HOLDS_CLAIM).select_related("owner", "flavor")
    # Counts all of them, though the largest alone are shown.
    holding = holding.annotate(together=Window(Count("pk")), held=held_by(seen.team))
    holders = list(holding.order_by("-units", "-id")[:HOLDERS_MAX])
    return {
        "team": seen.team,
        "policy": seen.policy,
        "lines": pool_lines(seen.team, price_book=price_book, now=now),
        "holders": plain_rows(holders, now=now, price_book=price_book),
        "holders_left": holders[0].together - len(holders) if holders else 0,
        "rate": rate_of(holders[0].held, price_book, now) if holders else 0,
        "may_set_quota": seen.may_set_quota,
    }


def _beside(request: HttpRequest, seen: TeamSeen, known: Watches) -> dict[str, Any]:
    """Who is in the team, what it has, and what became of its quota."""
    changes = QuotaChange.objects.filter(team_slug=seen.team.slug).select_related("change_set")[:CHANGES_MAX]
    of_team = members_of(seen.team).annotate(together=Window(Count("pk"))).order_by("user__username")
    members = list(of_team[:MEMBERS_MAX])
    with PlatformSettings.held(known.settings):
        level = level_of(seen.team, platform=level_of_platform(known.kinds))
    return {
        "members": members,
        "members_left": members[0].together - len(members) if members else 0,
        "my_role": seen.mine,
        "may_manage": seen.may_manage,
        "roles": Membership.Role.choices,
        "changes": [Changed(change, differences_of(change)) for change in changes],
        "secrets": list(secrets_of(seen.team)),
        "pod_security": level.value,
        "may_submit": seen.may_submit,
        "may_close": has_global_role(request.user, "platform-admin"),
    }
