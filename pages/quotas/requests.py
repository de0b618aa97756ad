"""What members ask for: the list that quota managers decide on."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from console.pages.detail import PAGE_TOP, see_other
from console.pages.lists import PageOfRows
from foundation import clock
from foundation.errors import Conflict, Invalid, NotFound
from foundation.http.query import refuse
from foundation.time_zones import last_day_words
from pages.quotas.pages import REASON_LENGTH_MAX, SHOWN_MAX, ManagersOnly
from quotas.models import Quota, QuotaRequest
from quotas.requests import approve_request, deny_request, preview_request
from teams.actors import actor_of

_DONE: Final = {
    "approve": "{units} more {flavor} for {team}. They return by themselves after {day}.",
    "deny": "The request of {team} was denied.",
}


class RequestListPage(ManagersOnly):
    """The list; what a request would do, and the answer, are on its own page."""

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


class RequestPage(ManagersOnly):
    """GET is the request with what approving it would do; POST approves or denies it, with a comment."""

    tab = "requests"

    def get(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        return self._page(request, _find(public_id))

    def post(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        asked = _find(public_id)
        answer = request.POST.get("answer", "")
        if answer not in _DONE:
            raise Invalid.of_field("answer", "Approve it or deny it.", code="invalid")
        decide = approve_request if answer == "approve" else deny_request
        comment = request.POST.get("comment", "").strip()[:REASON_LENGTH_MAX].replace("\x00", "")
        try:
            decide(request=asked, comment=comment, actor=actor_of(request), now=clock.now())
        except (Invalid, Conflict) as error:
            return self._page(request, _find(public_id), status=409, message=error.message, comment=comment)
        day = last_day_words(asked.until)
        done = _DONE[answer].format(
            units=asked.units, flavor=asked.flavor.name, team=asked.team.name, day=day
        )
        messages.success(request, done)
        if asked.requested_by_id == request.user.pk:
            # Who gave it without being asked came from the team's page, and has no list to go through.
            return see_other(reverse("portal:team-quota", args=[asked.team.slug]) + PAGE_TOP)
        return see_other(reverse("portal:quota-requests") + PAGE_TOP)

    def _page(
        self,
        request: HttpRequest,
        asked: QuotaRequest,
        *,
        status: int = 200,
        message: str = "",
        comment: str = "",
    ) -> HttpResponse:
        preview, now = None, clock.now()
        if asked.state == QuotaRequest.State.PENDING:
            try:
                preview = preview_request(request=asked, now=now)
            except (Invalid, Conflict, NotFound) as error:
                message = message or error.message
        context = {
            "row": asked,
            "quota": _quotas([asked])[0],
            "preview": preview,
            "message": message,
            "comment": comment,
            "now": now,
            "slice": f":{SHOWN_MAX}",
        }
        return self.page(request, "portal/quota_request.html", context, status=status)


def _find(public_id: UUID) -> QuotaRequest:
    rows = QuotaRequest.objects.select_related("team", "flavor", "requested_by", "change_set")
    asked = rows.filter(public_id=public_id).first()
    if asked is None:
        raise NotFound("There is no such request.")
    return asked


def _quotas(rows: list[QuotaRequest]) -> list[Quota | None]:
    """What the teams have of what they ask for, in one query."""
    teams, flavors = {row.team_id for row in rows}, {row.flavor_id for row in rows}
    held = Quota.objects.filter(team__in=teams, flavor__in=flavors)
    quotas = {(quota.team_id, quota.flavor_id, quota.capacity_type): quota for quota in held} if rows else {}
    return [quotas.get((row.team_id, row.flavor_id, row.capacity_type)) for row in rows]
