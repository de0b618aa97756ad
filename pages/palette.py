"""The palette: one field that leads to every page, run, endpoint and team by name, and to what can be done with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views import View

from console.api.search_conditions import SEARCH_LENGTH_MAX, matching, parse_search
from console.pages.queries import submit_teams, teams_of, visible_workloads
from pages.destinations import COMMANDS_OF, VERBS, Verb, found
from teams.permissions import has_global_role
from workloads.kinds import kinds
from workloads.models import Workload

WORKLOADS_MAX: Final = 6
"""Of each kind."""
TEAMS_MAX: Final = 5
PARTIAL: Final = "palette-found"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A link of the palette; `workload` where it is one, whose state is then shown."""

    title: str
    url: str
    icon: str
    note: str = ""
    key: str = ""
    workload: Workload | None = None


class PalettePage(LoginRequiredMixin, View):
    """GET is a page with the field and what was found; with `HX-Target: palette-found` what was found alone."""

    def get(self, request: HttpRequest) -> HttpResponse:
        search = " ".join(request.GET.get("search", "").split())[:SEARCH_LENGTH_MAX]
        groups = [(title, entries) for title, entries in _groups(request, search) if entries]
        fragment = f"#{PARTIAL}" if request.headers.get("HX-Target") == PARTIAL else ""
        context = {"search": search, "groups": groups, "count": sum(len(each) for _, each in groups)}
        return render(request, f"portal/palette.html{fragment}", context)


def _groups(request: HttpRequest, search: str) -> Iterator[tuple[str, list[Entry]]]:
    """What was found, with its heading; empty ones too."""
    first, _, rest = search.partition(" ")
    verb = VERBS.get(first.lower())
    if verb and rest:
        yield f"{verb.title}…", list(_acts(request, verb, rest))
    user: Any = request.user
    pages = list(
        found(
            search,
            submits=bool(submit_teams(request)),
            manages=bool(user.is_platform_admin or user.is_quota_manager),
        )
    )
    if search:
        for kind in kinds():
            entries = [_workload(each) for each in _matching(request, kind.name, search)]
            yield f"{kind.noun.capitalize()}s", entries
        yield "Teams", list(_teams(request, search))
    for title, acts in (("Pages", False), ("Actions", True)):
        yield (
            title,
            [
                Entry(title=each.title, url=reverse(each.route), icon=each.icon, key=each.key)
                for each in pages
                if each.acts is acts
            ],
        )


def _matching(request: HttpRequest, kind: str, search: str) -> list[Workload]:
    """The newest of the kind whose names have these words; none for what no name can have."""
    try:
        wanted = parse_search(search)
    except ValueError:
        return []
    teams = None if has_global_role(request.user) else [team.pk for team in teams_of(request)]
    rows = visible_workloads(request.user, kind=kind).filter(matching(wanted, teams=teams))
    return list(rows.order_by("-created_at", "-id")[:WORKLOADS_MAX])


def _workload(workload: Workload) -> Entry:
    note = f"{workload.team.slug} · {workload.owner.username}"
    return Entry(title=workload.name, url=workload.page_url, icon="", note=note, workload=workload)


def _acts(request: HttpRequest, verb: Verb, search: str) -> Iterator[Entry]:
    """Links to the button of the page of each workload that the verb may be meant for: the page asks, and says why not."""
    steered = {team.pk for team in submit_teams(request)}
    for kind in kinds():
        if verb.command in COMMANDS_OF.get(kind.noun, frozenset()):
            for workload in _matching(request, kind.name, search):
                if workload.team_id in steered and workload.is_final is not verb.live:
                    yield Entry(
                        title=f"{verb.title} {workload.name}…",
                        url=f"{workload.page_url}#do-{verb.command}",
                        icon="right",
                        note=workload.team.slug,
                        workload=workload,
                    )


def _teams(request: HttpRequest, search: str) -> list[Entry]:
    wanted = search.lower()
    named = [team for team in teams_of(request) if wanted in team.slug or wanted in team.name.lower()]
    return [
        Entry(
            title=team.name, url=reverse("portal:team-detail", args=[team.slug]), icon="team", note=team.slug
        )
        for team in named[:TEAMS_MAX]
    ]
