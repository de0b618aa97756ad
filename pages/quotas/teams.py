"""Teams as the console sees them: cohort, weight, who may use priority high, and their queues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from console.pages.detail import see_other
from console.pages.lists import PageOfRows
from foundation import clock
from foundation.errors import Conflict, Invalid, NotFound
from pages.quotas.cohorts import by_field
from pages.quotas.grid import cohort_names
from pages.quotas.pages import ManagersOnly
from quotas.ceilings import CEILING_MAX, CEILINGS, COLUMNS, ceilings_seen
from quotas.limits import set_policy
from quotas.models import TeamPolicy
from teams.actors import actor_of
from teams.models import Team
from teams.services import update_team

WEIGHT_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class CeilingField:
    """A field for a ceiling: `usual` is the platform's, None for none, and `held` what the team holds."""

    name: str
    label: str
    value: str
    usual: str
    held: str
    error: str


class TeamPolicyListPage(ManagersOnly):
    tab = "teams"
    ordering = "slug"

    def get(self, request: HttpRequest) -> HttpResponse:
        pager = PageOfRows()
        teams = pager.paginate_queryset(
            Team.objects.select_related("policy__queue_stopped_by"), request, self
        )
        context = {
            "rows": [(team, getattr(team, "policy", None) or TeamPolicy(team=team)) for team in teams],
            "older": pager.next_link(),
            "newer": pager.previous_link(),
        }
        return self.page(request, "portal/quota_teams.html", context)


class TeamPolicyPage(ManagersOnly):
    """GET is one team's rules; POST sets them and its cohort, all or nothing."""

    tab = "teams"

    def get(self, request: HttpRequest, slug: str) -> HttpResponse:
        return self._page(request, _find(slug))

    def post(self, request: HttpRequest, slug: str) -> HttpResponse:
        team = _find(slug)
        typed = {
            "weight": request.POST.get("weight", "").strip()[:20],
            "high_priority": request.POST.get("high_priority", ""),
            "cohort_name": request.POST.get("cohort_name", "").replace("\x00", ""),
            "shows_name": "shows_name" in request.POST,
            "may_reserve_headroom": "may_reserve_headroom" in request.POST,
            **{name: request.POST.get(name, "").strip()[:20] for name in COLUMNS},
        }
        try:
            self._save(request, team, typed)
        except (Invalid, Conflict) as error:
            return self._page(request, team, typed=typed, errors=by_field(error), status=422)
        messages.success(request, f"The rules of {team.name} are set.")
        return see_other(reverse("portal:quota-team", args=[team.slug]))

    def _save(self, request: HttpRequest, team: Team, typed: dict[str, Any]) -> None:
        weight = typed["weight"]
        if not (weight.isascii() and weight.isdigit() and 1 <= int(weight[:9]) <= WEIGHT_MAX):
            raise Invalid.of_field(
                "weight", f"Write a whole number from 1 to {WEIGHT_MAX}.", code="out_of_range"
            )
        if typed["high_priority"] not in TeamPolicy.PriorityRight.values:
            raise Invalid.of_field("high_priority", "Choose one of them.", code="invalid")
        actor, now = actor_of(request), clock.now()
        rules = {
            "weight": int(weight[:9]),
            "high_priority": typed["high_priority"],
            "shows_name": typed["shows_name"],
            "may_reserve_headroom": typed["may_reserve_headroom"],
            **{name: _ceiling(name, typed[name]) for name in COLUMNS},
        }
        with transaction.atomic():
            set_policy(team=team, changes=rules, actor=actor, now=now)
            update_team(actor=actor, team=team, changes={"cohort_name": typed["cohort_name"]}, now=now)

    def _page(self, request: HttpRequest, team: Team, *, status: int = 200, **extra: Any) -> HttpResponse:
        policy = getattr(team, "policy", None) or TeamPolicy(team=team)
        typed = {
            "weight": policy.weight,
            "high_priority": policy.high_priority,
            "shows_name": policy.shows_name,
            "may_reserve_headroom": policy.may_reserve_headroom,
            "cohort_name": team.cohort_name,
            **{name: getattr(policy, name) for name in COLUMNS},
        }
        typed |= extra.pop("typed", {})
        errors = extra.get("errors", {})
        defaults, lines = ceilings_seen(policy)
        context = {
            "team": team,
            "policy": policy,
            "typed": typed,
            "cohorts": cohort_names(),
            "rights": TeamPolicy.PriorityRight.choices,
            "ceilings": [
                CeilingField(
                    ceiling.column,
                    ceiling.label,
                    "" if typed[ceiling.column] is None else str(typed[ceiling.column]),
                    "none" if (usual := getattr(defaults, ceiling.column)) is None else str(usual),
                    line.held,
                    errors.get(ceiling.column, ""),
                )
                for ceiling, line in zip(CEILINGS, lines, strict=True)
            ],
            **extra,
        }
        return self.page(request, "portal/quota_team.html", context, status=status)


def _ceiling(name: str, typed: str) -> int | None:
    if not typed:
        return None
    if not (typed.isascii() and typed.isdigit() and int(typed) <= CEILING_MAX):
        message = f"Write a whole number from 0 to {CEILING_MAX}, or nothing for the platform's ceiling."
        raise Invalid.of_field(name, message, code="out_of_range")
    return int(typed)


def _find(slug: str) -> Team:
    team = Team.objects.select_related("policy__queue_stopped_by").filter(slug=slug).first()
    if team is None:
        raise NotFound("There is no such team.")
    return team
