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
_ANY_PHASE: Final = "any phase"
"""Stands for each phase in turn."""


@dataclass(frozen=True, slots=True)
class ListState:
    """Which of a list's workloads are shown. `name` is what the address says; `phases` are those that it is of, where it is
    of nothing else.
    """

    name: str
    label: str
    where: Q
    phases: frozenset[Phase] = frozenset()


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


ALL: Final = ListState("", "All", Q(), frozenset(Phase))
LIVE_STATE: Final = ListState(
    LIVE, "Live", ~Q(phase__in=Workload.FINAL_PHASES), frozenset(Phase).difference(Workload.FINAL_PHASES)
)
PHASES: Final = (
    LIVE_STATE,
    *(ListState(phase.value, phase.value, Q(phase=phase.value), frozenset({phase})) for phase in Phase),
)


def chips_of(rows: QuerySet[Workload], states: Sequence[ListState], *, narrowed: bool) -> list[Chip]:
    """A chip of all and one of each state, with how many of the rows are in it; in one query.

    `narrowed` says that the rows are found by words, labels or their owner, of which no index tells the states.
    """
    if narrowed:
        return _read_once(rows, [ALL, *states])
    if all(state.phases for state in states):
        return _by_phase(rows, [ALL, *states])
    return _each_by_index(rows, [ALL, *states])


def _by_phase(rows: QuerySet[Workload], states: Sequence[ListState]) -> list[Chip]:
    """Counts each phase by their index; the statement is written once, as Django takes longer for that than the
    database for all answers.
    """
    one = _at_most(rows.filter(phase=_ANY_PHASE))
    counts = dict.fromkeys(Phase, 0)
    if one is not None:
        statement, values = one
        parameters = [phase.value if value == _ANY_PHASE else value for phase in Phase for value in values]
        counts = dict(zip(Phase, _asked([statement] * len(counts), parameters), strict=True))
    return [_chip(state, sum(counts[phase] for phase in state.phases)) for state in states]


def _each_by_index(rows: QuerySet[Workload], states: Sequence[ListState]) -> list[Chip]:
    """Counts each state by the index of phases, and reads no more of one than are counted."""
    found = [_at_most(rows.filter(state.where)) for state in states]
    written = [one for one in found if one is not None]
    counts = iter(
        _asked([statement for statement, _ in written], [value for _, values in written for value in values])
    )
    return [
        _chip(state, 0 if one is None else next(counts)) for state, one in zip(states, found, strict=True)
    ]


def _at_most(rows: QuerySet[Workload]) -> tuple[str, tuple[Any, ...]] | None:
    """The statement that reads as many of them as are counted and one more; None where there can be none."""
    try:
        return rows.order_by().values("pk")[: COUNTED_MAX + 1].query.sql_with_params()
    except EmptyResultSet:
        return None


def _asked(statements: Sequence[str], parameters: Sequence[Any]) -> Sequence[int]:
    """How many rows each of them reads; in one query."""
    if not statements:
        return ()
    counted = [f"(SELECT count(*) FROM ({statement}) AS counted)" for statement in statements]  # noqa: S608 - Django's own
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(counted)}", parameters)
        return cursor.fetchone() or ()


def _chip(state: ListState, count: int) -> Chip:
    return Chip(state.name, state.label, min(count, COUNTED_MAX), count > COUNTED_MAX)


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
