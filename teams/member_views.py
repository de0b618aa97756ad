"""The members of a team on its page: forms that are sent, and a way back that says what came of it."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views import View

from foundation import clock
from foundation.errors import Conflict, Invalid, NotFound
from teams import queries, services
from teams.actors import actor_of
from teams.models import Team
from teams.permissions import check_can_manage, team_for, visible_teams


class MemberAddPage(LoginRequiredMixin, View):
    """POST makes the user with that name a member."""

    def post(self, request: HttpRequest, slug: str) -> HttpResponse:
        team = team_for(request.user, slug)
        check_can_manage(request.user, team)
        username = request.POST.get("username", "").strip().replace("\x00", "")

        def add() -> str:
            user = queries.user_named(username)
            role = request.POST.get("role", "")
            services.add_member(actor=actor_of(request), team=team, user=user, role=role, now=clock.now())
            return f"{user.username} is a {role} of {team.name} now."

        return _back(request, team, add)


class MemberRolePage(LoginRequiredMixin, View):
    """POST gives a member another role."""

    def post(self, request: HttpRequest, slug: str, username: str) -> HttpResponse:
        team = team_for(request.user, slug)
        check_can_manage(request.user, team)

        def change() -> str:
            member, role = queries.member_named(team, username), request.POST.get("role", "")
            services.change_role(actor=actor_of(request), membership=member, role=role, now=clock.now())
            return f"{username} is a {role} of {team.name} now."

        return _back(request, team, change)


class MemberRemovePage(LoginRequiredMixin, View):
    """POST ends a membership: a lead any member's, other users their own."""

    def post(self, request: HttpRequest, slug: str, username: str) -> HttpResponse:
        team = team_for(request.user, slug)
        leaves = username == request.user.get_username()
        if not leaves:
            check_can_manage(request.user, team)

        def remove() -> str:
            member = queries.member_named(team, username)
            services.remove_member(actor=actor_of(request), membership=member, now=clock.now())
            return f"{'You are' if leaves else f'{username} is'} in {team.name} no more."

        return _back(request, team, remove)


def _back(request: HttpRequest, team: Team, act: Callable[[], str]) -> HttpResponse:
    """Do it, and show the outcome on the team's page; a user who has left is led to their remaining teams."""
    try:
        messages.success(request, act())
    except (Invalid, Conflict, NotFound) as error:
        messages.error(request, error.message)
    stays = visible_teams(request.user).filter(pk=team.pk).exists()
    page = (
        reverse("portal:team-detail", args=[team.slug]) + "#members" if stays else reverse("portal:team-list")
    )
    response = redirect(page)
    response.status_code = 303
    return response
