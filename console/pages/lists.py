"""The list page that runs and endpoints share: filters in the URL, keyset pages, one fragment that refreshes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar
from urllib.parse import urlencode, urlsplit

from django.contrib.auth.mixins import LoginRequiredMixin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.views import View
from typing_extensions import override

from console.api.exports import csv_of
from console.api.list_filters import LIST_FILTERS, search_in
from console.pages.chips import PHASES, ListState, chips_of
from console.pages.queries import submit_teams, teams_of, visible_workloads
from console.saved_views import views_of
from costs.queries import Cost, PriceBook, costs_of
from foundation import clock
from foundation.errors import NotFound
from foundation.http.filters import condition_of
from foundation.http.pages import CursorPage
from foundation.http.query import refuse
from teams.models import Team
from teams.permissions import has_global_role
from workloads.kinds import kind_of
from workloads.models import Workload
from workloads.states import HOLDS_CLAIM, Phase

FILTERS = ("phase", "state", "search", "label", "mine")
NARROW = ("search", "label", "mine")
"""Those of the filters by which the rows are found that have no index with their states."""
ROW_FIELDS = (
    *("public_id", "kind", "name", "phase", "reason", "message", "since"),
    *("created_at", "started_at", "finished_at"),
    *("used_seconds", "time_limit_seconds", "units", "units_each", "capacity_type"),
    *("team__slug", "owner__username", "flavor__name", "flavor__card"),
    *("flavor__fraction_numerator", "flavor__fraction_denominator"),
)
"""What the lines and their costs say: half the columns of four tables are half the time of reading them."""
KEPT = frozenset({*FILTERS, "team"})
"""The parameters of an address that say what a list shows, without where in it."""
FRAGMENTS = {"list": "#table", "found": "#found"}


@dataclass(frozen=True, slots=True)
class WorkloadRow:
    """One line of a list. `took` is the time since it first ran, `more` what only its kind has."""

    workload: Workload
    cost: Cost
    took: timedelta | None
    more: Mapping[str, Any] = field(default_factory=dict)


RowFacts = Callable[[Sequence[Workload], datetime], Mapping[int, Mapping[str, Any]]]
"""What the lines of a kind say besides, by the workload's key; a few queries however many lines there are."""

_row_facts: dict[str, RowFacts] = {}


def register_row_facts(kind: str, facts: RowFacts) -> None:
    """Called from the `ready` of the app that knows them."""
    if _row_facts.get(kind, facts) is not facts:
        raise ValueError(f"Two apps want the lines of the kind {kind}.")
    _row_facts[kind] = facts


class PageOfRows(CursorPage):
    """For people: as many as fill a screen or two, asked for every ten seconds while they change. The way back is always
    offered after the first page, so that nothing has to be asked about it.
    """

    limit_default = 30

    @override
    def _exists_behind(self, queryset: QuerySet[Any], rows: list[Any], *, backwards: bool) -> bool:
        return True


def rows_of(
    workloads: list[Workload], *, now: datetime, price_book: PriceBook | None = None
) -> list[WorkloadRow]:
    """The lines of the workloads, in two queries and what their kinds ask besides."""
    more: dict[int, Mapping[str, Any]] = {}
    for kind in {workload.kind for workload in workloads} & _row_facts.keys():
        more.update(_row_facts[kind]([workload for workload in workloads if workload.kind == kind], now))
    rows = plain_rows(workloads, now=now, price_book=price_book)
    return [replace(row, more=more.get(row.workload.pk, {})) for row in rows]


def plain_rows(
    workloads: Sequence[Workload], *, now: datetime, price_book: PriceBook | None = None
) -> list[WorkloadRow]:
    """The same without what only their kinds have, in two queries; in one for who has `spans_by_card` already."""
    return rows_with(workloads, costs_of(workloads, now=now, price_book=price_book), now=now)


def rows_with(
    workloads: Sequence[Workload], costs: Mapping[int, Cost], *, now: datetime
) -> list[WorkloadRow]:
    """The same where the costs are known; no query."""
    return [WorkloadRow(workload, costs[workload.pk], _took(workload, now)) for workload in workloads]


def _took(workload: Workload, now: datetime) -> timedelta | None:
    """How long it ran, as its page says it; while it holds a place, since it first began."""
    if workload.started_at is None:
        return None
    if workload.used_seconds and Phase(workload.phase) not in HOLDS_CLAIM:
        return timedelta(seconds=workload.used_seconds)
    return (workload.finished_at or now) - workload.started_at


