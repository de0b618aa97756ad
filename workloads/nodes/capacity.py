"""Cluster capacity of a flavor: free room on nodes, nodes that may still come, and the cards behind shares.

Facts are the watcher's rows, so they are as old as `WatchCursor.seen_at` says. Nothing here writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from fractions import Fraction
from math import lcm
from typing import Any

from django.contrib.postgres.aggregates import JSONBAgg
from django.contrib.postgres.expressions import ArraySubquery
from django.db import connection
from django.db.models import Count, Func, IntegerField, Max, Min, OuterRef, Q, Subquery, TextField
from django.db.models.functions import Cast, JSONObject

from cluster.names import DEFAULT_CLUSTER
from workloads.models import ClaimRecord, ForeignPod, NodePoolRecord, NodeRecord, ResourceFlavor, WatchCursor
from workloads.nodes.supply import COUNT_LABEL
from workloads.placement import (
    PRODUCT_LABEL,
    FlavorFacts,
    NodeFacts,
    Sharing,
    matching_nodes,
    takes_pods,
)
from workloads.podrequests import Others, others_left, others_offered
from workloads.provisioning import NodePoolFacts, brings, remaining

CLAIM_CURSOR = "PersistentVolumeClaim"
CLAIMS_TRUSTED = timedelta(minutes=10)
"""A quiet watch moves its cursor with its bookmarks, and at the latest when the server ends it."""

Units = Mapping[tuple[str, str], int]
"""Units by the name of a node and of a resource."""


@dataclass(frozen=True)
class NodeRoom:
    """A node that may take pods of the flavor now. `free` is negative where more was bound than it offers.

    Besides units, `whole` is what pods of the portal may have of it, and `left` what of that none has.
    """

    node: str
    size: int
    free: int
    foreign: int = 0
    whole: Others = ()
    left: Others = ()


@dataclass(frozen=True)
class CardRoom:
    """Cards of one model that several flavors are cut from, in parts of a card: `parts` make one.

    A unit of the flavor takes `per_unit`, `foreign` is what pods of others hold. The caller
    subtracts what claims hold, of every flavor of the card: its `gpu_fraction` times `parts` for each unit.
    """

    card: str
    parts: int
    per_unit: int
    total: int
    foreign: int


@dataclass(frozen=True)
class Rooms:
    """`largest` is the most that one pod could ever get: of any node that exists, usable now or not, or may come.

    `hosts` are those nodes too, each kind once: how many units, and what it offers besides.
    """

    rooms: tuple[NodeRoom, ...]
    largest: int
    nodes: list[NodeFacts]
    provisionable_block: int
    provisionable_units: int
    card: CardRoom | None
    provisionable_others: Others = ()
    hosts: tuple[tuple[int, Others], ...] = ()

    @property
    def free(self) -> int:
        return sum(max(0, room.free) for room in self.rooms)

    @property
    def largest_free(self) -> int:
        return max((room.free for room in self.rooms), default=0)


@dataclass(frozen=True)
class Host:
    """A node, and the quantities of what it offers besides GPUs."""

    node: NodeFacts
    others: Mapping[str, str]


@dataclass(frozen=True)
class Seen:
    """How old what is known of the cluster is. `nodes_listed`: before that, the absence of nodes says nothing."""

    nodes_at: datetime | None
    oldest_at: datetime | None
    """Of all watches, whatever they follow."""
    nodes_listed: bool


@dataclass(frozen=True)
class Observed:
    """What is known of the cluster at one moment, read in one statement for any number of pools."""

    nodes: list[NodeFacts]
    used: Units
    foreign: Units
    pools: Sequence[NodePoolFacts]
    flavors: Sequence[FlavorFacts]
    offered: Mapping[str, Others]
    """By the name of a node with GPUs: what it has besides GPUs, used or not."""
    taken: Mapping[tuple[str, bool], Sequence[int]]
    """Of that, what pods of others (True) and of the portal (False) take there, in the order of OTHERS."""
    hosts: Sequence[Host]
    """Of nodes with GPUs, those that say what else they have."""
    seen: Seen

    def hosts_of(self, flavor: FlavorFacts, capacity_type: str) -> list[Host]:
        """As `hosts_of`, of nodes with GPUs."""
        return _matching(self.hosts, flavor, capacity_type)


def last_seen(*, cluster: str = DEFAULT_CLUSTER) -> Seen:
    """The same as in an observation, for callers that need nothing else of one."""
    of_nodes = Q(kind=NodeRecord.WATCH)
    listed = Count("pk", filter=of_nodes & Q(listed_at__isnull=False))
    seen = WatchCursor.objects.of(cluster).aggregate(
        nodes_at=Max("seen_at", filter=of_nodes), oldest_at=Min("seen_at"), listed=listed
    )
    return Seen(seen["nodes_at"], seen["oldest_at"], seen["listed"] > 0)


def nodes(*, cluster: str = DEFAULT_CLUSTER) -> list[NodeFacts]:
    """Every node that was last observed to exist, by name."""
    row = NodeRecord.objects.of(cluster).filter(gone_at__isnull=True).aggregate(nodes=_as_one())
    return [NodeFacts(**node) for node in row["nodes"]]


def nodes_beside(other: Subquery, *, cluster: str = DEFAULT_CLUSTER) -> tuple[list[NodeFacts], Any]:
    """The same, and one other value that the database has, in one query."""
    both = JSONObject(nodes=_as_one(), other=other)
    document = NodeRecord.objects.of(cluster).filter(gone_at__isnull=True).aggregate(both=both)["both"]
    return [NodeFacts(**node) for node in document["nodes"]], document["other"]


def foreign_units(resource: str, *, cluster: str = DEFAULT_CLUSTER) -> ArraySubquery:
    """Objects with a `node` and the `units` that a pod of others holds there of what a row names as `resource`; to be read
    with the row.
    """
    held = Func("requests", OuterRef(resource), function="jsonb_extract_path_text", output_field=TextField())
    pods = ForeignPod.objects.of(cluster).exclude(requests={}).annotate(units=Cast(held, IntegerField()))
    return ArraySubquery(pods.filter(units__gt=0).values(pod=JSONObject(node="node_name", units="units")))


def _as_one() -> JSONBAgg:
    """One JSON document: thousands of rows with dozens of labels cost several times more as objects."""
    columns = JSONObject(**{field.name: field.name for field in fields(NodeFacts)})
    return JSONBAgg(columns, default=[], order_by="name")


def node_pools(*, cluster: str = DEFAULT_CLUSTER) -> list[NodePoolFacts]:
    """Every Karpenter NodePool; none where the API server serves no such kind."""
    return [pool_facts(record) for record in NodePoolRecord.objects.of(cluster)]


def claims_in(
    namespace: str, *, now: datetime, cluster: str = DEFAULT_CLUSTER
) -> dict[str, ClaimRecord] | None:
    """The claims of a namespace by name; None while no watcher follows them, so that the absence of a claim
    would mean nothing.
    """
    watched = WatchCursor.objects.of(cluster).filter(kind=CLAIM_CURSOR, seen_at__gte=now - CLAIMS_TRUSTED)
    if not watched.exists():
        return None
    claims = ClaimRecord.objects.of(cluster).filter(namespace=namespace)
    return {record.name: record for record in claims.order_by("pk")}


def hosts_of(flavor: FlavorFacts | None, capacity_type: str, *, cluster: str = DEFAULT_CLUSTER) -> list[Host]:
    """What else the nodes offer on which pods of the flavor may land, usable now or not; without one, all nodes."""
    rows = NodeRecord.objects.of(cluster).filter(gone_at__isnull=True).exclude(others={})
    columns = rows.values_list("name", "labels", "allocatable", "others")
    hosts = [Host(NodeFacts(name, labels, units), others) for name, labels, units, others in columns]
    return hosts if flavor is None else _matching(hosts, flavor, capacity_type)


def _matching(hosts: Sequence[Host], flavor: FlavorFacts, capacity_type: str) -> list[Host]:
    by_name = {host.node.name: host for host in hosts}
    matching = matching_nodes(flavor, capacity_type, (host.node for host in hosts))
    return [by_name[node.name] for node in matching]


def cards_on(flavor: FlavorFacts, node: NodeFacts) -> Fraction:
    """Cards of a node that offers the flavor: as its label counts them, else what the flavor's units add up to."""
    units = node.allocatable[flavor.resource] * flavor.gpu_fraction
    count = node.labels.get(COUNT_LABEL, "")
    sliced = "-MIG-" in node.labels.get(PRODUCT_LABEL, "")
    return units if sliced or not count.isdecimal() or count == "0" else Fraction(int(count))


