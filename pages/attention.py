"""Taking a failure away from what needs one's attention, and back."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views import View

from console.pages.detail import see_other
from foundation import clock
from foundation.errors import Conflict, Invalid, NotFound
from teams.models import User
from teams.permissions import of_visible_teams
from workloads.dismissals import dismiss_failure, restore_failure
from workloads.models import Workload

ACTIONS: Final = ("dismiss", "restore")


class AttentionPage(LoginRequiredMixin, View):
    """POST `action`: dismiss, or restore. With htmx the answer is what then stands in the place of its line."""

    def post(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        rows = Workload.objects.filter(of_visible_teams(request.user)).select_related("team", "owner")
        workload = rows.filter(public_id=public_id).first()
        if workload is None or not isinstance(request.user, User):
            raise NotFound("There is no such run or endpoint, or it is not yours.")
        action = request.POST.get("action", "")
        if action not in ACTIONS:
            raise Invalid.of_field("action", "Dismiss it or restore it.", code="invalid")
        if action == "restore":
            restore_failure(workload=workload, user=request.user)
            return see_other(reverse("portal:home"))
        try:
            dismiss_failure(workload=workload, user=request.user, now=clock.now())
        except Conflict as error:
            messages.error(request, error.message)
            return see_other(reverse("portal:home"))
        if "HX-Request" in request.headers:
            return render(request, "portal/dismissed.html", {"workload": workload})
        messages.success(request, f"{workload.name} is dismissed. It comes back if it fails again.")
        return see_other(reverse("portal:home"))
