"""The queries that read pools: as many statements for many pools, teams and workloads as for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from budgets.sql import OVERRIDES, PERIOD_END
from quotas import ceilings
from workloads.nodes.capacity import OBSERVED

_POOLS = "unnest(%(flavors)s::bigint[], %(capacities)s::text[]) AS pool (flavor_id, capacity_type)"
_WAITER = """pool.flavor_id, pool.capacity_type,
       w.public_id::text, t.slug, w.name, w.owner_id::text, w.kind, w.units, w.units_each, w.pod_count, w.priority,
       floor(extract(epoch FROM w.queued_at))::bigint, w.id,
       w.time_limit_seconds, w.used_seconds, w.preemptible, w.cpu_each, w.memory_each, w.storage_each, json_build_array(w.cpu_most, w.memory_most, w.storage_most, w.pods_most), w.reason, CASE WHEN %(telling)s THEN w.message ELSE '' END"""
_QUEUED = """w.flavor_id = pool.flavor_id AND w.capacity_type = pool.capacity_type AND w.phase = 'Queued' AND w.desired = 'run'
  AND w.id <> %(without)s"""
# Which waiters keep those behind waiting: counted, shown and placed by the same words, so that the three agree.
_IN_LINE = f"""{_QUEUED}
  AND w.reason <> ALL (%(out)s) AND (w.rests_until IS NULL OR w.rests_until <= %(now)s)"""

_LINE = f"""
SELECT json_agg(json_build_array({_WAITER}))
FROM asked AS pool
CROSS JOIN LATERAL (SELECT team_id AS id, CASE WHEN user_limit IS NULL THEN %(window)s ELSE %(wide)s END AS width
                    FROM quotas_quota
                    WHERE flavor_id = pool.flavor_id AND capacity_type = pool.capacity_type) AS q
JOIN teams_team AS t ON t.id = q.id
CROSS JOIN (VALUES ('high'), ('normal'), ('low')) AS p (name)
CROSS JOIN LATERAL (
    SELECT *, row_number() OVER (ORDER BY w.queued_at, w.id) AS place FROM workloads_workload AS w
    WHERE {_IN_LINE} AND w.team_id = q.id AND w.priority = p.name
    ORDER BY w.queued_at, w.id LIMIT q.width * (%(turn)s + 1)
) AS w
WHERE w.place <= %(head)s OR w.place > q.width * %(turn)s
"""  # noqa: S608 (the parts are constants)

BESIDE = f"""
SELECT {_WAITER}
FROM {_POOLS} CROSS JOIN workloads_workload AS w JOIN teams_team AS t ON t.id = w.team_id
WHERE {_QUEUED}
  AND w.reason = ANY (%(out)s)
ORDER BY w.queued_at, w.id LIMIT %(most)s
"""  # noqa: S608 (the parts are constants)

COUNTS = f"""
SELECT n.flavor_id, n.capacity_type, t.slug, n.priority, n.count, n.units
FROM (SELECT pool.flavor_id, pool.capacity_type, w.team_id, w.priority, count(*), sum(w.units) AS units
      FROM {_POOLS} CROSS JOIN workloads_workload AS w
      WHERE {_IN_LINE} GROUP BY 1, 2, 3, 4) AS n
JOIN teams_team AS t ON t.id = n.team_id
"""  # noqa: S608 (the parts are constants)

BEFORE = f"""
SELECT count(*)
FROM {_POOLS} CROSS JOIN workloads_workload AS w
WHERE {_IN_LINE}
  AND w.team_id = %(team)s AND w.priority = %(priority)s AND (w.queued_at, w.id) < (%(queued_at)s, %(id)s)
