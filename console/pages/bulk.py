"""The page that asks before a command on all that a list shows with its filters, and does it."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from rest_framework import serializers
from typing_extensions import override

from console.api.bulk import LabelChangesField
from console.bulk import BulkAction, BulkCommand, BulkCount, carry_out, preview
from console.pages.detail import see_other
from console.pages.forms import split_lines
from console.pages.lists import FILTERS, WorkloadListPage
from foundation import clock
from foundation.errors import Conflict, Invalid, Unavailable
from foundation.http.problems import flatten
from foundation.http.query import refuse
from teams.actors import actor_of
from workloads.bulk.commands import LabelChanges
from workloads.kinds import kind_of

DIALOG = "bulk"
"""What a list leaves room for the question in, and htmx puts it into."""
SHOWN = 5


class WorkloadBulkPage(WorkloadListPage):
    """`?action=` with the filters of the list asks, with how many they are; POST does it and leads back to the list."""

    template = "console/bulk.html"
    list_name: ClassVar[str]
    """Of the URL of the list."""
    cancel_words: ClassVar[tuple[str, str]] = ("Cancel", "being cancelled")
    """What ending one is called: as a button, and once it is asked for."""
    confirms: ClassVar[bool] = False
    """Whether how many are ended has to be typed."""

    @override
    def get(self, request: HttpRequest, slug: str | None = None) -> HttpResponseBase:
        return self._ask(request, self._command(request))

    def post(self, request: HttpRequest) -> HttpResponse:
        command = self._command(request)
        expected = request.POST.get("expected", "")
        try:
            if command.action is BulkAction.LABEL:
                command = replace(command, labels=_labels_of(request))
            elif self.confirms and request.POST.get("confirm", "").strip() != request.POST.get("changes"):
                message = f"Nothing was done: type how many that are, {request.POST.get('changes')}."
                raise Invalid.of_field("confirm", message, code="not_confirmed")
            count = carry_out(
                command=command,
                actor=actor_of(request),
                now=clock.now(),
                expected=int(expected) if expected.isdecimal() and len(expected) < 10 else None,
            )
        except (Conflict, Invalid, Unavailable) as error:
            return self._ask(request, command, error=error)
        messages.success(request, self._done(count))
        return see_other(self._list_url(request))

    def _command(self, request: HttpRequest) -> BulkCommand:
        action = request.GET.get("action", "")
        if action not in set(BulkAction):
            raise refuse("action", f"must be one of {', '.join(BulkAction)}.")
        team = self._team(request, None)
        if team is None and not any(request.GET.get(key) for key in FILTERS):
            raise refuse("filter", "without one it would be everything of everybody.", code="required")
        workloads = self._filtered(request, team)
        return BulkCommand(action=BulkAction(action), workloads=workloads)

    def _ask(
        self,
        request: HttpRequest,
        command: BulkCommand,
        *,
        error: Conflict | Invalid | Unavailable | None = None,
    ) -> HttpResponse:
        noun = kind_of(self.kind).noun
        count = preview(command=command, user=request.user)
        context = {
            "count": count,
            "more": count.changed - SHOWN,
            "labels_typed": request.POST.get("labels", ""),
            "removed_typed": request.POST.get("remove", ""),
            "error": error,
            "cancel_word": self.cancel_words[0],
            "confirms": self.confirms and command.action is BulkAction.CANCEL,
            "noun": noun,
            "list_url": self._list_url(request),
            "shown": SHOWN,
        }
        fragment = "#ask" if request.headers.get("HX-Target") == DIALOG else ""
        return render(request, f"{self.template}{fragment}", context, status=error.status if error else 200)

    def _list_url(self, request: HttpRequest) -> str:
        query = request.GET.copy()
        query.pop("action", None)
        return f"{reverse(self.list_name)}?{query.urlencode()}"

    def _done(self, count: BulkCount) -> str:
        noun = kind_of(self.kind).noun
        one = count.changed == 1
        done = self.cancel_words[1] if count.action is BulkAction.CANCEL else "labelled"
        said = f"{count.changed} {noun}{'' if one else 's'} {'is' if one else 'are'} {done}."
        left = count.unchanged + count.forbidden
        if not left:
            return said
        return f"{said} {left} {'other stays as it is' if left == 1 else 'others stay as they are'}."


def _labels_of(request: HttpRequest) -> LabelChanges:
    """The changes that were typed. Raises Invalid with what is wrong with them."""
    changes: dict[str, str | None] = {}
    for line in split_lines(request.POST.get("labels", "")):
        key, _, value = (part.strip() for part in line.partition("="))
        if line.strip() and (not key or key in changes):
            what = "has no name" if not key else f"sets {key} a second time"
            raise Invalid.of_field("labels", f"The line {line.strip()[:80]} {what}.")
        if key:
            changes[key] = value
    for key in request.POST.get("remove", "").replace(",", " ").split():
        if key in changes:
            raise Invalid.of_field("labels", f"{key} is to be set and to be removed.")
        changes[key] = None
    if not changes:
        raise Invalid.of_field("labels", "Say which labels to set or to remove.", code="required")
    try:
        LabelChangesField(allow_null=False).run_validation(changes)
    except serializers.ValidationError as error:
        message = next(flatten(error.detail)).message
        raise Invalid.of_field("labels", message) from error
    return changes
