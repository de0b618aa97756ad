"""The states that a list is filtered by, one chip each, and how many are in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Count, Q, QuerySet

from workloads.models import Workload
from workloads.states import Phase

COUNTED_MAX: Final = 100
"""Beyond so many nobody counts: how long a list is matters less than that it is there at once."""
READ_MAX: Final = 1000
"""So many rows are read at most to count what words, labels or an owner have found."""
LIVE: Final = "live"


@dataclass(frozen=True, slots=True)
class ListState:
    """Which of a list's workloads are shown. `name` is what the address says."""

    name: str
    label: str
    where: Q


@dataclass(frozen=True, slots=True)
class Chip:
    """A state as it stands above the list; the one without a name is of all. With `more` there are more than counted."""

    name: str
    label: str
    count: int
    more: bool = False

    @property
    def count_words(self) -> str:
        """`100+` for more than are counted."""
        if self.more:
            return f"{self.count:,}+"
        return f"{self.count:,}"


ALL: Final = ListState("", "All", Q())
LIVE_STATE: Final = ListState(LIVE, "Live", ~Q(phase__in=Workload.FINAL_PHASES))
PHASES: Final = (LIVE_STATE, *(ListState(phase.value, phase.value, Q(phase=phase.value)) for phase in Phase))


def chips_of(rows: QuerySet[Workload], states: Sequence[ListState], *, narrowed: bool) -> list[Chip]:
    """A chip of all and one of each state, with how many of the rows are in it; in one query.

    `narrowed` says that the rows are found by words, labels or their owner, of which no index tells the states.
    """
    return (_read_once if narrowed else _each_by_index)(rows, [ALL, *states])


def _each_by_index(rows: QuerySet[Workload], states: Sequence[ListState]) -> list[Chip]:
    """Counts each state by the index of phases, and reads no more of one than are counted."""
    columns: list[str] = []
    parameters: list[Any] = []
    for state in states:
        part = rows.filter(state.where).order_by().values("pk")[: COUNTED_MAX + 1]
        try:
            statement, values = part.query.sql_with_params()
        except EmptyResultSet:
            columns.append("0")
            continue
        columns.append(f"(SELECT count(*) FROM ({statement}) AS counted)")  # noqa: S608 - Django's own statement
        parameters += values
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(columns)}", parameters)
        counts = cursor.fetchone() or ()
    return [
        Chip(state.name, state.label, min(count, COUNTED_MAX), count > COUNTED_MAX)
        for state, count in zip(states, counts, strict=True)
    ]


def _read_once(rows: QuerySet[Workload], states: Sequence[ListState]) -> list[Chip]:
    """Reads what was found once, and of much a part: each state has at least as many then."""
    part = rows.order_by()[: READ_MAX + 1]
    names = [f"state_{place}" for place in range(len(states))]
    wheres = [state.where or Q(pk__isnull=False) for state in states]
    counts = part.aggregate(
        **{name: Count("pk", filter=where) for name, where in zip(names, wheres, strict=True)}
    )
    more = counts[names[0]] > READ_MAX
    return [
        Chip(state.name, state.label, min(counts[name], READ_MAX), more)
        for name, state in zip(names, states, strict=True)
    ]