def pool_facts(record: NodePoolRecord) -> NodePoolFacts:
    """The row without its identity and age, so that two can be compared."""
    return NodePoolFacts(
        name=record.name,
        labels=record.labels,
        requirements=record.requirements,
        taints=record.taints,
        limits=record.limits,
        in_use=record.in_use,
    )


def pools_near(nodes: Iterable[NodeFacts]) -> set[tuple[int, str]]:
    """Flavors (primary key) and capacity types of which the nodes, or their cards, decide what can be had."""
    there = list(nodes)
    return _with_cards(lambda flavor, capacity_type: bool(matching_nodes(flavor, capacity_type, there)))


def pools_fed_by(pools: Iterable[NodePoolFacts]) -> set[tuple[int, str]]:
    """Flavors (primary key) and capacity types whose nodes one of these NodePools may bring."""
    there = list(pools)
    return _with_cards(lambda flavor, kind: any(brings(pool, flavor, kind) for pool in there))


def _with_cards(touched: Callable[[FlavorFacts, str], bool]) -> set[tuple[int, str]]:
    """The pools for which `touched` is true, and those of all flavors cut from the same cards."""
    flavors = [(flavor.pk, flavor.facts) for flavor in ResourceFlavor.objects.all()]
    pairs = {(pk, kind) for pk, facts in flavors for kind in facts.capacity if touched(facts, kind)}
    cards = {
        facts.card
        for pk, facts in flavors
        if facts.card and any((pk, kind) in pairs for kind in facts.capacity)
    }
    return pairs | {(pk, kind) for pk, facts in flavors if facts.card in cards for kind in facts.capacity}