"""  # noqa: S608 (the parts are constants)

_HOLDERS = """
SELECT json_agg(json_build_array(
       pool.flavor_id, pool.capacity_type, c.reserved_at, a.started_at, k.at, r.at,
       w.public_id, w.name, t.slug, w.owner_id, w.kind, c.units, w.units_each, w.pod_count, w.priority, w.preemptible,
       w.time_limit_seconds, w.used_seconds, c.lent, c.purpose,
       w.phase = 'Stopping' AND w.stopping_to <> 'Admitted' OR EXISTS (
           SELECT FROM quotas_preemption AS x LEFT JOIN quotas_claim AS y ON y.id = x.claim_id
           WHERE x.workload_id = w.id AND x.ended_at IS NULL AND y.state IS DISTINCT FROM 'released'
       ),
       r.estimated_remaining_seconds, n.placed, n.seen, w.cpu_each, w.memory_each, w.storage_each,
       json_build_array(c.cpu, c.memory, c.storage, c.pods)
) ORDER BY c.id)
FROM asked AS pool
JOIN quotas_quota AS q ON q.flavor_id = pool.flavor_id AND q.capacity_type = pool.capacity_type
JOIN quotas_claim AS c ON c.quota_id = q.id
JOIN workloads_workload AS w ON w.id = c.workload_id
JOIN teams_team AS t ON t.id = w.team_id
LEFT JOIN workloads_attempt AS a ON a.workload_id = w.id AND a.ended_at IS NULL
LEFT JOIN LATERAL (SELECT at FROM workloads_checkpoint WHERE workload_id = w.id AND attempt = a.number
                   ORDER BY id DESC LIMIT 1) AS k ON true
LEFT JOIN LATERAL (SELECT estimated_remaining_seconds, at FROM workloads_progressreport
                   WHERE workload_id = w.id AND attempt = a.number) AS r ON true
LEFT JOIN LATERAL (
    SELECT json_agg(json_build_array(node_name, units, cpu, memory, storage, pods) ORDER BY node_name)
               FILTER (WHERE alive) AS placed,
           sum(pods) FILTER (WHERE units > 0) AS seen
    FROM (SELECT node_name, gone_at IS NULL AND finished_at IS NULL AS alive, sum(units) AS units, count(*) AS pods,
                 sum(cpu_millicores)::bigint AS cpu, sum(memory_bytes)::bigint AS memory,
                 sum(storage_bytes)::bigint AS storage
          FROM workloads_podrecord
          WHERE workload_id = w.id AND node_name <> ''
            AND CASE WHEN w.kind = ANY(%(ending)s::text[]) THEN attempt = a.number ELSE gone_at IS NULL END
          GROUP BY 1, 2) AS by_node
) AS n ON true
WHERE c.state <> 'released'
"""

_HISTORY = """
SELECT json_object_agg(slug, share)
FROM (SELECT t.slug, percentile_cont(0.5) WITHIN GROUP (
          ORDER BY least(1.0, w.used_seconds::float / w.time_limit_seconds)
      ) AS share
      FROM teams_team AS t
      CROSS JOIN unnest(%(ending)s::text[]) AS ending (kind)
      CROSS JOIN LATERAL (
          SELECT used_seconds, time_limit_seconds FROM workloads_workload
          WHERE team_id = t.id AND kind = ending.kind AND phase = 'Succeeded' AND time_limit_seconds > 0
          ORDER BY created_at DESC, id DESC LIMIT %(runs)s
      ) AS w
      WHERE t.id IN (SELECT team_id FROM quotas_quota
                     WHERE flavor_id = pool.flavor_id AND capacity_type = pool.capacity_type)
      GROUP BY t.slug) AS h
"""

CLOSING = "the team is being closed"
"""Why the queue of a team is stopped that takes nothing new."""
_OWN = "SELECT %(flavor)s::bigint AS flavor_id, %(capacity)s::text AS capacity_type, 0 AS place"
# The largest others in which the team has a quota.
_OTHERS = """
SELECT q.flavor_id, q.capacity_type, row_number() OVER (ORDER BY q.ceiling DESC, q.id) AS place
FROM quotas_quota AS q JOIN workloads_resourceflavor AS f ON f.id = q.flavor_id AND f.enabled
WHERE q.team_id = %(team)s AND q.ceiling > 0 AND (q.flavor_id, q.capacity_type) <> (%(flavor)s, %(capacity)s)
ORDER BY q.ceiling DESC, q.id LIMIT %(others)s
"""

# A team's budget now, and what of it is spent or promised; nothing in a period that nobody has opened yet.
_BUDGET = f"""
SELECT json_build_array(b.amount_micro_usd + {OVERRIDES}, coalesce(n.committed_micro_usd, 0),
    floor(extract(epoch FROM {PERIOD_END}))::bigint, b.period = 'month')
