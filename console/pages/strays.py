"""Objects of no workload: what a restore from a backup older than the cluster has left, for those who run the platform."""

from __future__ import annotations

from typing import Final

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views import View

from cluster.client import get_client
from console.pages.detail import see_other
from console.strays import delete_strays
from foundation import clock
from foundation.errors import Conflict, NotAllowed, NotFound
from teams.actors import actor_of
from teams.permissions import check_global_role, has_global_role
from workloads.strays import stray_objects, strays

REASON_LENGTH_MAX: Final = 1000


class StraysPage(LoginRequiredMixin, View):
    """GET shows them; POST deletes the chosen ones."""

    def get(self, request: HttpRequest) -> HttpResponse:
        if not has_global_role(request.user):
            raise PermissionDenied
        context = {
            "totals": strays(),
            "objects": stray_objects(),
            "may_delete": has_global_role(request.user, "platform-admin"),
        }
        return render(request, "console/strays.html", context)

    def post(self, request: HttpRequest) -> HttpResponse:
        try:
            check_global_role(request.user, "platform-admin")
        except NotAllowed as error:
            raise PermissionDenied from error
        uids = [uid for uid in request.POST.getlist("uid") if "\x00" not in uid]
        reason = request.POST.get("reason", "").strip()[:REASON_LENGTH_MAX].replace("\x00", "")
        try:
            outcome = delete_strays(
                get_client(), uids=uids, reason=reason, actor=actor_of(request), now=clock.now()
            )
        except (Conflict, NotFound) as error:
            messages.error(request, error.message)
        else:
            if outcome.deleted:
                messages.success(
                    request, f"{outcome.deleted} deleted; they go as soon as their pods have ended."
                )
            if outcome.kept:
                messages.error(request, f"{outcome.kept} stay: the cluster did not let them go.")
        return see_other(reverse("console:strays"))
