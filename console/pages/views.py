"""Saving the filters of a list as a view, and deleting one."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.views import View

from console.pages.detail import see_other
from console.pages.lists import list_filters_in
from console.saved_views import delete_view, save_view
from foundation import clock
from foundation.errors import Invalid, NotFound
from teams.actors import actor_of
from workloads.kinds import UnknownKind, kind_of


class SavedViewsPage(LoginRequiredMixin, View):
    """POST keeps the filters of a list, its `query`, under a `name`, and leads back to the list."""

    def post(self, request: HttpRequest) -> HttpResponse:
        try:
            kind = kind_of(request.POST.get("kind", ""))
        except UnknownKind as error:
            raise NotFound("There is no such list.") from error
        query = urlencode(list_filters_in(parse_qsl(request.POST.get("query", "")[:4000])))
        name, actor = request.POST.get("name", ""), actor_of(request)
        try:
            view = save_view(actor=actor, kind=kind.name, name=name, query=query, now=clock.now())
            messages.success(request, f"The view {view.name} is saved.")
        except Invalid as error:
            messages.error(request, error.errors[0].message)
        return see_other(f"/{kind.page_path}/?{query}")


class SavedViewDeletePage(LoginRequiredMixin, View):
    """POST forgets a view of the person's own."""

    def post(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        view = delete_view(actor=actor_of(request), public_id=public_id, now=clock.now())
        messages.success(request, f"The view {view.name} is deleted.")
        return see_other(f"/{kind_of(view.kind).page_path}/")
