"""The quota console: the grid, and the change set that its edits are collected into until a user applies it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views import View
from typing_extensions import override

from console.pages.detail import see_other
from foundation import clock
from foundation.errors import Conflict, Invalid, NotFound
from pages.quotas.draft import Draft, DraftRow, place_errors, rows_of, shown_json
from pages.quotas.grid import Filters, cohort_names, grid_of
from quotas.changes import ChangePreview, LimitChange, apply_changes, preview_changes
from quotas.models import QuotaRequest
from teams.actors import actor_of
from teams.permissions import check_global_role

REASON_LENGTH_MAX: Final = 1000
SHOWN_MAX: Final = 50
"""Workloads of one kind of effect that the preview lists; the rest are counted."""


class ManagersOnly(LoginRequiredMixin, View):
    """A page of the console. Raises NotAllowed unless the user is a quota manager or a platform admin."""

    tab = ""

    @override
    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if request.user.is_authenticated:
            check_global_role(request.user, "quota-manager")
        return super().dispatch(request, *args, **kwargs)

    def page(
        self, request: HttpRequest, template: str, context: dict[str, Any], *, status: int = 200
    ) -> HttpResponse:
        """The template with what every page of the console shows above it."""
        pending = QuotaRequest.objects.filter(state=QuotaRequest.State.PENDING).count()
        return render(request, template, {"tab": self.tab, "asked": pending, **context}, status=status)


class ConsolePage(ManagersOnly):
    """GET is the grid; with `HX-Target: change-set` the edits so far. POST takes edits and keeps them."""

    tab = "grid"

    def get(self, request: HttpRequest) -> HttpResponse:
        filters, draft = Filters.of(request), Draft(request)
        return self._grid(request, filters, draft)

    def post(self, request: HttpRequest) -> HttpResponse:
        draft = Draft(request)
        _take(request, draft)
        draft.save()
        if request.headers.get("HX-Target") == "change-set":
            return render(request, "portal/quota_console.html#change-set", _edits(draft))
        if request.POST.get("action") == "preview" and draft:
            return see_other(reverse("portal:quota-draft"))
        return see_other(f"{request.get_full_path()}#change-set")

    def _grid(self, request: HttpRequest, filters: Filters, draft: Draft) -> HttpResponse:
        edits = _edits(draft)
        grid = grid_of(filters, edits["rows"])
        context = {
            "grid": grid,
            "filters": filters,
            "cohorts": cohort_names(),
            "flavors": grid.flavors,
            **edits,
        }
        return self.page(request, "portal/quota_console.html", context)


class DraftPage(ManagersOnly):
    """GET is the change set with what it would do; POST changes, applies or drops it."""

    tab = "grid"

    def get(self, request: HttpRequest) -> HttpResponse:
        return self._page(request, Draft(request))

    def post(self, request: HttpRequest) -> HttpResponse:
        draft = Draft(request)
        draft.evicts = "evicts" in request.POST
        draft.reason = request.POST.get("reason", "").strip()[:REASON_LENGTH_MAX].replace("\x00", "")
        _take(request, draft)
        draft.save()
        if request.headers.get("HX-Target") == "effects":
            return self._page(request, draft, fragment="#effects")
        if request.POST.get("action") == "apply" and draft:
            return self._apply(request, draft)
        return see_other(reverse("portal:quota-draft" if draft else "portal:quota-console"))

    def _apply(self, request: HttpRequest, draft: Draft) -> HttpResponse:
        rows = rows_of(draft)
        wrong = "" if draft.reason else "Say why: the reason is kept with every change."
        if wrong or any(row.errors for row in rows):
            return self._page(request, draft, rows=rows, wrong_reason=wrong, status=422)
        try:
            made = apply_changes(
                changes=_changes(rows),
                reason=draft.reason,
                evicts=draft.evicts,
                actor=actor_of(request),
                now=clock.now(),
            )
        except (Invalid, Conflict) as error:
            message = place_errors(rows, error)
            return self._page(request, draft, rows=rows, message=message, status=422)
        draft.clear()
        messages.success(request, f"{len(rows)} quota{'' if len(rows) == 1 else 's'} changed.")
        return see_other(reverse("portal:quota-change-set", args=[made.public_id]))

    def _page(
        self,
        request: HttpRequest,
        draft: Draft,
        *,
        rows: list[DraftRow] | None = None,
        message: str = "",
        wrong_reason: str = "",
        fragment: str = "",
        status: int = 200,
    ) -> HttpResponse:
        rows = rows_of(draft) if rows is None else rows
        preview, message = _preview(rows, draft, message)
        context = {
            "draft": draft,
            "rows": rows,
            "shown": shown_json((row.key, row.now) for row in rows),
            "wrong": sum(len(row.errors) for row in rows) + bool(message) + bool(wrong_reason),
            "message": message,
            "wrong_reason": wrong_reason,
            "preview": preview,
            "now": clock.now(),
            "slice": f":{SHOWN_MAX}",
        }
        return self.page(request, f"portal/quota_draft.html{fragment}", context, status=status)


def _take(request: HttpRequest, draft: Draft) -> None:
    """What every form with cells may ask of the draft."""
    draft.collect(request.POST)
    if "drop" in request.POST:
        draft.drop(request.POST["drop"])
    if request.POST.get("action") == "discard":
        draft.edits.clear()


def _edits(draft: Draft) -> dict[str, Any]:
    rows = rows_of(draft)
    return {"draft": draft, "rows": rows, "wrong": sum(len(row.errors) for row in rows)}


def _changes(rows: Sequence[DraftRow]) -> list[LimitChange]:
    return [
        LimitChange(team=row.team, flavor=row.flavor, capacity_type=row.key.capacity_type, limits=row.values)
        for row in rows
        if row.team is not None and row.flavor is not None
    ]


def _preview(rows: list[DraftRow], draft: Draft, message: str) -> tuple[ChangePreview | None, str]:
    """What the change set would do; None with the sentence why, or where a cell says why."""
    if not rows or message or any(row.errors for row in rows):
        return None, message
    try:
        return preview_changes(changes=_changes(rows), evicts=draft.evicts, now=clock.now()), ""
    except (Invalid, Conflict, NotFound) as error:
        return None, place_errors(rows, error)
