"""Change sets that were applied: the list, one of them, and taking it back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from console.pages.detail import see_other
from console.pages.lists import PageOfRows
from foundation import clock
from foundation.errors import Conflict, Invalid, NotFound
from pages.quotas.draft import LIMITS, text_of
from pages.quotas.pages import REASON_LENGTH_MAX, ManagersOnly
from quotas.changes import undo_changes
from quotas.models import QuotaChange, QuotaChangeSet
from teams.actors import actor_of

NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class QuotaDifference:
    """One limit before and after, as text."""

    label: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Changed:
    change: QuotaChange
    differences: list[QuotaDifference]


def differences_of(change: QuotaChange) -> list[QuotaDifference]:
    """What a change did, limit by limit; of an old one without the whole limits, the quota alone."""
    before = change.before if change.before is not None else {"nominal": change.old_nominal}
    after = change.after if change.after is not None else {"nominal": change.new_nominal}
    return [
        QuotaDifference(
            label, text_of(name, before.get(name)) or NONE, text_of(name, after.get(name)) or NONE
        )
        for name, label in LIMITS.items()
        if before.get(name) != after.get(name)
    ]


class ChangeSetListPage(ManagersOnly):
    tab = "changes"
    ordering = "-at"

    def get(self, request: HttpRequest) -> HttpResponse:
        change_sets = QuotaChangeSet.objects.select_related("undoes", "undone_by").annotate(
            size=Count("changes")
        )
        pager = PageOfRows()
        sets = pager.paginate_queryset(change_sets, request, self)
        context = {"sets": sets, "older": pager.next_link(), "newer": pager.previous_link()}
        return self.page(request, "portal/quota_changes.html", context)


class ChangeSetPage(ManagersOnly):
    """GET is the change set; POST takes it back, with a reason."""

    tab = "changes"

    def get(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        return self._page(request, _find(public_id))

    def post(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        change_set = _find(public_id)
        reason = request.POST.get("reason", "").strip()[:REASON_LENGTH_MAX].replace("\x00", "")
        if not reason:
            return self._page(request, change_set, wrong="Say why it is taken back.", status=422)
        try:
            made = undo_changes(
                change_set=change_set, reason=reason, actor=actor_of(request), now=clock.now()
            )
        except (Invalid, Conflict) as error:
            return self._page(request, change_set, wrong=error.message, reason=reason, status=409)
        messages.success(request, "The change set was taken back.")
        return see_other(reverse("portal:quota-change-set", args=[made.public_id]))

    def _page(
        self, request: HttpRequest, change_set: QuotaChangeSet, *, status: int = 200, **extra: Any
    ) -> HttpResponse:
        changes = change_set.changes.order_by("team_slug", "flavor_name", "capacity_type")
        context = {
            "change_set": change_set,
            "undone_by": getattr(change_set, "undone_by", None),
            "asked": getattr(change_set, "request", None),
            "changes": [Changed(change, differences_of(change)) for change in changes],
            **extra,
        }
        return self.page(request, "portal/quota_change_set.html", context, status=status)


def _find(public_id: UUID) -> QuotaChangeSet:
    change_set = (
        QuotaChangeSet.objects.select_related("undoes", "undone_by", "request")
        .filter(public_id=public_id)
        .first()
    )
    if change_set is None:
        raise NotFound("There is no such change set.")
    return change_set
