"""The team's volumes on a page of their own, as it asks the cluster: which are there, and a form that makes one."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views import View

from cluster.client import get_client
from console.api.volumes import ACCESS_MODES, VolumeWriteSerializer
from console.pages.detail import see_other
from foundation import clock
from foundation.errors import Conflict, Invalid, PortalError, Unavailable
from teams.actors import actor_of
from teams.models import Membership, Team
from teams.permissions import check_can_submit, role_in, team_for
from tenancy.volumes import create_volume, list_volumes

FIELDS = ("name", "size", "access_mode", "storage_class")


class VolumesPage(LoginRequiredMixin, View):
    """GET lists them; POST makes one. 503 with the page while the cluster does not answer."""

    def get(self, request: HttpRequest, slug: str) -> HttpResponse:
        return _page(request, team_for(request.user, slug), typed={}, errors={}, status=200)

    def post(self, request: HttpRequest, slug: str) -> HttpResponse:
        team = team_for(request.user, slug)
        check_can_submit(request.user, team)
        typed = {name: request.POST.get(name, "").strip().replace("\x00", "") for name in FIELDS}
        body = VolumeWriteSerializer(data={name: text for name, text in typed.items() if text})
        if not body.is_valid():
            errors = {name: " ".join(map(str, messages)) for name, messages in body.errors.items()}
            return _page(request, team, typed=typed, errors=errors, status=422)
        values = {"storage_class": None, **body.validated_data}
        try:
            create_volume(get_client(), team=team, **values, actor=actor_of(request), now=clock.now())
        except (Invalid, Conflict) as error:
            return _page(request, team, typed=typed, errors=_by_field(error), status=422)
        except Unavailable as error:
            return _page(request, team, typed=typed, errors={"": error.message}, status=503)
        messages.success(request, f"{values['name']} is made. A run mounts it by its name.")
        return see_other(reverse("console:volumes", args=[team.slug]))


def _page(
    request: HttpRequest, team: Team, *, typed: dict[str, str], errors: dict[str, str], status: int
) -> HttpResponse:
    context: dict[str, Any] = {
        "team": team,
        "typed": typed,
        "errors": errors,
        "modes": ACCESS_MODES,
        "may_make": role_in(request.user, team) in {Membership.Role.MEMBER, Membership.Role.LEAD},
    }
    try:
        context["volumes"] = list_volumes(get_client(), team)
    except Unavailable as error:
        context["away"], status = error.message, 503 if status == 200 else status
    return render(request, "console/volumes.html", context, status=status)


def _by_field(error: PortalError) -> dict[str, str]:
    """What is wrong, by the field it is about; that a name is taken is about the name, the rest about the whole."""
    if error.code == "name_taken":
        return {"name": error.message}
    return {problem.field: problem.message for problem in error.errors} or {"": error.message}
