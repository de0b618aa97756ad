"""Rows with concurrent writers: usages of cohorts, and pools that are due. Changed by conditional updates only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

from django.db import connection


def rows(statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """The result rows of one statement."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def overflow(used: int, local: int) -> int:
    """An account's use that counts in its cohort: all above its local part."""
    return max(0, used - local)


# From a quota's cohort up to the root, for the quota's flavor and capacity type.
_ABOVE = """
WITH RECURSIVE above AS (
    SELECT quota.id AS quota_id, flavor_id, capacity_type, cohort.id AS cohort_id, cohort.parent_id, 1 AS step
    FROM quotas_quota AS quota
    JOIN teams_team AS team ON team.id = quota.team_id
    JOIN quotas_cohort AS cohort ON cohort.name = team.cohort_name
    WHERE quota.id = ANY(%(ids)s)
    UNION ALL
    SELECT quota_id, flavor_id, capacity_type, cohort.id, cohort.parent_id, step + 1
    FROM above JOIN quotas_cohort AS cohort ON cohort.id = above.parent_id
)
SELECT quota_id, usage.id FROM above
JOIN quotas_cohortusage AS usage USING (cohort_id, flavor_id, capacity_type) ORDER BY quota_id, step
"""
_LOCK_USAGES = "SELECT id FROM quotas_cohortusage WHERE id = ANY(%(ids)s) ORDER BY id FOR NO KEY UPDATE"
_COUNT = """
UPDATE quotas_cohortusage SET used = used + delta,
    grandfathered = CASE WHEN delta < 0 THEN least(grandfathered, used + delta) ELSE grandfathered END
FROM unnest(%(ids)s::bigint[], %(deltas)s::int[]) AS change (usage_id, delta)
WHERE id = usage_id AND (delta < 0 OR used + delta <= ceiling)
RETURNING id, delta, used, local
"""


def count_in_cohorts(overflows: Mapping[int, int]) -> bool:
    """Change what cohorts count by the overflow of quotas, which are locked; False where a cohort has no room for it.

    While a quota is locked neither its team's cohort nor any limit above it can change: a transaction that changes those
    takes the lock of every quota below first.
    """
    changed = {quota_id: delta for quota_id, delta in overflows.items() if delta}
    if not changed:
        return True
    paths: dict[int, list[int]] = {quota_id: [] for quota_id in changed}
    for quota_id, usage_id in rows(_ABOVE, {"ids": list(changed)}):
        paths[quota_id].append(usage_id)
    deltas: Counter[int] = Counter()
    for quota_id, delta in changed.items():
        if paths[quota_id]:
            deltas[paths[quota_id][0]] += delta
        elif delta > 0:
            return False
    return _count_upwards(list(paths.values()), deltas)


def _count_upwards(paths: Sequence[Sequence[int]], deltas: Counter[int]) -> bool:
    """Apply `deltas` by usage, level by level, deepest first, each one's own overflow to the level above."""
    levels: dict[int, set[int]] = {}
    parents: dict[int, int] = {}
    for path in paths:
        parents |= dict(pairwise(path))
        for depth, usage_id in enumerate(reversed(path)):
            levels.setdefault(depth, set()).add(usage_id)
    for depth in sorted(levels, reverse=True):
        ids = [usage_id for usage_id in sorted(levels[depth]) if deltas[usage_id]]
        if len(ids) > 1:
            rows(_LOCK_USAGES, {"ids": ids})
        counted = rows(_COUNT, {"ids": ids, "deltas": [deltas[usage_id] for usage_id in ids]}) if ids else []
        if len(counted) < len(ids):
            return False
        for usage_id, delta, used, local in counted:
            if usage_id in parents:
                deltas[parents[usage_id]] += overflow(used, local) - overflow(used - delta, local)
    return True


