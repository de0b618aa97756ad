"""Why a run or an endpoint failed or does not come up, what happened when, and what changed since one that worked."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views import View

from console.api.comparisons import compared
from console.pages.detail import asks_again, is_quiet
from console.pages.queries import BESIDE, role_on
from console.reason_texts import next_step
from diagnosis.history import history_of
from diagnosis.queries import diagnosis_of, last_that_worked
from foundation import clock
from foundation.errors import Malformed, NotFound
from foundation.http.query import check_query_parameters
from teams.models import Membership
from teams.permissions import of_visible_teams
from workloads.models import Workload

CARD: Final = "why-card"
CARD_SECONDS: Final = 10
ENTRIES_SHOWN: Final = 100


class ExplainedPage(LoginRequiredMixin, View):
    """GET is the page; with `HX-Target: why-card` the card alone, as it stands on the page of a run or an endpoint."""

    def get(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        rows = Workload.objects.filter(of_visible_teams(request.user), public_id=public_id)
        workload = rows.select_related(*BESIDE).first()
        if workload is None:
            raise NotFound("There is no such run or endpoint, or it is not yours.")
        now = clock.now()
        found = diagnosis_of(workload, now=now)
        card = request.headers.get("HX-Target") == CARD
        context = {
            "workload": workload,
            "noun": workload.own_kind.noun,
            "found": found,
            "worked": last_that_worked(workload) if found.causes else None,
            "next_step": next_step(workload.reason),
            "quiet": is_quiet(workload),
            "alone": not card,
            "may_steer": role_on(workload, request.user) not in {None, Membership.Role.VIEWER},
            "asks_again": asks_again(workload, every=CARD_SECONDS),
        }
        if card:
            return render(request, "console/why_card.html", context)
        history = history_of(workload, now=now)
        context |= {"steps": history.steps, "entries": history.entries[:ENTRIES_SHOWN]}
        return render(request, "console/why.html", context)


class ComparePage(LoginRequiredMixin, View):
    """GET `?a=&b=`: what changed between two of one kind. What is not two of them is not found."""

    def get(self, request: HttpRequest) -> HttpResponse:
        try:
            check_query_parameters(request, ("a", "b"))
            found = compared(request)
        except Malformed as error:
            raise NotFound(error.message) from error
        return render(request, "console/compare.html", {"found": found, "noun": found.b.own_kind.noun})
