"""What all the cards were worth in some days: charged, idle, stranded, lost, saved by spot. For those who set quotas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views import View

from costs.reports.comparisons import LaneUse, spent_on_failed, spot_savings, use_of_capacity
from foundation import clock
from foundation.http.query import check_query_parameters, one
from pages.costs.spans import read_span
from teams.permissions import check_global_role

ASKED: Final = ("month", "from", "to")


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPart:
    """A part of what the cards were worth: micro-USD, and percent of the whole."""

    name: str
    amount: int
    percent: float
    help: str


class CapacityCostsPage(LoginRequiredMixin, View):
    """GET: what became of the money that the cards were worth, as far as it is in the ledger. Raises NotAllowed unless the
    user is a quota manager or a platform admin.
    """

    def get(self, request: HttpRequest) -> HttpResponse:
        check_global_role(request.user, "quota-manager")
        check_query_parameters(request, ASKED)
        now = clock.now()
        span = read_span({name: one(request, name) or "" for name in ASKED}, now=now)
        lanes = use_of_capacity(span.window)
        context = {
            "span": span,
            "now": now,
            "lanes": lanes,
            "parts": parts_of(lanes),
            "whole": sum(lane.total for lane in lanes),
            "savings": spot_savings(teams=None, window=span.window),
            "failed": spent_on_failed(teams=None, window=span.window),
            "back": f"{reverse('portal:costs')}?{urlencode(request.GET)}",
        }
        return render(request, "portal/costs_capacity.html", context)


def parts_of(lanes: list[LaneUse]) -> list[CapacityPart]:
    """What the lanes were worth together, by what became of it."""
    whole = sum(lane.total for lane in lanes)
    found = (
        ("Charged to teams", sum(lane.charged for lane in lanes), "What runs and endpoints held."),
        ("Idle", sum(lane.idle for lane in lanes), "Could be asked for, and nobody held it."),
        ("Stranded", sum(lane.stranded for lane in lanes), "Slices left over that no profile can use."),
        (
            "Lost to preemption",
            sum(lane.lost for lane in lanes),
            "Work since the last checkpoint, done again.",
        ),
    )
    return [
        CapacityPart(name=name, amount=amount, percent=amount * 100 / whole if whole else 0.0, help=words)
        for name, amount, words in found
    ]
