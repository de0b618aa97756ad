"""Closing a team on a page of its own: what ends and what is kept, and a form that wants to be sure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views import View

from console.closing import close_team, closing_seen, reopen_team
from console.pages.detail import see_other
from foundation import clock
from foundation.errors import Conflict, Invalid
from pages.quotas.cohorts import by_field
from teams.actors import actor_of
from teams.models import Team
from teams.permissions import check_global_role, team_for


class TeamClosePage(LoginRequiredMixin, View):
    """GET shows what closing ends, or still has to end; POST closes. For platform admins."""

    def get(self, request: HttpRequest, slug: str) -> HttpResponse:
        return _page(request, _team(request, slug))

    def post(self, request: HttpRequest, slug: str) -> HttpResponse:
        team, typed = _team(request, slug), _typed(request, "reason", "confirm")

        def close() -> str:
            close_team(
                team=team,
                reason=typed["reason"],
                confirm=typed["confirm"],
                actor=actor_of(request),
                now=clock.now(),
            )
            return f"{team.name} is being closed. What it has ends in order."

        return _done(request, team, typed, close)


class TeamReopenPage(LoginRequiredMixin, View):
    """POST lets a closed team work again. For platform admins."""

    def post(self, request: HttpRequest, slug: str) -> HttpResponse:
        team, typed = _team(request, slug), _typed(request, "reason")

        def reopen() -> str:
            reopen_team(team=team, reason=typed["reason"], actor=actor_of(request), now=clock.now())
            return f"{team.name} is open. A quota manager gives it quota again."

        return _done(request, team, typed, reopen)


def _team(request: HttpRequest, slug: str) -> Team:
    team = team_for(request.user, slug)
    check_global_role(request.user, "platform-admin")
    return team


def _typed(request: HttpRequest, *names: str) -> dict[str, str]:
    return {name: request.POST.get(name, "").strip().replace("\x00", "") for name in names}


def _done(request: HttpRequest, team: Team, typed: Mapping[str, str], act: Callable[[], str]) -> HttpResponse:
    try:
        messages.success(request, act())
    except (Invalid, Conflict) as error:
        return _page(request, team, typed=typed, errors=by_field(error), status=422)
    return see_other(reverse("portal:team-detail", args=[team.slug]))


def _page(request: HttpRequest, team: Team, *, status: int = 200, **extra: Any) -> HttpResponse:
    seen = closing_seen(team=team, now=clock.now())
    others = [(name.replace("_", " ").capitalize(), count) for name, count in sorted(seen.others.items())]
    context = {"team": team, "seen": seen, "others": others, **extra}
    return render(request, "portal/team_close.html", context, status=status)