FROM costs_budget AS b
LEFT JOIN costs_budgetperiod AS n ON n.budget_id = b.id AND n.starts_at <= %(now)s AND n.ends_at > %(now)s
WHERE b.team_id = t.id AND (b.starts_at IS NULL OR b.starts_at <= %(now)s) AND (b.ends_at IS NULL OR b.ends_at > %(now)s)
"""  # noqa: S608 (the parts are constants)
# What a card costs from now on; nobody asks where no team has a budget.
_PRICES = """
SELECT json_agg(json_build_array(floor(extract(epoch FROM p.valid_from))::bigint,
    floor(extract(epoch FROM p.valid_until))::bigint, p.micro_usd_per_card_hour) ORDER BY p.valid_from)
FROM costs_price AS p JOIN costs_pricedcard AS c ON c.id = p.priced_id
WHERE c.card = f.card AND c.capacity_type = pool.capacity_type AND (p.valid_until IS NULL OR p.valid_until > %(now)s)
    AND EXISTS (SELECT FROM costs_budget)
"""

_BOOKS = f"""
SELECT json_agg(json_build_array(pool.flavor_id, pool.capacity_type, f.name,
    (SELECT p.revision FROM quotas_pool AS p
     WHERE p.flavor_id = pool.flavor_id AND p.capacity_type = pool.capacity_type),
    (SELECT json_build_array(s.minimum_run_seconds, s.grace_seconds, s.fair_share_half_life_hours, {ceilings.OWN})
     FROM foundation_platformsettings AS s WHERE s.id = 1),
    (SELECT json_agg(json_build_array(c.name, coalesce(a.name, ''), u.guaranteed, u.local, u.ceiling, u.used)
                     ORDER BY c.id)
     FROM quotas_cohortusage AS u
     JOIN quotas_cohort AS c ON c.id = u.cohort_id
     LEFT JOIN quotas_cohort AS a ON a.id = c.parent_id
     WHERE u.flavor_id = pool.flavor_id AND u.capacity_type = pool.capacity_type),
    (SELECT json_agg(json_build_array(
         q.id, t.slug, t.cohort_name, q.nominal, q.local, q.ceiling, q.used, q.headroom - q.lent_headroom,
         q.user_limit, q.max_time_limit_seconds, q.decayed_use, extract(epoch FROM q.decayed_at),
         coalesce(p.weight, 1),
         CASE WHEN t.closing_since IS NOT NULL THEN '{CLOSING}'
              WHEN p.queue_stopped_at IS NULL THEN '' ELSE p.queue_stop_reason END,
         {ceilings.OWN}, held.amounts, ({_BUDGET})
     ) ORDER BY t.id)
     FROM quotas_quota AS q
     JOIN teams_team AS t ON t.id = q.team_id
     LEFT JOIN quotas_teampolicy AS p ON p.team_id = t.id
     LEFT JOIN held ON held.team_id = t.id
     WHERE q.flavor_id = pool.flavor_id AND q.capacity_type = pool.capacity_type),
    -- What is claimed of the flavor's cards, by whichever flavor is cut from them.
    (SELECT json_agg(json_build_array(fraction_numerator, fraction_denominator, used))
     FROM (SELECT o.fraction_numerator, o.fraction_denominator, sum(q.used) AS used
           FROM quotas_quota AS q JOIN workloads_resourceflavor AS o ON o.id = q.flavor_id
           WHERE o.card = f.card AND q.used > 0 GROUP BY 1, 2) AS cards),
    CASE WHEN %(history)s THEN ({_HISTORY}) END,
    ({_PRICES})
) ORDER BY pool.place)
FROM asked AS pool
JOIN workloads_resourceflavor AS f ON f.id = pool.flavor_id
"""  # noqa: S608 (the parts are constants)

# What each team holds of its ceilings, in all pools and without GPUs.
_HELD = (
    f"SELECT team_id, {ceilings.HELD} AS amounts FROM quotas_claim WHERE state <> 'released' GROUP BY team_id"  # noqa: S608
)

# Everything that a judgement looks at, as of one moment: books, line and holders as JSON documents, and the cluster.
POOLS = f"""
WITH asked AS MATERIALIZED ({_OWN} UNION ALL ({_OTHERS})), held AS MATERIALIZED ({_HELD})
SELECT ({_BOOKS}), ({_LINE}), ({_HOLDERS}), {OBSERVED}
"""
# Books, line and holders of the others alone, for a caller that has the pool itself and the cluster already.
OTHERS = f"""
WITH asked AS MATERIALIZED ({_OTHERS}), held AS MATERIALIZED ({_HELD})
SELECT ({_BOOKS}), ({_LINE}), ({_HOLDERS})
"""


CohortRow = tuple[str, str, int, int, int, int]
"""Name, parent, guaranteed, local, ceiling and used."""


@dataclass(frozen=True, slots=True)
class BookRow:
    """One of the books of POOLS: a pool. A part that it has none of is None."""

    flavor_id: int
    capacity_type: str
    flavor: str
    revision: int | None
    settings: tuple[int, int, int, Sequence[int | None]] | None
    cohorts: Sequence[CohortRow] | None
    quotas: Sequence[Sequence[Any]] | None
    on_card: Sequence[tuple[int, int, int]] | None
    history: Mapping[str, float] | None
    prices: Sequence[tuple[int, int | None, int]] | None


@dataclass(frozen=True, slots=True)
class WaiterRow:
    """One of the line of POOLS or of BESIDE, behind its pool."""

    public_id: str
    team: str
    name: str
    owner: str
    kind: str
    units: int
    units_each: int
    pods: int
    priority: str
    queued_at: int
    key: int
    limit: int | None
    used: int
    preemptible: bool
    cpu_each: int
    memory_each: int
    storage_each: int
    most: Sequence[int]
    """What all its pods ask for: millicores, bytes of memory and of storage, and pods."""
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One quota of the books."""

    id: int
    team: str
    cohort: str
    nominal: int
    local: int
    ceiling: int
    used: int
    lendable: int
    user_limit: int | None
    max_time_limit_seconds: int | None
    decayed_use: float
    decayed_at: float | None
    weight: int
    stopped: str
    ceilings: Sequence[int | None]
    """Its own, as the columns have them."""
    held: Sequence[int] | None
    """What it holds of them wherever; None for nothing."""
    budget: tuple[int, int, int, bool] | None
    """Its amount, what of it is committed, when its period ends, and whether another follows."""


MOMENTS = 4
"""How many columns of a holder are moments."""


@dataclass(frozen=True, slots=True)
class HeldRow:
    """One of the holders of POOLS, behind its pool. Its moments come first: JSON has them as text."""

    reserved_at: datetime
    started_at: datetime | None
    saved_at: datetime | None
    reported_at: datetime | None
    public_id: str
    name: str
    team: str
    owner_id: int
    kind: str
    units: int
    units_each: int
    pods: int
    priority: str
    preemptible: bool
    limit: int | None
    used: int
    lent: bool
    purpose: str
    leaving: bool
    remaining: int | None
    placed: Sequence[tuple[str, int, int, int, int, int]] | None
    """Nodes with units, millicores, bytes of memory and of storage, and pods."""
    seen: int | None
    cpu_each: int
    memory_each: int
    storage_each: int
    most: Sequence[int]
    """What the claim holds of its team's ceilings."""
