"""The rows of pools, read together: in as many statements for several pools as for one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection

from foundation.models import PlatformSettings
from quotas import pool_sql
from quotas.ceilings import CLAIMED, values_of
from workloads.kinds import kinds
from workloads.models import Workload
from workloads.nodes.capacity import Observed, observed_of, observed_values
from workloads.states import OUT_OF_REACH

WINDOW = 32
"""Waiters of a team that a snapshot shows one by one; those behind them are counted."""
HEAD = 8
"""So many first waiters are the same in every turn, so that it protects them."""
WINDOW_WITH_USER_LIMIT = 512
"""More where the first ones may be held back by their own limit while others of the team could start."""
OUT_OF_REACH_MAX = 200
EVERYBODY = 1_000_000
HISTORY_RUNS = 50


@dataclass
class PoolRows:
    """The rows of one pool."""

    flavor_id: int
    capacity_type: str
    flavor: str
    """The flavor's name."""
    revision: int
    settings: tuple[int, int, int, Sequence[int | None]]
    """Seconds that a run runs at least, seconds of grace, hours of the half-life of fair share, and ceilings of teams."""
    cohorts: Sequence[pool_sql.CohortRow]
    quotas: Sequence[pool_sql.QuotaRow]
    on_card: Sequence[tuple[int, int, int]]
    """Units that are claimed of the flavor's cards, behind numerator and denominator of each one's fraction."""
    history: Mapping[str, float]
    """By team, the share of their time limits that its runs have used; empty where it was not asked for."""
    prices: Sequence[tuple[int, int | None, int]]
    """Since when, until when, and micro-USD an hour of the flavor's card; empty where no team has a budget."""
    waiting: list[pool_sql.WaiterRow] = field(default_factory=list)
    counts: list[tuple[str, str, int, int]] = field(default_factory=list)
    """Team, priority, waiters and their units; empty where all of them are in `waiting`."""
    shown: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How many of each team and priority the window of its line shows."""
    held: list[pool_sql.HeldRow] = field(default_factory=list)


class PoolReader:
    """Reads pools; every method is one statement or two, however many teams and workloads there are."""

    def __init__(
        self, now: datetime, *, without: Workload | None, history: bool, telling: bool, everybody: bool
    ) -> None:
        self.values: dict[str, Any] = {
            "now": now,
            "without": without.pk if without else 0,
            "history": history,
            "telling": telling,
            "out": [reason.value for reason in OUT_OF_REACH],
            "window": EVERYBODY if everybody else WINDOW,
            "head": HEAD,
            "wide": EVERYBODY if everybody else WINDOW_WITH_USER_LIMIT,
            "most": EVERYBODY if everybody else OUT_OF_REACH_MAX,
            "runs": HISTORY_RUNS,
            "ending": [kind.name for kind in kinds() if kind.ends],
        }

    def pools(
        self, flavor_id: int, capacity_type: str, *, team_id: int | None, others: int, turn: int
    ) -> tuple[list[PoolRows], Observed]:
        """The pool, and behind it so many others in which the team has a quota, the largest quotas first; the waiters in
        their lines and the holders of units; and the cluster. All of one moment.
        """
        asked = {"flavor": flavor_id, "capacity": capacity_type, "team": team_id, "others": others}
        books, line, holders, *cluster = self._rows(
            pool_sql.POOLS, {**asked, **observed_values(), "turn": turn}
        )[0]
        return _pools(books, line, holders), observed_of(cluster)

    def others(self, flavor_id: int, capacity_type: str, *, team_id: int | None, most: int) -> list[PoolRows]:
        """The current rows of the other pools only."""
        asked = {"flavor": flavor_id, "capacity": capacity_type, "team": team_id, "others": most}
        return _pools(*self._rows(pool_sql.OTHERS, {**asked, "turn": 0})[0])

    def beyond(self, pools: Sequence[PoolRows], *, beside: bool) -> None:
        """Add how many wait where the window does not show all, and with `beside` the waiters beside the line."""
        if beside:
            _queue(pools, self._of(pools, pool_sql.BESIDE))
        full = [pool for pool in pools if max(pool.shown.values(), default=0) >= self.values["window"]]
        by_key = _by_key(full)
        for flavor_id, capacity_type, *row in self._of(full, pool_sql.COUNTS) if full else ():
            by_key[flavor_id, capacity_type].counts.append((row[0], row[1], row[2], int(row[3])))

    def before(self, pool: PoolRows, waiter: Workload) -> int:
        """How many waiters of its team and priority are ahead of it."""
        place = {
            "team": waiter.team_id,
            "priority": waiter.priority,
            "queued_at": waiter.queued_at,
            "id": waiter.pk,
        }
        return int(self._of([pool], pool_sql.BEFORE, **place)[0][0])

    def _of(self, pools: Sequence[PoolRows], sql: str, **more: Any) -> list[tuple[Any, ...]]:
        keys = {
            "flavors": [pool.flavor_id for pool in pools],
            "capacities": [pool.capacity_type for pool in pools],
        }
        return self._rows(sql, {**keys, **more})

    def _rows(self, sql: str, more: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(sql, {**self.values, **more})
            return list(cursor.fetchall())


def _pools(
    books: Sequence[Sequence[Any]] | None,
    line: Sequence[Sequence[Any]] | None,
    holders: Sequence[Sequence[Any]] | None,
) -> list[PoolRows]:
    """The pools of the three documents of a statement; an empty document is None."""
    pools = [_books(pool_sql.BookRow(*row)) for row in books or ()]
    _queue(pools, line or ())
    by_key = _by_key(pools)
    for flavor, capacity, *row in holders or ():
        by_key[flavor, capacity].held.append(_held(row))
    for pool in pools:
        pool.shown = Counter((row.team, row.priority) for row in pool.waiting)
    return pools


def _by_key(pools: Sequence[PoolRows]) -> dict[tuple[int, str], PoolRows]:
    return {(pool.flavor_id, pool.capacity_type): pool for pool in pools}


def _queue(pools: Sequence[PoolRows], rows: Iterable[Sequence[Any]]) -> None:
    by_key = _by_key(pools)
    for flavor_id, capacity_type, *row in rows:
        by_key[flavor_id, capacity_type].waiting.append(pool_sql.WaiterRow(*row))


def _held(row: Sequence[Any]) -> pool_sql.HeldRow:
    moments: list[Any] = [moment and datetime.fromisoformat(moment) for moment in row[: pool_sql.MOMENTS]]
    return pool_sql.HeldRow(*moments, *row[pool_sql.MOMENTS :])


def _books(row: pool_sql.BookRow) -> PoolRows:
    return PoolRows(
        flavor_id=row.flavor_id,
        capacity_type=row.capacity_type,
        flavor=row.flavor,
        revision=row.revision or 0,
        settings=row.settings or _default_settings(),
        cohorts=row.cohorts or (),
        quotas=[pool_sql.QuotaRow(*quota) for quota in row.quotas or ()],
        on_card=row.on_card or (),
        history=row.history or {},
        prices=row.prices or (),
    )


def _default_settings() -> tuple[int, int, int, Sequence[int | None]]:
    defaults = PlatformSettings()
    return (
        defaults.minimum_run_seconds,
        defaults.grace_seconds,
        defaults.fair_share_half_life_hours,
        values_of(defaults, CLAIMED),
    )
