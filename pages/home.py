"""The first page: what needs attention, what runs, what is left, what is free."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final, cast

from django.contrib.auth.mixins import LoginRequiredMixin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views import View
from django.views.decorators.http import require_POST

from console.pages.lists import rows_of
from console.pages.queries import flavor_cards, submit_teams, teams_of
from console.reason_texts import next_step
from costs.queries import spans_by_card
from foundation import clock
from inference.specs import KIND as ENDPOINT
from jobs.adapter import KIND as RUN
from pages.context import THEME_COOKIE, THEMES
from pages.duties import has_duties
from quotas.models import Quota
from teams.models import Team, User
from teams.permissions import has_global_role
from workloads.dismissals import dismissed_by
from workloads.models import Workload
from workloads.nodes.capacity import nodes
from workloads.states import Desired, Phase, Reason
from workloads.strays import nodes_and_strays

SHOWN_MAX: Final = 8
FAILED_WITHIN: Final = timedelta(hours=24)
WAITS_LONG: Final = timedelta(minutes=10)
STUCK_PHASES: Final = (Phase.QUEUED.value, Phase.ADMITTED.value)
YEAR_SECONDS: Final = 365 * 86400


class HomePage(LoginRequiredMixin, View):
    """GET is the page; with `HX-Target: home` the part that refreshes."""

    def get(self, request: HttpRequest) -> HttpResponse:
        context = _facts(request, clock.now())
        fragment = "#home" if request.headers.get("HX-Target") == "home" else ""
        return render(request, f"portal/home.html{fragment}", context)


def _facts(request: HttpRequest, now: datetime) -> dict[str, Any]:
    teams = teams_of(request)
    workloads = list(_of_interest(request, teams, now))
    live = [workload for workload in workloads if not workload.is_final]
    mine = [workload for workload in live if workload.kind == RUN and workload.owner_id == request.user.pk]
    runs = sorted(mine, key=_newest, reverse=True)[:SHOWN_MAX]
    served = [workload for workload in live if workload.kind == ENDPOINT]
    endpoints = sorted(served, key=_newest, reverse=True)[:SHOWN_MAX]
    troubled = [workload for workload in workloads if _needs_attention(workload, now)]
    attention = sorted(troubled, key=lambda workload: (workload.since, workload.pk), reverse=True)[:SHOWN_MAX]
    price_book = spans_by_card()
    rows = {row.workload.pk: row for row in rows_of([*runs, *endpoints], now=now, price_book=price_book)}
    observed, lost = nodes_and_strays() if has_global_role(request.user) else (nodes(), None)
    return {
        "attention": [(workload, next_step(workload.reason)) for workload in attention],
        "runs": [rows[run.pk] for run in runs],
        "endpoints": [rows[endpoint.pk] for endpoint in endpoints],
        "quotas": list(Quota.objects.filter(team__in=teams).select_related("team", "flavor")[:SHOWN_MAX]),
        "cards": flavor_cards(team=None, now=now, price_book=price_book, observed=observed),
        "may_submit": bool(submit_teams(request)),
        "is_new": not workloads and not Workload.objects.filter(team__in=teams).exists(),
        "teams": teams,
        "strays": lost,
        "has_duties": has_duties(request),
    }


def _of_interest(request: HttpRequest, teams: list[Team], now: datetime) -> QuerySet[Workload]:
    """At least all that is shown: the newest that are live and the latest that need attention, each by an index of
    their own, in one query.
    """
    user = cast("User", request.user)
    ours = Workload.objects.filter(team__in=teams)
    live = ours.exclude(phase__in=Workload.FINAL_PHASES)
    wanted = [
        live.filter(kind=RUN, owner=request.user.pk).order_by("-created_at", "-id"),
        live.filter(kind=ENDPOINT).order_by("-created_at", "-id"),
        ours.filter(_failed(now)).exclude(dismissed_by(user)).order_by("-since", "-id"),
        live.filter(_stuck(now)).order_by("-since", "-id"),
        live.filter(reason=Reason.DEGRADED.value).order_by("-since", "-id"),
    ]
    first, *others = (query.values("pk")[:SHOWN_MAX] for query in wanted)
    rows = Workload.objects.filter(pk__in=first.union(*others, all=True))
    return rows.select_related("team", "owner", "flavor")


def _newest(workload: Workload) -> tuple[datetime, int]:
    return workload.created_at, workload.pk


def _failed(now: datetime) -> Q:
    return Q(phase=Phase.FAILED.value, finished_at__gte=now - FAILED_WITHIN)


def _stuck(now: datetime) -> Q:
    waits = Q(phase__in=STUCK_PHASES, since__lte=now - WAITS_LONG)
    return waits & Q(desired=Desired.RUN.value)


def _needs_attention(workload: Workload, now: datetime) -> bool:
    """Failed within a day, waiting for more than ten minutes, or up but not well; as the queries have it."""
    if workload.phase == Phase.FAILED and workload.finished_at is not None:
        return workload.finished_at >= now - FAILED_WITHIN
    if workload.phase in STUCK_PHASES and workload.desired == Desired.RUN:
        return workload.since <= now - WAITS_LONG or workload.reason == Reason.DEGRADED
    return workload.reason == Reason.DEGRADED and not workload.is_final


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
