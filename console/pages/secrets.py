"""The team's secrets on its page: two forms that are sent, and a way back. What was typed as a value never returns."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.debug import sensitive_post_parameters

from cluster.client import get_client
from console.pages.detail import see_other
from foundation import clock
from foundation.errors import Conflict, Invalid, NotFound, Unavailable
from teams.actors import actor_of
from teams.models import Team
from teams.permissions import check_can_submit, team_for
from tenancy.team_secrets import delete_secret, register_secret, write_secret
from workloads.podspec import grammar


@method_decorator(sensitive_post_parameters(), name="dispatch")
class SecretWritePage(LoginRequiredMixin, View):
    """POST writes values through to the cluster; with `keys` alone it registers a Secret that exists there."""

    def post(self, request: HttpRequest, slug: str) -> HttpResponse:
        team = team_for(request.user, slug)
        check_can_submit(request.user, team)
        name = request.POST.get("name", "").strip().replace("\x00", "")
        if keys := request.POST.get("keys", "").replace(",", " ").split():
            return _back(request, team, lambda: _register(request, team, name, keys))
        return _back(request, team, lambda: _write(request, team, name))


class SecretDeletePage(LoginRequiredMixin, View):
    """POST deletes one."""

    def post(self, request: HttpRequest, slug: str, name: str) -> HttpResponse:
        team = team_for(request.user, slug)
        check_can_submit(request.user, team)

        def delete() -> str:
            delete_secret(get_client(), team=team, name=name, actor=actor_of(request), now=clock.now())
            return f"{name} is deleted."

        return _back(request, team, delete)


def _write(request: HttpRequest, team: Team, name: str) -> str:
    rows = zip(request.POST.getlist("key"), request.POST.getlist("value"), strict=False)
    values = {key.strip(): value for key, value in rows if key.strip()}
    fault = grammar.secret_values(values)
    if fault is not None:
        raise Invalid.of_field("values", fault.message, code=fault.code)
    write_secret(get_client(), team=team, name=name, values=values, actor=actor_of(request), now=clock.now())
    return f"{name} is written to the cluster. Its values are not kept here."


def _register(request: HttpRequest, team: Team, name: str, keys: list[str]) -> str:
    fault = next((fault for fault in map(grammar.secret_key, keys) if fault is not None), None)
    if fault is not None:
        raise Invalid.of_field("keys", fault.message, code=fault.code)
    register_secret(
        get_client(), team=team, name=name, keys=set(keys), actor=actor_of(request), now=clock.now()
    )
    return f"{name} may be named now."


def _back(request: HttpRequest, team: Team, act: Callable[[], str]) -> HttpResponse:
    """Do it, and say on the team's page what came of it."""
    try:
        messages.success(request, act())
    except (Invalid, Conflict, NotFound, Unavailable) as error:
        messages.error(request, error.message)
    return see_other(reverse("portal:team-detail", args=[team.slug]) + "#secrets")
