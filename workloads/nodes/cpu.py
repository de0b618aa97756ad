"""Nodes as seen by pods that ask for no GPU: whatever their flavor, they land wherever taints let them.

Facts are the watcher's rows, as in `workloads.nodes.capacity`. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, QuerySet, Sum
from django.db.models.fields.json import KT

from cluster.names import DEFAULT_CLUSTER
from workloads.models import ForeignPod, NodePoolRecord, NodeRecord, PodRecord, ResourceFlavor
from workloads.nodes.capacity import last_seen
from workloads.placement import NodeFacts, stays_away, takes_plain_pods
from workloads.podrequests import OTHERS, Others, others_left, others_offered

_OFFERED = [KT(f"others__{name}") for name in OTHERS]


@dataclass(frozen=True)
class PlainRoom:
    """A node that may take such pods now: what it has for pods of the portal, and what of that is left."""

    node: str
    whole: Others
    left: Others


@dataclass(frozen=True)
class PlainRooms:
    """`kinds` are the offers of nodes on which such pods could ever land, usable now or not, without repeats; they
    include what flavors declare.

    `more` says whether nodes of unknown size may come, `seen` whether anything is known at all.
    """

    rooms: tuple[PlainRoom, ...]
    kinds: tuple[Others, ...]
    more: bool
    seen: bool


def plain_rooms(*, cluster: str = DEFAULT_CLUSTER) -> PlainRooms:
    """Every node that such pods may land on, as it is now; five short queries."""
    there = _nodes(cluster)
    pods = PodRecord.objects.of(cluster).filter(gone_at__isnull=True, finished_at__isnull=True)
    foreign, own = _taken(ForeignPod.objects.of(cluster)), _taken(pods.exclude(node_name=""))
    rooms = []
    for node, offers in there:
        if takes_plain_pods(node):
            whole = others_left(offers, foreign.get(node.name))
            rooms.append(PlainRoom(node.name, whole, others_left(whole, own.get(node.name))))
    declared = _declared()
    kinds = [offers for node, offers in there if not stays_away(node.taints)]
    return PlainRooms(
        rooms=tuple(rooms),
        kinds=_sorted([*kinds, *declared]),
        more=_pools_bring_some(cluster),
        seen=bool(there) or last_seen(cluster=cluster).nodes_listed,
    )


def _nodes(cluster: str) -> list[tuple[NodeFacts, Others]]:
    """Those that exist, without their labels, which no such pod asks for; and what each offers."""
    rows = NodeRecord.objects.of(cluster).filter(gone_at__isnull=True).order_by()
    columns = rows.values_list("name", "ready", "unschedulable", "taints", *_OFFERED)
    return [
        (NodeFacts(name, {}, {}, ready, cordoned, taints), _others(amounts))
        for name, ready, cordoned, taints, *amounts in columns
    ]


def kinds_of_the_past(*, cluster: str = DEFAULT_CLUSTER) -> tuple[Others, ...]:
    """What deleted nodes offered: with a node autoscaler, a similar node may come again."""
    gone = (
        NodeRecord.objects.of(cluster)
        .filter(gone_at__isnull=False)
        .order_by()
        .values_list("taints", *_OFFERED)
    )
    return _sorted(_others(amounts) for taints, *amounts in gone.distinct() if not stays_away(taints))


def _pools_bring_some(cluster: str) -> bool:
    """Whether Karpenter may make a node for such a pod."""
    pools = NodePoolRecord.objects.of(cluster)
    return any(not stays_away(taints) for taints in pools.values_list("taints", flat=True))


def _declared() -> list[Others]:
    """What declared nodes of flavors have; only nodes of flavors without tolerations are known to have no taints."""
    return [
        facts.declared_others(capacity_type)
        for facts in (flavor.facts for flavor in ResourceFlavor.objects.filter(enabled=True, tolerations=[]))
        for capacity_type in facts.capacity
        if facts.declared_block(capacity_type)
    ]


def _taken(pods: QuerySet[Any]) -> dict[str, tuple[int, ...]]:
    """The pods' use of each node, by node name and in the order of OTHERS."""
    sums = pods.order_by().values_list("node_name")
    sums = sums.annotate(Sum("cpu_millicores"), Sum("memory_bytes"), Sum("storage_bytes"), Count("pk"))
    return {node: tuple(map(int, amounts)) for node, *amounts in sums}


def _others(amounts: Iterable[str | None]) -> Others:
    return others_offered(dict(zip(OTHERS, amounts, strict=True)))


def _sorted(kinds: Iterable[Others]) -> tuple[Others, ...]:
    return tuple(sorted(set(kinds), key=repr))
