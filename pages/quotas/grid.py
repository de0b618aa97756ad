"""The grid of the quota console: teams down, flavors with their capacity types across, a page of teams at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import OuterRef, Q, QuerySet, Sum
from django.db.models.functions import JSONObject
from django.http import HttpRequest

from foundation.http.query import refuse
from pages.quotas.draft import LIMITS, DraftRow, Key, key_of, shown_json, text_of
from quotas.models import Cohort, Quota, QuotaRequest
from teams.models import Team
from workloads.models import ResourceFlavor, Workload
from workloads.nodes.capacity import observe, rooms_of
from workloads.states import Phase

CELLS_MAX: Final = 120
"""The most cells of a page, for the time that it takes; with three fields each they are far below what Django takes in a form."""
TEAMS_MAX: Final = 30
POOLS_MAX: Final = 12
NO_COHORT: Final = "-"
VIEWS: Final[Mapping[str, tuple[str, ...]]] = {
    "sharing": ("nominal", "borrowing_limit", "lending_limit"),
    "people": ("nominal", "user_limit", "max_time_limit_seconds"),
}
_SHORT: Final = {
    "nominal": "Quota",
    "borrowing_limit": "Borrow",
    "lending_limit": "Lend",
    "user_limit": "Member",
    "max_time_limit_seconds": "Run",
}
_SHOWN: Final = (*LIMITS, "capacity_type", "used", "ceiling", "team__slug", "flavor__name")
"""The columns that a cell needs of a quota."""
_GIVES: Final = Q(nominal__gt=0) | Q(used__gt=0) | ~Q(borrowing_limit=0)
_EMPTY: Final = {"nominal": "none", "lending_limit": "all"}
"""What an empty field means, written into it; no limit where there is no text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolColumn:
    """A column. `promised` is the sum of all teams' quotas, `exists` what nodes offer or may still bring."""

    flavor: ResourceFlavor
    capacity_type: str
    promised: int
    exists: int

    @property
    def over(self) -> int:
        return max(0, self.promised - self.exists)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """An input. `was` is the limit as it stands, `text` what is to be shown: the draft's where it has one."""

    limit: str
    name: str
    label: str
    was: str
    text: str
    empty: str
    error: str

    @property
    def changed(self) -> bool:
        return self.text != self.was


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    key: Key
    quota: Quota | None
    fields: list[Field]
    waiting: int

    @property
    def used(self) -> int:
        return self.quota.used if self.quota else 0

    @property
    def given(self) -> list[tuple[int, datetime]]:
        """Units of its quota that go back by themselves, each with the moment at which they do: never more than it has."""
        if self.quota is None:
            return []
        given, left = [], self.quota.nominal
        for row in self.quota.given:  # type: ignore[attr-defined]
            units = min(left, row["units"])
            left -= units
            if units:
                given.append((units, datetime.fromisoformat(row["until"])))
        return given

    @property
    def above(self) -> int:
        """Used above the quota: borrowed, or left over from before a cut."""
        return max(0, self.used - self.quota.nominal) if self.quota else 0

    @property
    def over(self) -> int:
        """Used above what the limits allow, since a cut."""
        return max(0, self.used - self.quota.ceiling) if self.quota else 0


