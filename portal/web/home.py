"""The first page: what needs attention, what runs, what is left, what is free."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from django.contrib.auth.mixins import LoginRequiredMixin
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views import View
from django.views.decorators.http import require_POST

from controller.page_lists import rows_of
from controller.page_queries import flavor_cards, submit_teams, teams_of
from controller.page_words import NEXT_STEP
from foundation import clock
from inference.adapter import KIND as ENDPOINT
from jobs.adapter import KIND as RUN
from portal.web.context import THEME_COOKIE, THEMES
from quotas.models import Quota
from workloads.models import Workload
from workloads.states import Desired, Phase, Reason

SHOWN_MAX: Final = 8
FAILED_WITHIN: Final = timedelta(hours=24)
WAITS_LONG: Final = timedelta(minutes=10)
YEAR_SECONDS: Final = 365 * 86400


class HomePage(LoginRequiredMixin, View):
    """GET is the page; with `HX-Target: home` the part that refreshes."""

    def get(self, request: HttpRequest) -> HttpResponse:
        context = _facts(request, clock.now())
        fragment = "#home" if request.headers.get("HX-Target") == "home" else ""
        return render(request, f"portal/home.html{fragment}", context)


def _facts(request: HttpRequest, now: datetime) -> dict[str, Any]:
    teams = teams_of(request)
    ours = Workload.objects.filter(team__in=teams).select_related("team", "owner", "flavor")
    live = ours.exclude(phase__in=Workload.FINAL_PHASES)
    mine = list(live.filter(kind=RUN, owner=request.user.pk).order_by("-created_at", "-id")[:SHOWN_MAX])
    endpoints = list(live.filter(kind=ENDPOINT).order_by("-created_at", "-id")[:SHOWN_MAX])
    attention = list(ours.filter(_attention(now)).order_by("-since", "-id")[:SHOWN_MAX])
    rows = {row.workload.pk: row for row in rows_of([*mine, *endpoints], now=now)}
    return {
        "attention": [(each, NEXT_STEP.get(each.reason, "")) for each in attention],
        "runs": [rows[each.pk] for each in mine],
        "endpoints": [rows[each.pk] for each in endpoints],
        "quotas": list(Quota.objects.filter(team__in=teams).select_related("team", "flavor")[:SHOWN_MAX]),
        "cards": flavor_cards(team=None, now=now),
        "may_submit": bool(submit_teams(request)),
        "is_new": not mine and not endpoints and not ours.exists(),
        "teams": teams,
    }


def _attention(now: datetime) -> Q:
    """Failed within a day, waiting for more than ten minutes, or up but not well."""
    failed = Q(phase=Phase.FAILED.value, finished_at__gte=now - FAILED_WITHIN)
    stuck = Q(phase__in=[Phase.QUEUED.value, Phase.ADMITTED.value], since__lte=now - WAITS_LONG)
    unwell = Q(reason=Reason.DEGRADED.value) & ~Q(phase__in=Workload.FINAL_PHASES)
    return failed | (stuck & Q(desired=Desired.RUN.value)) | unwell


@require_POST
def choose_theme(request: HttpRequest) -> HttpResponse:
    """Keep the theme in a cookie, which the server reads: no script, so no flash."""
    theme = request.POST.get("theme", "auto")
    target = request.POST.get("next", "/")
    safe = url_has_allowed_host_and_scheme(
        target, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    response = redirect(target if safe and "\x00" not in target else "/")
    response.set_cookie(
        THEME_COOKIE,
        theme if theme in THEMES else "auto",
        max_age=YEAR_SECONDS,
        secure=request.is_secure(),
        httponly=True,
        samesite="Lax",
    )
    return response