# A pool that is due already is not written, but held: the pass that takes it off the list waits for this transaction,
# and so reads what it has changed. One that is due later (a pass is at work, or the next one is planned) is due now.
# It is held as if it were written: a row that is not due any more by the time the lock is had stays locked all the
# same, and two transactions that shared the lock would wait for each other to write the row.
_MAKE_DUE = """
UPDATE quotas_pool SET due_at = %(now)s
WHERE flavor_id = %(flavor)s AND capacity_type = %(capacity)s AND (due_at IS NULL OR due_at > %(now)s)
RETURNING id
"""
_HOLD_DUE = """
SELECT id FROM quotas_pool
WHERE flavor_id = %(flavor)s AND capacity_type = %(capacity)s AND due_at <= %(now)s
FOR NO KEY UPDATE
"""
_ADD_DUE = """
INSERT INTO quotas_pool (flavor_id, capacity_type, revision, due_at) VALUES (%(flavor)s, %(capacity)s, 0, %(now)s)
ON CONFLICT (flavor_id, capacity_type) DO NOTHING RETURNING id
"""
_ADD = """
INSERT INTO quotas_pool (flavor_id, capacity_type, revision) VALUES (%(flavor)s, %(capacity)s, 0)
ON CONFLICT (flavor_id, capacity_type) DO NOTHING
"""
_HOLD = """
SELECT id FROM quotas_pool WHERE flavor_id = %(flavor)s AND capacity_type = %(capacity)s FOR NO KEY UPDATE
"""
_BUMP = """
INSERT INTO quotas_pool (flavor_id, capacity_type, revision) VALUES (%(flavor)s, %(capacity)s, 1)
ON CONFLICT (flavor_id, capacity_type) DO UPDATE SET revision = quotas_pool.revision + 1
"""
_CHANGE = """
INSERT INTO quotas_pool (flavor_id, capacity_type, revision, due_at) VALUES (%(flavor)s, %(capacity)s, 1, %(now)s)
ON CONFLICT (flavor_id, capacity_type)
DO UPDATE SET revision = quotas_pool.revision + 1, due_at = least(coalesce(quotas_pool.due_at, excluded.due_at), excluded.due_at)
"""


_DUE_BY = """
UPDATE quotas_pool SET due_at = %(at)s WHERE id = %(pool)s AND (due_at IS NULL OR due_at > %(at)s)
"""
# A release meanwhile has made it due, and that stays. A quota increase that ends by date is taken back by a pass.
_PASSED = """
UPDATE quotas_pool AS p
SET due_at = least(nullif(p.due_at, %(leased)s), %(next)s, (
        SELECT min(r.until) FROM quotas_quotarequest AS r
        WHERE r.flavor_id = p.flavor_id AND r.capacity_type = p.capacity_type AND r.state = 'approved'
    )),
    told_at = %(told)s
WHERE p.id = %(pool)s
"""


def due_by(*, pool_id: int, at: datetime) -> None:
    """Make a pass over the pool due at that time at the latest."""
    rows(_DUE_BY, {"pool": pool_id, "at": at})


def passed(*, pool_id: int, leased: datetime, next_at: datetime | None, told_at: datetime | None) -> None:
    """A pass that had the pool until `leased` is over: set when it is due again, which is never while no workload waits
    and nothing is to be taken back.
    """
    rows(_PASSED, {"pool": pool_id, "leased": leased, "next": next_at, "told": told_at})


def lock_pools(pools: Iterable[tuple[int, str]]) -> None:
    """Hold several pools until the transaction ends, in the order in which every transaction takes several pools."""
    for flavor_id, capacity_type in sorted(pools):
        values = {"flavor": flavor_id, "capacity": capacity_type}
        rows(_ADD, values)
        rows(_HOLD, values)


def mark_due(*, flavor_id: int, capacity_type: str, now: datetime) -> None:
    """Let a pass go over the pool once this transaction has ended. The last lock that a transaction takes.

    A pass clears `due_at` in a transaction of its own, before it reads what it decides on: then nothing that
    was released up to that moment is missed.
    """
    values = {"flavor": flavor_id, "capacity": capacity_type, "now": now}
    while not any(rows(statement, values) for statement in (_MAKE_DUE, _HOLD_DUE, _ADD_DUE)):
        """It was cleared, or made, between the statements."""


def bump_revision(*, flavor_id: int, capacity_type: str) -> None:
    """Increase the pool's revision: later decisions rest on changed facts."""
    rows(_BUMP, {"flavor": flavor_id, "capacity": capacity_type})


def pool_changed(*, flavor_id: int, capacity_type: str, now: datetime) -> None:
    """`bump_revision` and `mark_due` at once, for a change of limits: two steps could wait for each other."""
    rows(_CHANGE, {"flavor": flavor_id, "capacity": capacity_type, "now": now})
