"""What members ask for: the list that quota managers decide on."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from console.pages.detail import see_other
from console.pages.lists import PageOfRows
from foundation import clock
from foundation.errors import Conflict, Invalid, NotFound
from foundation.http.query import refuse
from pages.quotas.pages import REASON_LENGTH_MAX, ManagersOnly
from quotas.models import Quota, QuotaRequest
from quotas.requests import approve_request, deny_request
from teams.actors import actor_of

_DONE: Final = {
    "approve": "{units} more {flavor} for {team}, until they return by themselves.",
    "deny": "The request of {team} was denied.",
}


class RequestListPage(ManagersOnly):
    tab = "requests"
    ordering = "-requested_at"

    def get(self, request: HttpRequest) -> HttpResponse:
        state = request.GET.get("state", QuotaRequest.State.PENDING.value)
        if state != "all" and state not in QuotaRequest.State.values:
            raise refuse("state", f"must be all or one of {', '.join(QuotaRequest.State.values)}.")
        return self._page(request, state)

    def _page(self, request: HttpRequest, state: str, *, status: int = 200, **extra: Any) -> HttpResponse:
        requests = QuotaRequest.objects.select_related("team", "flavor", "requested_by", "decided_by")
        if state != "all":
            requests = requests.filter(state=state)
        pager = PageOfRows()
        rows = pager.paginate_queryset(requests, request, self)
        context = {
            "requests": [(row, quota) for row, quota in zip(rows, _quotas(rows), strict=True)],
            "state": state,
            "states": list(QuotaRequest.State),
            "older": pager.next_link(),
            "newer": pager.previous_link(),
            **extra,
        }
        return self.page(request, "portal/quota_requests.html", context, status=status)


class RequestDecisionPage(ManagersOnly):
    """POST approves or denies, with a comment."""

    def post(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        asked = QuotaRequest.objects.select_related("team", "flavor").filter(public_id=public_id).first()
        if asked is None:
            raise NotFound("There is no such request.")
        answer = request.POST.get("answer", "")
        if answer not in _DONE:
            raise Invalid.of_field("answer", "Approve it or deny it.", code="invalid")
        decide = approve_request if answer == "approve" else deny_request
        comment = request.POST.get("comment", "").strip()[:REASON_LENGTH_MAX].replace("\x00", "")
        try:
            decide(request=asked, comment=comment, actor=actor_of(request), now=clock.now())
            messages.success(
                request,
                _DONE[answer].format(units=asked.units, flavor=asked.flavor.name, team=asked.team.name),
            )
        except (Invalid, Conflict) as error:
            messages.error(request, error.message)
        return see_other(reverse("portal:quota-requests"))


def _quotas(rows: list[QuotaRequest]) -> list[Quota | None]:
    """What the teams have of what they ask for, in one query."""
    teams, flavors = {row.team_id for row in rows}, {row.flavor_id for row in rows}
    held = Quota.objects.filter(team__in=teams, flavor__in=flavors)
    quotas = {(quota.team_id, quota.flavor_id, quota.capacity_type): quota for quota in held} if rows else {}
    return [quotas.get((row.team_id, row.flavor_id, row.capacity_type)) for row in rows]
