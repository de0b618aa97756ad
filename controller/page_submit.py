"""The page that submits something new: fill in, check, submit. One URL, and a second click makes nothing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any, ClassVar

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views import View

from controller.page_forms import ContainerForm, curl_of
from controller.page_queries import flavor_cards, submit_teams, teams_of
from controller.page_views import see_other
from controller.waiting import Card
from foundation import clock
from foundation.errors import Conflict, Invalid, NotAllowed, NotFound, PortalError
from foundation.models import IdempotencyKey
from teams.models import Team

BODY_BYTES_MAX = 3 * 2**20
_TOKEN = re.compile(r"[0-9a-f]{32}\Z")


class SubmitPage(LoginRequiredMixin, View):
    """Subclass it with a form, its template and the two service calls."""

    noun: ClassVar[str]
    form_class: ClassVar[type[ContainerForm]]
    template: ClassVar[str]
    api_path: ClassVar[str]
    body_bytes_max = BODY_BYTES_MAX

    def get(self, request: HttpRequest, slug: str | None = None) -> HttpResponse:
        teams = submit_teams(request)
        wanted = slug or request.GET.get("team")
        if wanted and wanted not in {team.slug for team in teams_of(request)}:
            raise NotFound("There is no such team, or you are not a member of it.")
        if not teams:
            raise NotAllowed(
                f"You may not submit a {self.noun} in any team. A team lead can make you a member."
            )
        chosen = next((team for team in teams if team.slug == wanted), teams[0])
        initial = {"team": chosen.slug, **self.initial(request)}
        form = self.form_class(initial=initial, teams=teams)
        return self._page(request, form, chosen)

    def post(self, request: HttpRequest, slug: str | None = None) -> HttpResponse:
        teams = submit_teams(request)
        # Who is a viewer chose a team that the form does not offer: the permissions say so, not the form.
        form = self.form_class(
            request.POST, teams=teams_of(request), files_sent=request.FILES.getlist("upload")
        )
        team = form.teams.get(request.POST.get("team", ""))
        checks = request.POST.get("action") == "check"
        found = self._try(request, form, team, checks=checks)
        if isinstance(found, HttpResponse):
            return found
        if request.headers.get("HX-Target") == "preview":
            return self._page(request, form, team, fragment="#preview", preview=found)
        if request.headers.get("HX-Target") == "flavors":
            return self._page(request, form, team or (teams[0] if teams else None), fragment="#flavors")
        status = 422 if form.errors else 200
        return self._page(request, form, team or (teams[0] if teams else None), status=status, preview=found)

    def initial(self, request: HttpRequest) -> dict[str, Any]:
        """What the form begins with."""
        return {}

    def preview(self, form: ContainerForm, team: Team, request: HttpRequest) -> Card:
        raise NotImplementedError

    def submit(self, form: ContainerForm, team: Team, request: HttpRequest) -> str:
        """Make it; the URL of its page."""
        raise NotImplementedError

    def _try(
        self, request: HttpRequest, form: ContainerForm, team: Team | None, *, checks: bool
    ) -> Card | HttpResponse | None:
        if not form.is_valid() or team is None:
            return None
        try:
            if checks:
                return self.preview(form, team, request)
            url = once(request, form.posted_token, lambda: self.submit(form, team, request))
        except (Invalid, Conflict, NotAllowed) as error:
            form.add_portal_error(error)
            return None
        messages.success(request, f"{form.body['name']} is submitted.")
        return see_other(url)

    def _page(
        self,
        request: HttpRequest,
        form: ContainerForm,
        team: Team | None,
        *,
        fragment: str = "",
        status: int = 200,
        preview: Any = None,
    ) -> HttpResponse:
        now = clock.now()
        context: dict[str, Any] = {
            "form": form,
            "team": team,
            "preview": preview,
            "asked": preview.quota_after["used"] - preview.quota_before["used"]
            if preview and preview.quota_before
            else 0,
            "noun": self.noun,
            "curl": curl_of(form.body, url=f"{settings.PUBLIC_URL}{self.api_path}") if form.body else "",
        }
        if fragment != "#preview":
            context["cards"] = flavor_cards(team=team, now=now)
            chosen = form["flavor"].value() or ""
            context["chosen_flavor"] = chosen
        return render(request, f"{self.template}{fragment}", context, status=status)


def once(request: HttpRequest, token: str, make: Callable[[], str]) -> str:
    """The URL that `make` gives, or gave when the same form was sent before; a try that fails may be repeated."""
    if not _TOKEN.match(token):
        return make()
    with transaction.atomic():
        row, fresh = IdempotencyKey.objects.get_or_create(
            principal=f"user:{request.user.pk}",
            key=f"form:{token}",
            defaults={
                "fingerprint": hashlib.sha256(token.encode()).hexdigest(),
                "method": "POST",
                "path": request.path[:2000],
                "created_at": clock.now(),
            },
        )
        if not fresh:
            location = row.headers.get("Location")
            if not location:
                raise PortalError("This form is being sent already.", code="in_flight")
            return str(location)
        url = make()
        row.state, row.status, row.headers, row.body = IdempotencyKey.State.DONE, 303, {"Location": url}, b""
        row.save(update_fields=["state", "status", "headers", "body"])
        return url
