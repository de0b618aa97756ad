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

from costs.reports.comparisons import (
    DayUse,
    LaneUse,
    spent_on_failed,
    spot_savings,
    unused_by_day,
    use_of_capacity,
)
from costs.reports.windows import DAY, midnight
from foundation import clock
from foundation.http.query import check_query_parameters, one
from foundation.money import MICRO
from pages.charts import Chart, ChartSeries, draw
from pages.costs.spans import CostSpan, read_span
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
        days = _each_day(span)
        context = {
            "span": span,
            "now": now,
            "lanes": lanes,
            "parts": parts_of(lanes),
            "chart": chart_of(span, days),
            "days": days,
            "whole": sum(lane.total for lane in lanes),
            "savings": spot_savings(teams=None, window=span.window),
            "failed": spent_on_failed(teams=None, window=span.window),
            "back": f"{reverse('portal:costs')}?{urlencode(request.GET)}",
        }
        return render(request, "portal/costs_capacity.html", context)


def _each_day(span: CostSpan) -> list[DayUse]:
    """Each day that has begun, also where it has nothing."""
    known = {each.day: each for each in unused_by_day(span.window)}
    nothing = {"idle": 0, "stranded": 0, "lost": 0}
    return [known.get(day) or DayUse(day=day, **nothing) for day in span.until_today]


def chart_of(span: CostSpan, days: list[DayUse]) -> Chart:
    """Its values are dollars as floating-point numbers: they say where a line goes, and are no amounts."""
    lines = (
        ("idle", "series-a", [each.idle for each in days]),
        ("stranded", "series-c", [each.stranded for each in days]),
        ("lost", "series-d", [each.lost for each in days]),
    )
    return draw(
        "Idle, stranded and lost by day",
        begin=midnight(span.first),
        step=DAY,
        slots=span.days,
        series=[
            ChartSeries(name=name, look=look, values=[amount / MICRO for amount in amounts], stepped=True)
            for name, look, amounts in lines
        ],
        unit=" USD",
        least_top=0.01,
    )


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