@dataclass(frozen=True, slots=True)
class TeamRow:
    team: Team
    cells: list[Cell]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """`shown` says what the cells show, for the form to send back; `left_out` counts pools that are too many."""

    pools: list[PoolColumn]
    lines: list[TeamRow]
    heads: list[str]
    shown: str
    page: int
    more: bool
    teams: int
    left_out: int
    flavors: list[str]
    """Names of all that can be asked for."""

    @property
    def previous(self) -> int:
        return self.page - 1

    @property
    def next(self) -> int:
        return self.page + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What the address asks for."""

    team: str
    cohort: str
    flavors: tuple[str, ...]
    view: str
    page: int
    with_quota: bool
    """Only teams and flavors of which somebody has a quota."""

    @classmethod
    def of(cls, request: HttpRequest) -> Filters:
        """Raises Invalid for a view or page that there is not."""
        view = request.GET.get("show") or "sharing"
        if view not in VIEWS:
            raise refuse("show", f"must be one of {', '.join(VIEWS)}.")
        page = request.GET.get("page") or "1"
        if not (page.isascii() and page.isdigit() and 0 < int(page[:6]) <= 10_000):
            raise refuse("page", "must be a whole number from 1.")
        return cls(
            team=request.GET.get("team", "").strip()[:100].replace("\x00", ""),
            cohort=request.GET.get("cohort", "")[:100].replace("\x00", ""),
            flavors=_names(request.GET.getlist("flavor")),
            view=view,
            page=int(page[:6]),
            with_quota=bool(request.GET.get("with_quota")),
        )

    @property
    def any(self) -> bool:
        return bool(self.team or self.cohort or self.flavors or self.with_quota)


def grid_of(filters: Filters, rows: Iterable[DraftRow]) -> Grid:
    """The page of the grid that the filters ask for, with the edits so far in it and what is wrong with them.

    A constant number of queries, however large it is.
    """
    flavors = list(ResourceFlavor.objects.filter(enabled=True))
    every = [
        (flavor, kind)
        for flavor in flavors
        if not filters.flavors or flavor.name in filters.flavors
        for kind in sorted(flavor.capacity)
    ]
    if filters.with_quota:
        held = set(Quota.objects.filter(_GIVES).order_by().values_list("flavor", "capacity_type").distinct())
        every = [(flavor, kind) for flavor, kind in every if (flavor.pk, kind) in held]
    pools = every[:POOLS_MAX]
    size = max(1, min(TEAMS_MAX, CELLS_MAX // max(1, len(pools))))
    selected = _teams(filters)
    first = (filters.page - 1) * size
    teams = list(selected[first : first + size + 1])
    cells = _Cells(teams[:size], rows, VIEWS[filters.view])
    lines = [TeamRow(team, [cells.of(team, flavor, kind) for flavor, kind in pools]) for team in teams[:size]]
    return Grid(
        pools=_columns(pools),
        lines=lines,
        heads=[_SHORT[name] for name in cells.names],
        shown=shown_json(
            (cell.key, {field.limit: field.was for field in cell.fields})
            for line in lines
            for cell in line.cells
        ),
        page=filters.page,
        more=len(teams) > size,
        teams=selected.count(),
        left_out=len(every) - len(pools),
        flavors=[flavor.name for flavor in flavors],
    )


def _names(texts: Iterable[str]) -> tuple[str, ...]:
    """Flavors that are asked for, each once; an empty one asks for all."""
    return tuple(dict.fromkeys(text[:63] for text in list(texts)[:POOLS_MAX] if text and "\x00" not in text))


def _teams(filters: Filters) -> QuerySet[Team]:
    teams = Team.objects.all()
    if filters.with_quota:
        held = Quota.objects.filter(_GIVES)
        if filters.flavors:
            held = held.filter(flavor__name__in=filters.flavors)
        teams = teams.filter(pk__in=held.values("team"))
    if filters.team:
        teams = teams.filter(Q(slug__icontains=filters.team) | Q(name__icontains=filters.team))
    if filters.cohort:
        teams = teams.filter(cohort_name="" if filters.cohort == NO_COHORT else filters.cohort)
    return teams


def _columns(pools: Iterable[tuple[ResourceFlavor, str]]) -> list[PoolColumn]:
    sums = Quota.objects.values_list("flavor_id", "capacity_type").order_by().annotate(total=Sum("nominal"))
    promised = {(flavor, kind): total for flavor, kind, total in sums}
    known = observe()
    columns = []
    for flavor, kind in pools:
        there = rooms_of(flavor, kind, known=known)
        exists = sum(room.size for room in there.rooms) + there.provisionable_units
        total = promised.get((flavor.pk, kind), 0)
        columns.append(PoolColumn(flavor=flavor, capacity_type=kind, promised=total, exists=exists))
    return columns


def _given() -> ArraySubquery:
    """What each quota was given for a time, read with it."""
    of_it = {name: OuterRef(name) for name in ("team", "flavor", "capacity_type")}
    given = QuotaRequest.objects.filter(**of_it, state=QuotaRequest.State.APPROVED.value)
    return ArraySubquery(given.order_by("until", "id").values(given=JSONObject(units="units", until="until")))


class _Cells:
    """What the cells of some teams are made of, read once."""

    def __init__(self, teams: list[Team], rows: Iterable[DraftRow], names: tuple[str, ...]) -> None:
        self.names = names
        held = Quota.objects.filter(team__in=teams).select_related("team", "flavor").only(*_SHOWN)
        self.quotas = {key_of(quota): quota for quota in held.annotate(given=_given())}
        self.edits = {row.key: row for row in rows}
        queued = Workload.objects.filter(team__in=teams, phase=Phase.QUEUED.value, flavor__isnull=False)
        waits = queued.values_list("team__slug", "flavor__name", "capacity_type").order_by()
        self.waiting = {
            Key(team, flavor, kind): total for team, flavor, kind, total in waits.annotate(total=Sum("units"))
        }

    def of(self, team: Team, flavor: ResourceFlavor, kind: str) -> Cell:
        key = Key(team.slug, flavor.name, kind)
        return Cell(
            key=key,
            quota=self.quotas.get(key),
            waiting=self.waiting.get(key, 0),
            fields=[self._field(key, name) for name in self.names],
        )

    def _field(self, key: Key, name: str) -> Field:
        quota, row = self.quotas.get(key), self.edits.get(key)
        was = text_of(name, getattr(quota, name, None))
        return Field(
            limit=name,
            name=f"{name}~{key.text}",
            label=f"{LIMITS[name]}: {key.team}, {key.flavor} {key.capacity_type}",
            was=was,
            text=row.edit.after.get(name, was) if row else was,
            empty=_EMPTY.get(name, "any") if quota or name == "nominal" else "",
            error=row.errors.get(name, "") if row else "",
        )


def cohort_names() -> list[str]:
    """What the grid can be filtered by."""
    return list(Cohort.objects.values_list("name", flat=True))