# JSON documents of one statement: thousands of rows with dozens of labels cost several times more as objects.
OBSERVED = """
    (SELECT json_agg(json_build_array(name, labels, allocatable, ready, unschedulable, taints) ORDER BY name)
     FROM workloads_noderecord WHERE cluster = %(cluster)s AND gone_at IS NULL),
    (SELECT json_object_agg(name, others) FROM workloads_noderecord
     WHERE cluster = %(cluster)s AND gone_at IS NULL AND allocatable <> '{}'),
    (SELECT json_agg(json_build_array(node_name, is_foreign, cpu, memory, storage, pods))
     FROM (SELECT node_name, is_foreign, sum(cpu_millicores)::bigint AS cpu, sum(memory_bytes)::bigint AS memory,
                  sum(storage_bytes)::bigint AS storage, count(*) AS pods
           FROM (SELECT node_name, false AS is_foreign, cpu_millicores, memory_bytes, storage_bytes
                 FROM workloads_podrecord
                 WHERE cluster = %(cluster)s AND gone_at IS NULL AND finished_at IS NULL AND node_name <> ''
                 UNION ALL
                 SELECT node_name, true, cpu_millicores, memory_bytes, storage_bytes
                 FROM workloads_foreignpod WHERE cluster = %(cluster)s) AS p
           WHERE node_name IN (
               SELECT name FROM workloads_noderecord
               WHERE cluster = %(cluster)s AND gone_at IS NULL AND allocatable <> '{}'
           )
           GROUP BY 1, 2) AS besides),
    -- What pods of the portal hold of nodes; of whatever flavor, as several may share a resource name.
    (SELECT json_agg(json_build_array(node_name, resource, held))
     FROM (SELECT p.node_name, f.resource, sum(p.units) AS held
           FROM workloads_podrecord AS p
           JOIN workloads_workload AS w ON w.id = p.workload_id
           JOIN workloads_resourceflavor AS f ON f.id = w.flavor_id
           WHERE p.cluster = %(cluster)s AND p.gone_at IS NULL AND p.finished_at IS NULL AND p.units > 0
             AND p.node_name <> ''
           GROUP BY 1, 2) AS own),
    (SELECT json_agg(json_build_array(node_name, resource, held))
     FROM (SELECT p.node_name, r.key AS resource, sum(r.value::int) AS held
           FROM workloads_foreignpod AS p, jsonb_each_text(p.requests) AS r
           WHERE p.cluster = %(cluster)s AND p.requests <> '{}'
           GROUP BY 1, 2) AS others),
    (SELECT json_agg(json_build_array(name, labels, requirements, taints, limits, in_use) ORDER BY name)
     FROM workloads_nodepoolrecord WHERE cluster = %(cluster)s),
    (SELECT json_agg(json_build_array(name, resource, fraction_numerator, fraction_denominator, sharing, node_selector,
                                      tolerations, capacity, card) ORDER BY name)
     FROM workloads_resourceflavor),
    (SELECT max(seen_at) FROM workloads_watchcursor WHERE cluster = %(cluster)s AND kind = %(nodes)s),
    (SELECT min(seen_at) FROM workloads_watchcursor WHERE cluster = %(cluster)s),
    EXISTS (SELECT FROM workloads_watchcursor WHERE cluster = %(cluster)s AND kind = %(nodes)s AND listed_at IS NOT NULL)
"""
"""The columns that `observed_of` reads, for a statement that reads more beside them; its values are `observed_values`."""


def observed_values(cluster: str = DEFAULT_CLUSTER) -> dict[str, str]:
    """The values of `OBSERVED`, which tells of one cluster."""
    return {"cluster": cluster, "nodes": NodeRecord.WATCH}


