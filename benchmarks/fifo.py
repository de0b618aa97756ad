"""Strict first come, first served, as a rival of admission: the same rows, claims and moves, no policy."""

from __future__ import annotations

from datetime import datetime

from django.db import connection, transaction

from controller.admission.scheduler import ADMISSION, LEASE, MUTEX
from policy.arithmetic import Tree
from policy.pool_snapshot import Account
from quotas.models import CohortUsage, Pool, Quota
from quotas.services import Wanted, claim_many
from workloads.bulk.transitions import Move, lock_queued, move_queued
from workloads.states import Phase, Reason

HEADS = 64
INDEX = """
CREATE INDEX benchmark_first_come ON workloads_workload (flavor_id, capacity_type, team_id, queued_at, id)
WHERE phase = 'Queued'
"""
"""What it reads its heads by; the portal's own index knows priorities first."""
_HEADS = """
SELECT w.id, w.team_id, w.units
FROM quotas_quota AS q
CROSS JOIN LATERAL (
    SELECT id, team_id, units, queued_at FROM workloads_workload
    WHERE flavor_id = q.flavor_id AND capacity_type = q.capacity_type AND team_id = q.team_id AND phase = 'Queued'
    ORDER BY queued_at, id LIMIT %(heads)s
) AS w
WHERE q.flavor_id = %(flavor)s AND q.capacity_type = %(capacity)s
ORDER BY w.queued_at, w.id
"""


def pass_over(pool: Pool, *, now: datetime) -> int:
    """Admit the first of every team's queue for as long as it fits; a workload that does not fit holds up its team."""
    leased = now + LEASE
    if not Pool.objects.filter(pk=pool.pk, due_at__lte=now).update(due_at=leased):
        return 0
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [MUTEX, pool.pk])
        cursor.execute(_HEADS, {"heads": HEADS, "flavor": pool.flavor_id, "capacity": pool.capacity_type})
        wanted, full = _first_come(pool, cursor.fetchall())
        if wanted:
            # Rows before quotas, as admission takes them.
            workloads = lock_queued(workload_ids=[want.workload_id for want in wanted])
            claim_many(wanted=wanted, now=now)
            moves = [
                Move(workload.pk, Phase.ADMITTED, Reason.CREATING, "It is its turn.")
                for workload in workloads
            ]
            move_queued(workloads=workloads, moves=moves, actor=ADMISSION, now=now)
    # A team all of whose heads were admitted may have more behind them.
    Pool.objects.filter(pk=pool.pk, due_at=leased).update(due_at=None if full else now)
    return len(wanted)


def _first_come(pool: Pool, heads: list[tuple[int, int, int]]) -> tuple[list[Wanted], bool]:
    """The workloads to admit, and whether every queue was looked at to its end or to a workload that does not fit."""
    quotas = {quota.team_id: quota for quota in _quotas(pool)}
    tree = Tree(_accounts(pool, list(quotas.values())))
    wanted, held_up, seen = [], set[int](), dict[int, int]()
    for workload_id, team_id, units in heads:
        seen[team_id] = seen.get(team_id, 0) + 1
        if team_id in held_up:
            continue
        quota = quotas[team_id]
        if tree.available(f"team:{team_id}") < units:
            held_up.add(team_id)
            continue
        tree.take(f"team:{team_id}", units)
        wanted.append(Wanted(workload_id, quota.pk, units))
    return wanted, all(team in held_up or count < HEADS for team, count in seen.items())


def _quotas(pool: Pool) -> list[Quota]:
    rows = Quota.objects.filter(flavor=pool.flavor_id, capacity_type=pool.capacity_type)
    return list(rows.select_related("team"))


def _accounts(pool: Pool, quotas: list[Quota]) -> list[Account]:
    usages = CohortUsage.objects.filter(flavor=pool.flavor_id, capacity_type=pool.capacity_type)
    accounts = [
        Account(f"cohort:{usage.cohort.name}", None, usage.guaranteed, usage.local, usage.ceiling, usage.used)
        for usage in usages.select_related("cohort")
    ]
    return accounts + [
        Account(
            f"team:{quota.team_id}",
            f"cohort:{quota.team.cohort_name}",
            quota.nominal,
            quota.local,
            quota.ceiling,
            quota.used,
        )
        for quota in quotas
    ]
