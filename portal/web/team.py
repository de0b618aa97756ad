"""The team's page: what it may use, who uses it, who is in it, what changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from django.contrib.auth.mixins import LoginRequiredMixin
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views import View

from controller.page_lists import Row, rows_of
from controller.page_queries import Offer, flavor_cards, submit_teams, teams_of
from foundation import clock
from foundation.errors import NotFound
from quotas.models import QuotaChange
from teams.models import Team
from teams.permissions import has_global_role
from teams.queries import members_of
from workloads.models import ResourceFlavor, Workload
from workloads.states import HOLDS_CLAIM, Phase

HOLDERS_MAX: Final = 50
CHANGES_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaLine:
    """One quota with what waits for it; `over` is what is used above it after a cut."""

    flavor: ResourceFlavor
    offer: Offer
    waiting: int
    free: int

    @property
    def nominal(self) -> int:
        return self.offer.nominal or 0

    @property
    def over(self) -> int:
        return max(0, self.offer.used - self.nominal)

    @property
    def available(self) -> int:
        return self.nominal - self.offer.used


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
        team = next((each for each in teams_of(request) if each.slug == slug), None)
        if team is None:
            raise NotFound("There is no such team, or you are not a member of it.")
        fragment = "#usage" if request.headers.get("HX-Target") == "usage" else ""
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
        return {
            "team": team,
            "quotas": _quotas(team),
            "holders": rows,
            "rate": _rate(rows),
            "members": members,
            "my_role": mine,
            "changes": list(QuotaChange.objects.filter(team_slug=team.slug)[:CHANGES_MAX]),
            "may_submit": team in submit_teams(request),
            "may_set_quota": has_global_role(request.user, "quota-manager"),
        }


def _quotas(team: Team) -> list[QuotaLine]:
    queued = Workload.objects.filter(team=team, phase=Phase.QUEUED.value).values("flavor_id", "capacity_type")
    waiting = {
        (row["flavor_id"], row["capacity_type"]): row["total"] for row in queued.annotate(total=Sum("units"))
    }
    return [
        QuotaLine(
            flavor=card.flavor,
            offer=offer,
            waiting=waiting.get((card.flavor.pk, offer.capacity_type), 0),
            free=card.free,
        )
        for card in flavor_cards(team=team, now=clock.now())
        for offer in card.offers
        if offer.nominal is not None
    ]


def _rate(rows: list[Row]) -> int | None:
    """Micro-USD per hour of all together; None where one has no price."""
    rates = [row.cost.rate_per_hour for row in rows]
    return None if None in rates else sum(rate or 0 for rate in rates)