def observe(*, cluster: str = DEFAULT_CLUSTER) -> Observed:
    """The rows of nodes, pods, node pools and flavors as they are now."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {OBSERVED}", observed_values(cluster))
        return observed_of(cursor.fetchone())


def observed_of(row: Sequence[Any]) -> Observed:
    """Like `observe`, from a row with the columns of `OBSERVED`."""
    there, offered, taken, own, others, pools, flavors, *seen = row
    nodes = [NodeFacts(*row) for row in there or ()]
    offered_of = offered or {}
    return Observed(
        nodes=nodes,
        used={(node, resource): held for node, resource, held in own or ()},
        foreign={(node, resource): held for node, resource, held in others or ()},
        pools=[
            NodePoolFacts(
                name=name, labels=labels, requirements=needs, taints=taints, limits=limits, in_use=in_use
            )
            for name, labels, needs, taints, limits, in_use in pools or ()
        ],
        flavors=[
            FlavorFacts(
                name, resource, Fraction(parts, of), Sharing(sharing), selector, tolerations, capacity, card
            )
            for name, resource, parts, of, sharing, selector, tolerations, capacity, card in flavors or ()
        ],
        offered={name: others_offered(amounts) for name, amounts in offered_of.items()},
        taken={(node, foreign): amounts for node, foreign, *amounts in taken or ()},
        hosts=[Host(node, offered_of[node.name]) for node in nodes if offered_of.get(node.name)],
        seen=Seen(*seen),
    )


def rooms_of(
    flavor: ResourceFlavor | FlavorFacts, capacity_type: str, *, known: Observed | None = None
) -> Rooms:
    """Where pods of this flavor and capacity type have room, in units of the flavor's resource.

    `known` spares the queries to a caller that asks for many pools.
    """
    facts = flavor if isinstance(flavor, FlavorFacts) else flavor.facts
    seen = observe() if known is None else known
    matching = matching_nodes(facts, capacity_type, seen.nodes)
    block, units = remaining(facts, capacity_type, matching, seen.pools)
    sizes = [node.allocatable[facts.resource] for node in matching]
    declared = facts.declared_others(capacity_type)
    hosts = {(size, seen.offered.get(node.name, ())) for size, node in zip(sizes, matching, strict=True)}
    if block:
        hosts.add((block, declared))
    return Rooms(
        rooms=tuple(
            _room(node, facts.resource, seen) for node in matching if takes_pods(facts, capacity_type, node)
        ),
        largest=max([block, *sizes]),
        nodes=seen.nodes,
        provisionable_block=block,
        provisionable_units=units,
        card=_card_room(facts, seen),
        provisionable_others=declared,
        hosts=tuple(sorted(hosts, key=repr)),
    )


def _room(node: NodeFacts, resource: str, seen: Observed) -> NodeRoom:
    size, foreign = node.allocatable[resource], seen.foreign.get((node.name, resource), 0)
    used = seen.used.get((node.name, resource), 0)
    whole = others_left(seen.offered.get(node.name, ()), seen.taken.get((node.name, True)))
    return NodeRoom(
        node=node.name,
        size=size,
        free=size - used - foreign,
        foreign=foreign,
        whole=whole,
        left=others_left(whole, seen.taken.get((node.name, False))),
    )


def _card_room(facts: FlavorFacts, seen: Observed) -> CardRoom | None:
    """The room of the flavor's cards; None if no other flavor is cut from them: then the nodes' rooms suffice."""
    flavors = [flavor for flavor in seen.flavors if flavor.card == facts.card]
    if not facts.card or len(flavors) < 2:
        return None
    parts = lcm(*(flavor.gpu_fraction.denominator for flavor in flavors))
    offered: dict[str, dict[str, int]] = defaultdict(dict)
    total = foreign = 0
    for flavor in flavors:
        per_unit = int(flavor.gpu_fraction * parts)
        for capacity_type in flavor.capacity:
            matching = matching_nodes(flavor, capacity_type, seen.nodes)
            total += per_unit * remaining(flavor, capacity_type, matching, seen.pools)[1]
            for node in matching:
                offered[node.name][flavor.resource] = per_unit
    for node in seen.nodes:
        if node.name in offered:
            held = offered[node.name]
            total += _parts_of(node, held, parts)
            foreign += sum(units * seen.foreign.get((node.name, name), 0) for name, units in held.items())
    return CardRoom(facts.card, parts, int(facts.gpu_fraction * parts), total, foreign)


def _parts_of(node: NodeFacts, offered: Mapping[str, int], parts: int) -> int:
    """The node's cards in parts: as its label counts them, else what its units add up to."""
    units = sum(per_unit * node.allocatable[resource] for resource, per_unit in offered.items())
    count = node.labels.get(COUNT_LABEL, "")
    # Under MIG strategy `single` the label counts slices: there are never more cards than units of one name.
    sliced = "-MIG-" in node.labels.get(PRODUCT_LABEL, "")
    return units if sliced or not count.isdecimal() else int(count) * parts
