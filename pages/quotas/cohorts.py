"""Cohorts: which there are, who is in them, and how much they borrow from and lend to their parent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from console.pages.detail import see_other
from foundation import clock
from foundation.errors import Conflict, Invalid, NotFound, PortalError
from pages.quotas.draft import WHOLE_WANTED
from pages.quotas.pages import REASON_LENGTH_MAX, ManagersOnly
from quotas.cohorts import create_cohort, delete_cohort, move_cohort, set_cohort_limits
from quotas.models import Cohort, CohortUsage
from teams.actors import actor_of
from teams.models import Team
from teams.services import update_team

LIMITS = ("borrowing_limit", "lending_limit")


@dataclass(frozen=True, slots=True)
class Branch:
    """A cohort with its place below its parents."""

    cohort: Cohort
    depth: int
    teams: int

    @property
    def step(self) -> int:
        """How far it is indented: what is deeper stands no further right."""
        return min(self.depth, 5)


@dataclass(slots=True)
class CohortRow:
    """What a cohort lends and borrows of a pool, with what was typed about it."""

    usage: CohortUsage
    texts: dict[str, str]
    errors: dict[str, str]

    @property
    def fields(self) -> list[tuple[str, str, str]]:
        """Name, text and error of each limit."""
        return [(name, self.texts[name], self.errors.get(name, "")) for name in LIMITS]

    @property
    def borrowed(self) -> int:
        """What the members use above what they lend each other."""
        return max(0, self.usage.used - self.usage.guaranteed)


class CohortListPage(ManagersOnly):
    """GET is the tree; POST makes a cohort."""

    tab = "cohorts"

    def get(self, request: HttpRequest) -> HttpResponse:
        return self._page(request)

    def post(self, request: HttpRequest) -> HttpResponse:
        typed = {name: request.POST.get(name, "").strip().replace("\x00", "") for name in ("name", "parent")}
        try:
            made = create_cohort(
                name=typed["name"], parent=_parent(typed["parent"]), actor=actor_of(request), now=clock.now()
            )
        except (Invalid, Conflict, NotFound) as error:
            return self._page(request, typed=typed, errors=by_field(error), status=422)
        messages.success(request, f"{made.name} is made. Put teams into it.")
        return see_other(reverse("portal:quota-cohort", args=[made.public_id]))

    def _page(self, request: HttpRequest, *, status: int = 200, **extra: Any) -> HttpResponse:
        context = {"branches": _tree(), **extra}
        return self.page(request, "portal/quota_cohorts.html", context, status=status)


class CohortPage(ManagersOnly):
    """GET is one cohort; POST moves it, puts a team in or takes one out, sets its limits, or deletes it."""

    tab = "cohorts"

    def get(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        return self._page(request, _find(public_id))

    def post(self, request: HttpRequest, public_id: UUID) -> HttpResponse:
        cohort = _find(public_id)
        action = request.POST.get("action", "")
        acts = {"parent": self._move, "join": self._join, "leave": self._leave, "delete": self._delete}
        if action == "limits":
            return self._limits(request, cohort)
        if action not in acts:
            raise Invalid.of_field("action", "There is no such action.", code="invalid")
        try:
            with transaction.atomic():
                message = acts[action](request, cohort)
        except (Invalid, Conflict, NotFound) as error:
            return self._page(request, cohort, errors={action: error.message}, status=422)
        messages.success(request, message)
        if action == "delete":
            return see_other(reverse("portal:quota-cohorts"))
        return see_other(reverse("portal:quota-cohort", args=[cohort.public_id]))

    def _move(self, request: HttpRequest, cohort: Cohort) -> str:
        parent = _parent(request.POST.get("parent", ""))
        move_cohort(cohort=cohort, parent=parent, actor=actor_of(request), now=clock.now())
        return (
            f"{cohort.name} is now below {parent.name}."
            if parent
            else f"{cohort.name} is below no other now."
        )

    def _join(self, request: HttpRequest, cohort: Cohort) -> str:
        team = self._set(request, cohort_name=cohort.name)
        return f"{team.name} is in {cohort.name} now."

    def _leave(self, request: HttpRequest, cohort: Cohort) -> str:
        team = self._set(request, cohort_name="")
        return f"{team.name} is in no cohort now."

    def _set(self, request: HttpRequest, *, cohort_name: str) -> Team:
        team = Team.objects.filter(slug=request.POST.get("team", "").replace("\x00", "")).first()
        if team is None:
            raise NotFound("Choose a team.")
        return update_team(
            actor=actor_of(request), team=team, changes={"cohort_name": cohort_name}, now=clock.now()
        )

    def _delete(self, request: HttpRequest, cohort: Cohort) -> str:
        delete_cohort(cohort=cohort, actor=actor_of(request), now=clock.now())
        return f"{cohort.name} is deleted."

    def _limits(self, request: HttpRequest, cohort: Cohort) -> HttpResponse:
        """All limits that differ, or none of them."""
        lines = _lines(cohort)
        reason = request.POST.get("reason", "").strip()[:REASON_LENGTH_MAX].replace("\x00", "")
        errors = {} if reason else {"limits": "Say why: the reason is kept with every change."}
        wanted: list[tuple[CohortRow, dict[str, int | None]]] = []
        for line in lines:
            values = _typed(request, line)
            now = {name: getattr(line.usage, name) for name in LIMITS}
            if not line.errors and values != now:
                wanted.append((line, values))
        if not errors and not any(line.errors for line in lines):
            try:
                with transaction.atomic():
                    for line, values in wanted:
                        self._set_limits(request, cohort, line, values, reason)
            except (Invalid, Conflict) as error:
                errors = {"limits": error.message}
            else:
                messages.success(request, f"{len(wanted)} changed.")
                return see_other(reverse("portal:quota-cohort", args=[cohort.public_id]))
        return self._page(request, cohort, lines=lines, errors=errors, reason=reason, status=422)

    def _set_limits(
        self,
        request: HttpRequest,
        cohort: Cohort,
        line: CohortRow,
        values: dict[str, int | None],
        reason: str,
    ) -> None:
        try:
            set_cohort_limits(
                cohort=cohort,
                flavor=line.usage.flavor,
                capacity_type=line.usage.capacity_type,
                borrowing_limit=values["borrowing_limit"],
                lending_limit=values["lending_limit"],
                reason=reason,
                actor=actor_of(request),
                now=clock.now(),
            )
        except Invalid as error:
            line.errors |= {name: message for name, message in by_field(error).items() if name in LIMITS}
            raise

    def _page(
        self,
        request: HttpRequest,
        cohort: Cohort,
        *,
        lines: list[CohortRow] | None = None,
        status: int = 200,
        **extra: Any,
    ) -> HttpResponse:
        teams = list(Team.objects.order_by("slug"))
        context = {
            "cohort": cohort,
            "members": [team for team in teams if team.cohort_name == cohort.name],
            "others": [team for team in teams if team.cohort_name != cohort.name],
            "parents": [branch for branch in _tree() if branch.cohort.pk != cohort.pk],
            "lines": _lines(cohort) if lines is None else lines,
            **extra,
        }
        return self.page(request, "portal/quota_cohort.html", context, status=status)


def by_field(error: PortalError) -> dict[str, str]:
    """What is wrong, by the name of the field; "" for the whole."""
    if not error.errors:
        return {"": error.message}
    return {problem.field.rpartition(".")[2]: problem.message for problem in error.errors}


def _find(public_id: UUID) -> Cohort:
    cohort = Cohort.objects.select_related("parent").filter(public_id=public_id).first()
    if cohort is None:
        raise NotFound("There is no such cohort.")
    return cohort


def _parent(name: str) -> Cohort | None:
    if not name:
        return None
    parent = Cohort.objects.filter(name=name.replace("\x00", "")).first()
    if parent is None:
        raise Invalid.of_field("parent", "There is no such cohort.", code="unknown")
    return parent


def _tree() -> list[Branch]:
    """Every cohort, those below another right after it, in two queries."""
    sizes = dict(
        Team.objects.exclude(cohort_name="").values_list("cohort_name").annotate(Count("pk")).order_by()
    )
    below: dict[int | None, list[Cohort]] = {}
    for cohort in Cohort.objects.select_related("parent"):
        below.setdefault(cohort.parent_id, []).append(cohort)
    branches, open_ends = [], [(cohort, 0) for cohort in reversed(below.get(None, []))]
    while open_ends:
        cohort, depth = open_ends.pop()
        branches.append(Branch(cohort, depth, sizes.get(cohort.name, 0)))
        open_ends += [(child, depth + 1) for child in reversed(below.get(cohort.pk, []))]
    return branches


def _lines(cohort: Cohort) -> list[CohortRow]:
    usages = CohortUsage.objects.filter(cohort=cohort).select_related("flavor", "cohort")
    return [CohortRow(usage, {name: _text(getattr(usage, name)) for name in LIMITS}, {}) for usage in usages]


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def _typed(request: HttpRequest, line: CohortRow) -> dict[str, int | None]:
    """What was typed about the line; its errors say what is no number."""
    values: dict[str, int | None] = {}
    for name in LIMITS:
        text = request.POST.get(f"{name}~{line.usage.pk}")
        if text is None:
            values[name] = getattr(line.usage, name)
            continue
        line.texts[name] = text = text.strip()[:20]
        if text and not (text.isascii() and text.isdigit() and len(text) < 10):
            line.errors[name] = WHOLE_WANTED
        else:
            values[name] = int(text) if text else None
    return values
