"""The page that submits something new: fill in, check, submit. One URL, and a second click makes nothing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar
from urllib.parse import parse_qsl
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.db import transaction
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.views import View

from cluster import quantities
from console.pages.card import CardLook, Page, look_at, traits_for
from console.pages.detail import OfOneKind, see_other
from console.pages.forms import ContainerForm, curl_of, whole, yaml_of
from console.pages.gpu_choice import gpu_choice, model_bytes, model_fits
from console.pages.queries import (
    FlavorCard,
    find_workload,
    flavor_cards,
    submit_teams,
    teams_of,
    usual_flavor,
)
from console.pages.sections import SectionPlan, sections_of
from controller.waiting_card import Card
from foundation import clock
from foundation.errors import Conflict, Invalid, NotAllowed, NotFound, PortalError
from foundation.models import IdempotencyKey, PlatformSettings
from teams.models import Team
from workloads.kinds import kind_of
from workloads.models import Workload
from workloads.placement import ON_DEMAND

BODY_BYTES_MAX = 3 * 2**20
PREFILLED = (
    "name",
    "flavor",
    "capacity",
    "gpus",
    "replicas",
    "time_limit",
    "cpu",
    "memory",
    "storage",
    "model_claim",
    "model_path",
)
"""Fields that an address or a lever may fill in; `set` of a POST holds some of them as a query string."""
PREFILLED_LENGTH_MAX = 253
_TOKEN = re.compile(r"[0-9a-f]{32}\Z")


class SubmitPage(OfOneKind, LoginRequiredMixin, View):
    """Subclass it with a form, its template and the two service calls."""

    form_class: ClassVar[type[ContainerForm]]
    template: ClassVar[str]
    parts: ClassVar[tuple[str, ...]] = ("flavors",)
    """Ids of the parts of the form that are drawn again while it is filled in."""
    beside: ClassVar[tuple[str, ...]] = ()
    """Relations of a workload that are read with the one that the form is filled in from."""
    sections: ClassVar[tuple[SectionPlan, ...]] = ()
    """The folded parts of the form."""
    body_bytes_max = BODY_BYTES_MAX
    earlier: Workload | None = None
    """What the form was filled in from."""

    def get(self, request: HttpRequest, slug: str | None = None) -> HttpResponse:
        wanted = slug or request.GET.get("team")
        if wanted and wanted not in {team.slug for team in teams_of(request)}:
            raise NotFound("There is no such team, or you are not a member of it.")
        teams = teams_to_submit(request, self.noun)
        chosen = next((team for team in teams if team.slug == wanted), teams[0])
        with PlatformSettings.held():
            initial = {"team": chosen.slug, **self.initial(request), **_prefilled(request.GET)}
            chosen = next((team for team in teams if team.slug == initial["team"]), chosen)
            cards = flavor_cards(team=chosen, now=clock.now())
            form = self.form_class(initial=_with_flavor(initial, cards), teams=teams)
            return self._page(request, form, chosen, cards=cards)

    def post(self, request: HttpRequest, slug: str | None = None) -> HttpResponse:
        teams = submit_teams(request)
        lever = request.POST.get("set", "")
        data = _with_lever(request.POST, lever) if lever else request.POST
        checks = bool(lever) or data.get("action") == "check"
        if checks:
            data = _of_its_team(data, teams)
        origin = data.get("replaces") or data.get("origin") or request.GET.get("from")
        self.earlier = self._offered(origin, request)
        # A viewer chose a team that the form does not offer: the permissions say so, not the form.
        form = self.form_class(data, teams=teams_of(request), files_sent=request.FILES.getlist("upload"))
        team = form.teams.get(data.get("team", ""))
        answer = self._try(request, form, team, checks=checks)
        if isinstance(answer, HttpResponse):
            return answer
        if request.headers.get("HX-Target") == "preview":
            return self._page(request, form, team, fragment="#preview", preview=answer)
        if (part := request.headers.get("HX-Target")) in self.parts:
            drawn = self._page(request, form, team or (teams[0] if teams else None), fragment=f"#{part}")
            if data.get("flavor") != request.POST.get("flavor"):
                drawn["HX-Trigger-After-Swap"] = "gpu-chosen"
            return drawn
        status = 422 if form.errors else 200
        return self._page(request, form, team or (teams[0] if teams else None), status=status, preview=answer)

    def initial(self, request: HttpRequest) -> dict[str, Any]:
        """What the form begins with."""
        return {}

    def facts(self, form: ContainerForm) -> dict[str, Any]:
        """What only this kind's page shows."""
        return {}

    def filled_from(self, request: HttpRequest) -> Workload | None:
        """The workload that `?from=` names; NotFound where it is not one of the reader's."""
        if not (origin := request.GET.get("from")):
            return None
        self.earlier = self._find(origin, request)
        return self.earlier

    def _find(self, identity: str, request: HttpRequest) -> Workload:
        try:
            public_id = UUID(identity)
        except ValueError as error:
            raise NotFound(f"There is no such {self.noun}, or it is not yours.") from error
        return find_workload(request.user, public_id, kind=self.kind, noun=self.noun, beside=self.beside)

    def _offered(self, origin: str | None, request: HttpRequest) -> Workload | None:
        """The choice once more; where it is none any more, the judgement of the request says so."""
        with suppress(NotFound):
            return self._find(origin, request) if origin else None
        return None

    def preview(self, form: ContainerForm, team: Team, request: HttpRequest) -> Card:
        raise NotImplementedError

    def submit(self, form: ContainerForm, team: Team, request: HttpRequest) -> str:
        """Make it; the URL of its page."""
        raise NotImplementedError

    def _try(
        self, request: HttpRequest, form: ContainerForm, team: Team | None, *, checks: bool
    ) -> CardLook | HttpResponse | None:
        if not form.is_valid() or team is None:
            return None
        try:
            if checks:
                return self._look(self.preview(form, team, request), form, team)
            url = once(request, form.posted_token, lambda: self.submit(form, team, request))
        except (Invalid, Conflict, NotAllowed) as error:
            form.add_portal_error(error)
            return None
        messages.success(request, f"{form.body['name']} is submitted.")
        return see_other(url)

    def _look(self, card: Card, form: ContainerForm, team: Team) -> CardLook:
        quota = reverse("portal:team-quota", args=[team.slug])
        page = Page(
            noun=self.noun,
            current=form.body,
            form=True,
            quota=quota,
            traits=traits_for(card, form.body),
            model_bytes=model_bytes(
                str(form["fits"].value() or ""),
                trains=self._trains,
                # Replicas of an endpoint each hold the whole model.
                cards=form.gpus_each * (form.pods if self._trains else 1),
            ),
        )
        return look_at(card, page=page, submitted=False)

    def _page(
        self,
        request: HttpRequest,
        form: ContainerForm,
        team: Team | None,
        *,
        fragment: str = "",
        status: int = 200,
        preview: CardLook | None = None,
        cards: list[FlavorCard] | None = None,
    ) -> HttpResponse:
        context: dict[str, Any] = {
            "form": form,
            "team": team,
            "preview": preview,
            # Read aloud where it arrives while a user types; a whole page is read anyway.
            "aloud": bool(fragment),
            "earlier": self.earlier,
            "earlier_waits": self.earlier is not None and self.earlier.waits,
            "replaces": bool(form.replaced_id) if form.is_bound else request.GET.get("replaces") == "1",
            "noun": self.noun,
            "ends": kind_of(self.kind).ends,
            "form_url": request.path,
            "sections": sections_of(form, self.sections, opened=request.GET.get("open", "")),
            "yaml": yaml_of(form.body) if form.body else "",
            "curl": curl_of(form.body, url=f"{settings.PUBLIC_URL}{kind_of(self.kind).resources}")
            if form.body
            else "",
        }
        if fragment != "#preview":
            context |= self._gpus(form, team, cards)
        if not fragment:
            context |= self.facts(form)
        return render(request, f"{self.template}{fragment}", context, status=status)

    @property
    def _trains(self) -> bool:
        """What a model is for in the words of "What fits?" that do not say it."""
        return kind_of(self.kind).ends

    def _gpus(self, form: ContainerForm, team: Team | None, cards: list[FlavorCard] | None) -> dict[str, Any]:
        """The GPUs to choose from."""
        now = clock.now()
        chosen = str(form["flavor"].value() or "")
        asked = str(form["fits"].value() or "")
        fits = model_fits(asked, team=team, trains=self._trains, now=now) if team else None
        choice = gpu_choice(
            flavor_cards(team=team, now=now) if cards is None else cards,
            capacity=str(form["capacity"].value() or ON_DEMAND),
            each=form.gpus_each,
            pods=form.pods,
            chosen=chosen,
            fits=fits,
        )
        return {"choice": choice, "chosen_flavor": chosen}


