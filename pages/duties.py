"""What waits for a person's decision or care: a lead's teams, a quota manager's requests and pools, an admin's platform."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.contrib.auth.mixins import LoginRequiredMixin
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views import View

from cluster.names import DEFAULT_CLUSTER
from console.api.capacity import FlavorCapacity, capacity
from console.findings import last_look
from console.pages.queries import teams_of
from costs.models import Budget
from foundation import clock
from foundation.http.query import check_query_parameters
from pages.costs.budgets import BudgetSeen, budgets_now, seen
from quotas.models import Quota, QuotaRequest
from teams.models import Membership, Team
from teams.permissions import has_global_role
from telemetry.queries import visible_alerts
from telemetry.rules import title_of_rule
from workloads.models import Workload
from workloads.states import Phase

SHOWN_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class PromisedPool:
    """A pool of which more is promised to teams than exists or may still come."""

    row: FlavorCapacity
    promised: int
    exist: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits of the teams that somebody leads: the longest of it, and how much there is."""

    first: Sequence[Workload]
    count: int


class DutiesPage(LoginRequiredMixin, View):
    """GET is a page of its own, and with `HX-Target: duties` the part of it that the first page shows."""

    def get(self, request: HttpRequest) -> HttpResponse:
        check_query_parameters(request, ())
        fragment = "#duties" if request.headers.get("HX-Target") == "duties" else ""
        return render(request, f"portal/duties.html{fragment}", duties_of(request, now=clock.now()))


def has_duties(request: HttpRequest) -> bool:
    """Whether the person leads a team, sets quotas or runs the platform. Asks nothing that the page does not anyway."""
    return has_global_role(request.user) or bool(_led(request))


def _led(request: HttpRequest) -> list[Team]:
    lead = Membership.Role.LEAD.value
    # To an admin every team answers as its lead's would; what they lead is of their memberships alone.
    return [team for team in teams_of(request) if getattr(team, "my_role", None) == lead]


def duties_of(request: HttpRequest, *, now: datetime) -> dict[str, Any]:
    """What the page shows; a part that is not of the person's role is None."""
    led = _led(request)
    manages = has_global_role(request.user, "quota-manager")
    runs_it = has_global_role(request.user)
    findings = last_look(DEFAULT_CLUSTER) if runs_it else None
    requests = _requests(None if manages else led) if manages or led else None
    return {
        "led": led,
        "waiting": _waiting(led) if led else None,
        "budgets": _budgets(led, now) if led else [],
        "requests": requests,
        "manages": manages,
        "over_promised": _over_promised() if manages else None,
        "findings": findings,
        "old": findings is not None and findings.is_old(now),
        "runs_it": runs_it,
        "alerts": _alerts(request) if runs_it else None,
        "shown_max": SHOWN_MAX,
        "shown_slice": f":{SHOWN_MAX}",
        "now": now,
    }


def _waiting(led: Sequence[Team]) -> Waiting:
    rows = Workload.objects.filter(team__in=led, phase=Phase.QUEUED.value)
    first = rows.select_related("team", "owner", "flavor").order_by("queued_at", "id")
    return Waiting(list(first[:SHOWN_MAX]), rows.count())


def _budgets(led: Sequence[Team], now: datetime) -> list[BudgetSeen]:
    """Of each team its budget, with what is spent or promised of it."""
    budgets: list[Budget] = budgets_now([team.pk for team in led], now=now)
    found = (seen(budget, spent=0, now=now) for budget in budgets)
    return [each for each in found if each is not None]


def _requests(teams: Sequence[Team] | None) -> list[QuotaRequest]:
    """Requests that nobody has decided on, the oldest first: one more than is shown where there are more."""
    rows = QuotaRequest.objects.filter(state=QuotaRequest.State.PENDING)
    if teams is not None:
        rows = rows.filter(team__in=teams)
    rows = rows.select_related("team", "flavor", "requested_by")
    return list(rows.order_by("requested_at", "id")[: SHOWN_MAX + 1])


def _over_promised() -> list[PromisedPool]:
    """Where the teams' quotas add up to more than there is."""
    sums = Quota.objects.order_by().values_list("flavor__name", "capacity_type").annotate(sum=Sum("nominal"))
    promised = {(flavor, kind): total for flavor, kind, total in sums}
    found = [
        PromisedPool(row, promised.get((row.flavor, row.capacity), 0), row.units + row.provisionable)
        for row in capacity()
    ]
    return [pool for pool in found if pool.promised > pool.exist]


def _alerts(request: HttpRequest) -> list[tuple[str, Any]]:
    """Open alerts, the newest first: one more than is shown where there are more."""
    rows = visible_alerts(request.user).filter(closed_at=None)
    return [(title_of_rule(alert.rule), alert) for alert in rows[: SHOWN_MAX + 1]]
