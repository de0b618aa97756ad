"""The audit trail as a page: who did what to what, with filters, and a file of the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.contrib.auth.mixins import LoginRequiredMixin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views import View

from console.pages.lists import PageOfRows
from console.pages.queries import teams_of
from foundation.http.filters import condition_on
from foundation.http.query import check_query_parameters, one, refuse
from teams.api.trail import AUDIT_FILTERS
from teams.models import AuditEvent
from teams.permissions import has_global_role, sees_origin, visible_audit_events
from teams.trail.names import uuid_of, with_names
from workloads.kinds import kinds

WHAT: Final[dict[str, tuple[str, Mapping[str, tuple[str, ...]]]]] = {
    "sign-ins": ("Sign-ins", {"action": ("sign-in.succeed", "sign-in-link.create", "sign-in-link.redeem")}),
    "failures": ("Failed sign-ins", {"action": ("sign-in.fail", "sign-in.refuse")}),
    "refusals": ("Refused commands", {"action": ("request.refuse",)}),
    "people": ("People and teams", {"target_kind": ("user", "team")}),
    "tokens": ("Tokens and secrets", {"target_kind": ("token", "endpoint-token", "secret")}),
    "quotas": ("Quotas", {"target_kind": ("quota", "quota-request", "cohort")}),
    "costs": ("Prices and postings", {"target_kind": ("price", "ledger")}),
    "platform": (
        "Platform",
        {"target_kind": ("settings", "flavor", "template", "volume", "stray-object", "alert-rule")},
    ),
}
WORKLOADS: Final = "workloads"
_PAGE_PARAMETERS: Final = ("what", "actor", "team", "target", "from", "to", "action", "cursor")


@dataclass(frozen=True, slots=True)
class AuditRow:
    """An event, the page of its target if it has one, and whether the reader may know where it came from."""

    event: AuditEvent
    url: str
    shows_origin: bool


class AuditPage(LoginRequiredMixin, View):
    """GET is the trail of what the user may know of: their teams' and their own, all with a global role."""

    ordering = "-at"

    def get(self, request: HttpRequest) -> HttpResponse:
        check_query_parameters(request, _PAGE_PARAMETERS)
        asked = _asked(request)
        events: QuerySet[AuditEvent] = visible_audit_events(request.user).select_related("token")
        for name, values in asked.items():
            events = events.filter(_condition(name, values))
        pager = PageOfRows()
        rows = with_names(pager.paginate_queryset(events, request, self))
        context = {
            "rows": [AuditRow(row, _page_of(row), sees_origin(request.user, row)) for row in rows],
            "older": pager.next_link(),
            "newer": pager.previous_link(),
            "teams": teams_of(request),
            "whats": [(key, label) for key, (label, _) in _whats().items()],
            "chosen": {name: request.GET.get(name, "") for name in _PAGE_PARAMETERS},
            "since": request.GET.get("from", ""),
            "filtered": bool(asked),
            "export": f"{reverse('teams-api:audit-export')}?{urlencode(asked, doseq=True)}",
            "sees_all": has_global_role(request.user),
        }
        return render(request, "portal/audit.html", context)


def _whats() -> dict[str, tuple[str, Mapping[str, tuple[str, ...]]]]:
    runs = {"target_kind": (*(kind.name for kind in kinds()), "sweep")}
    return WHAT | {WORKLOADS: ("Runs and endpoints", runs)}


def _asked(request: HttpRequest) -> dict[str, list[str]]:
    """The filters of the form as REST takes them; an empty field asks for nothing. Raises Malformed naming one."""
    found: dict[str, list[str]] = {}
    for name in ("actor", "team", "target", "action"):
        if text := (one(request, name) or "").strip():
            found[name] = [text]
    what = one(request, "what") or ""
    if what and what not in _whats():
        raise refuse("what", f"must be one of {', '.join(_whats())}.")
    if what:
        found |= {name: list(values) for name, values in _whats()[what][1].items()}
    for name, days in (("from", 0), ("to", 1)):
        if day := one(request, name):
            found[name] = [f"{_day(name, day) + timedelta(days=days):%Y-%m-%d}T00:00:00Z"]
    return found


def _day(name: str, text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise refuse(name, "must be a day such as 2026-01-31.") from None
    if not 1970 <= day.year < 9999:
        raise refuse(name, "must be a day from 1970 on.")
    return day


def _condition(name: str, values: list[str]) -> Any:
    declared = AUDIT_FILTERS[name]
    try:
        return condition_on(declared, [declared.parse(value) for value in values])
    except ValueError as error:
        raise refuse(name, str(error)) from error


def _page_of(event: AuditEvent) -> str:
    """Where the target is looked at; empty for what has no page of its own."""
    kind, known = event.target_kind, {each.name: each for each in kinds()}
    if kind in known and uuid_of(event.target_id):
        return known[kind].page_of(event.target_id)
    if kind == "team" and event.team_slug:
        return reverse("portal:team-detail", args=[event.team_slug])
    if kind == "sweep" and (public_id := uuid_of(event.target_id)):
        return reverse("jobs:sweep-detail", args=[public_id])
    if kind in {"quota", "quota-request"} and event.team_slug:
        return reverse("portal:team-quota", args=[event.team_slug])
    return ""