def teams_to_submit(request: HttpRequest, noun: str) -> list[Team]:
    """Those in which the user may submit; NotAllowed where there is none."""
    teams = submit_teams(request)
    if not teams:
        raise NotAllowed(f"You may not submit {noun}s in any team. A team lead can make you a member.")
    return teams


def _prefilled(query: Mapping[str, str]) -> dict[str, str]:
    """The form's values that an address brings."""
    return {
        name: str(query[name])[:PREFILLED_LENGTH_MAX].replace("\x00", "")
        for name in PREFILLED
        if name in query
    }


def _with_flavor(initial: Mapping[str, Any], cards: list[FlavorCard]) -> dict[str, Any]:
    """What the form begins with, completed by a flavor where nothing says which; without one it asks for no GPU."""
    if "flavor" in initial:
        return dict(initial)
    gpus, pods = (whole(str(initial.get(name) or "1")) for name in ("gpus", "replicas"))
    counts = {"gpus": gpus if isinstance(gpus, int) else 1, "pods": pods if isinstance(pods, int) else 1}
    capacity = str(initial.get("capacity") or ON_DEMAND)
    flavor = usual_flavor(cards, capacity=capacity, beside=_beside(initial), **counts)
    return {**initial, "flavor": flavor, **({} if flavor else {"gpus": "0"})}