class WorkloadListPage(LoginRequiredMixin, View):
    """Subclass it with a kind and a template that has a partial `table`."""

    kind: ClassVar[str]
    template: ClassVar[str]
    states: ClassVar[Sequence[ListState]] = PHASES
    """What it is filtered by besides words, one chip each."""
    state_name: ClassVar[str] = "phase"
    """The parameter that names one of them."""
    ordering = "-created_at"

    def get(self, request: HttpRequest, slug: str | None = None) -> HttpResponseBase:
        now = clock.now()
        team = self._team(request, slug)
        pager = PageOfRows()
        found = self._found(request, team)
        workloads = self._in_state(request, found)
        rows = rows_of(pager.paginate_queryset(workloads.only(*ROW_FIELDS), request, self), now=now)
        context = {
            "rows": rows,
            "older": pager.next_link(),
            "newer": pager.previous_link(),
            "team": team,
            "fixed_team": slug is not None,
            "teams": teams_of(request),
            "may_submit": bool(submit_teams(request)),
            "chips": chips_of(found, self.states, narrowed=any(request.GET.get(name) for name in NARROW)),
            "state": request.GET.get(self.state_name, ""),
            "state_name": self.state_name,
            "views": views_of(request.user, self.kind),
            "kind": self.kind,
            "list_path": f"/{kind_of(self.kind).page_path}/",
            "view_query": view_query(request, team),
            "search": request.GET.get("search", ""),
            "label": ",".join(request.GET.getlist("label")),
            "mine": "mine" in request.GET,
            "filtered": any(request.GET.get(key) for key in FILTERS) or (team and not slug),
            "any_live": any(not row.workload.is_final for row in rows),
        }
        target = request.headers.get("HX-Target", "")
        context["fragment"] = target if target in FRAGMENTS else ""
        response = render(request, f"{self.template}{FRAGMENTS.get(target, '')}", context)
        if target == "found":
            # Each pause in typing is an entry of the history, under the address that a link would have.
            response["HX-Push-Url"] = pushed_url(request)
        return response

    def _team(self, request: HttpRequest, slug: str | None) -> Team | None:
        """The team of the path or of the filter. Raises NotFound, also for a stranger."""
        wanted = slug or request.GET.get("team") or ""
        if not wanted:
            return None
        team = next((team for team in teams_of(request) if team.slug == wanted), None)
        if team is None:
            raise NotFound("There is no such team, or you are not a member of it.")
        return team

    def _filtered(self, request: HttpRequest, team: Team | None) -> QuerySet[Workload]:
        """All that the list shows."""
        return self._in_state(request, self._found(request, team))

    def _in_state(self, request: HttpRequest, workloads: QuerySet[Workload]) -> QuerySet[Workload]:
        """Those of them in the state that is chosen. An address may name a phase in a list of other states too."""
        for name, states in {"phase": PHASES, self.state_name: self.states}.items():
            if chosen := request.GET.get(name, ""):
                state = next((each for each in states if each.name == chosen), None)
                if state is None:
                    raise refuse(name, f"must be one of {', '.join(each.name for each in states)}.")
                workloads = workloads.filter(state.where)
        return workloads

    def _found(self, request: HttpRequest, team: Team | None) -> QuerySet[Workload]:
        """What fits all filters but that of the state."""
        workloads = visible_workloads(request.user, kind=self.kind)
        if team is not None:
            workloads = workloads.filter(team=team)
        search = search_in(lambda: _searched_teams(request, team))
        for name, declared in (("search", search["search"]), ("label", LIST_FILTERS["label"])):
            if request.GET.get(name):
                workloads = workloads.filter(condition_of(request, name, declared))
        if "mine" in request.GET:
            workloads = workloads.filter(owner=request.user.pk)
        return workloads


def list_filters_in(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of an address's parameters that say what a list shows, without empty ones."""
    return [(name, value) for name, value in pairs if name in KEPT and value]


def view_query(request: HttpRequest, team: Team | None) -> str:
    """What the list shows, as the address of the list of all teams says it."""
    pairs = [pair for pair in _filters_of(request) if pair[0] != "team"]
    return urlencode([*pairs, ("team", team.slug)] if team is not None else pairs)


def _filters_of(request: HttpRequest) -> list[tuple[str, str]]:
    return list_filters_in((name, value) for name, values in request.GET.lists() for value in values)


def pushed_url(request: HttpRequest) -> str:
    """The address that the list now has; `false` where the browser is there already."""
    query = urlencode(_filters_of(request))
    url = f"{request.path}?{query}" if query else request.path
    current = urlsplit(request.headers.get("HX-Current-URL", ""))
    return "false" if url == current._replace(scheme="", netloc="", fragment="").geturl() else url


class WorkloadExportPage(WorkloadListPage):
    """All that a list shows with its filters, as a CSV file."""

    @override
    def get(self, request: HttpRequest, slug: str | None = None) -> HttpResponseBase:
        workloads = self._filtered(request, self._team(request, slug))
        return csv_of(workloads.order_by(self.ordering, "-id"), kind=self.kind)


def _searched_teams(request: HttpRequest, team: Team | None) -> Collection[int] | None:
    """Keys of the teams whose rows the page can show, None for all; from what the page knows anyway."""
    if team is not None:
        return [team.pk]
    return None if has_global_role(request.user) else [visible.pk for visible in teams_of(request)]
