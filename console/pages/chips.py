"""The states that a list is filtered by, one chip each, and how many are in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Q, QuerySet

from workloads.models import Workload
from workloads.states import Phase

COUNTED_MAX: Final = 1000
"""Beyond so many nobody counts: how long a list is matters less than that it is there at once."""
LIVE: Final = "live"


@dataclass(frozen=True, slots=True)
class ListState:
    """Which of a list's workloads are shown. `name` is what the address says."""

    name: str
    label: str
    where: Q


@dataclass(frozen=True, slots=True)
class Chip:
    """A state as it stands above the list; the one without a name is of all."""

    name: str
    label: str
    count: int

    @property
    def count_words(self) -> str:
        """`1,000+` for more than are counted."""
        return f"{COUNTED_MAX:,}+" if self.count > COUNTED_MAX else f"{self.count:,}"


LIVE_STATE: Final = ListState(LIVE, "Live", ~Q(phase__in=Workload.FINAL_PHASES))
PHASES: Final = (LIVE_STATE, *(ListState(phase.value, phase.value, Q(phase=phase.value)) for phase in Phase))


def chips_of(rows: QuerySet[Workload], states: Sequence[ListState]) -> list[Chip]:
    """A chip of all and one of each state, with how many of the rows are in it; in one query."""
    counts = _counted({"": rows, **{state.name: rows.filter(state.where) for state in states}})
    return [Chip("", "All", counts[""]), *(Chip(each.name, each.label, counts[each.name]) for each in states)]


def _counted(parts: Mapping[str, QuerySet[Workload]]) -> dict[str, int]:
    """How many rows each has, at most one more than are counted: no more of them are read, however many there are."""
    columns: list[str] = []
    parameters: list[Any] = []
    for rows in parts.values():
        try:
            statement, values = rows.order_by().values("pk")[: COUNTED_MAX + 1].query.sql_with_params()
        except EmptyResultSet:
            columns.append("0")
            continue
        columns.append(f"(SELECT count(*) FROM ({statement}) AS counted)")  # noqa: S608 - Django's own statement
        parameters += values
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(columns)}", parameters)
        return dict(zip(parts, cursor.fetchone() or (), strict=True))