def _beside(initial: Mapping[str, Any]) -> dict[str, str]:
    """The cpu and memory that the form begins with, without a quantity that no cluster would understand."""
    requests = {}
    for name in ("cpu", "memory"):
        with suppress(ValueError):
            quantities.parse(str(initial.get(name, "")))
            requests[name] = str(initial[name])
    return requests


def _with_lever(posted: QueryDict, lever: str) -> QueryDict:
    """What was typed, changed as the lever that was pressed says."""
    data = posted.copy()
    for name, value in _prefilled(dict(parse_qsl(lever[:BODY_BYTES_MAX]))).items():
        data[name] = value
    return data


def _of_its_team(data: QueryDict, teams: list[Team]) -> QueryDict:
    """What was typed, with a GPU of the team that was just chosen where that has no quota for the one of the team before."""
    team = next((team for team in teams if team.slug == data.get("team")), None)
    typed_flavor = str(data.get("flavor") or "")
    if team is None or not typed_flavor or data.get("gpus_of", team.slug) == team.slug:
        return data
    cards = flavor_cards(team=team, now=clock.now())
    if any(card.offered and card.flavor.name == typed_flavor for card in cards):
        return data
    typed = {name: value for name in PREFILLED if name != "flavor" and (value := data.get(name))}
    changed = data.copy()
    changed["flavor"] = _with_flavor(typed, cards)["flavor"] or typed_flavor
    return changed


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
