"""What the capacity map is drawn from, read in one statement, or in two where it was observed already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from cluster.names import DEFAULT_CLUSTER
from workloads.nodes.capacity import OBSERVED, Observed, observed_of, observed_values

BESIDES = """
    (SELECT json_agg(json_build_array(name, capacity, conditions))
     FROM workloads_noderecord
     WHERE cluster = %(cluster)s AND gone_at IS NULL AND (conditions <> '[]' OR capacity <> allocatable)),
    (SELECT json_agg(json_build_array(node_name, resource, held))
     FROM (SELECT p.node_name, f.resource, sum(p.units) AS held
           FROM workloads_podrecord AS p
           JOIN workloads_workload AS w ON w.id = p.workload_id
           JOIN workloads_resourceflavor AS f ON f.id = w.flavor_id
           WHERE p.cluster = %(cluster)s AND p.gone_at IS NULL AND p.finished_at IS NULL AND p.units > 0
             AND p.node_name <> '' AND w.team_id = ANY (%(teams)s)
           GROUP BY 1, 2) AS mine),
    (SELECT json_agg(json_build_array(flavor, capacity_type, runs, units))
     FROM (SELECT f.name AS flavor, w.capacity_type, count(*) AS runs, sum(w.units) AS units
           FROM workloads_workload AS w JOIN workloads_resourceflavor AS f ON f.id = w.flavor_id
           WHERE w.phase = 'Queued' AND w.desired = 'run' AND w.units > 0
           GROUP BY 1, 2) AS waits)
"""
"""Of nodes: what is not as it should be, and units of the person's teams. Of flavors: what waits."""


@dataclass(frozen=True)
class MapFacts:
    """The cluster as it was observed, and what the map says beside that."""

    observed: Observed
    capacity: Mapping[str, Mapping[str, int]]
    """By the name of a node, units that it has, usable or not; of nodes that offer all they have, nothing."""
    conditions: Mapping[str, Sequence[Mapping[str, Any]]]
    """By the name of a node, those that are not as they should be."""
    mine: Mapping[tuple[str, str], int]
    """Units that pods of the person's teams hold, by node and resource."""
    waiting: Mapping[tuple[str, str], tuple[int, int]]
    """Workloads and units in the queue, by flavor and capacity type."""


def cluster_facts(
    teams: Sequence[int], *, observed: Observed | None = None, cluster: str = DEFAULT_CLUSTER
) -> MapFacts:
    """The facts, with the units of these teams apart. `observed` spares reading it again."""
    columns = BESIDES if observed is not None else f"{OBSERVED}, {BESIDES}"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {columns}", {**observed_values(cluster), "teams": list(teams)})
        *first, besides, mine, waits = cursor.fetchone()
    seen = observed_of(first) if observed is None else observed
    return MapFacts(
        observed=seen,
        capacity={name: amounts for name, amounts, _ in besides or ()},
        conditions={name: found for name, _, found in besides or () if found},
        mine={(node, resource): held for node, resource, held in mine or ()},
        waiting={(flavor, kind): (runs, units) for flavor, kind, runs, units in waits or ()},
    )
