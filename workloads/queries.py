"""What the cluster has of a flavor: rooms of nodes, nodes that may still come, and the cards behind shares.

Facts are the watcher's rows, so they are as old as `WatchCursor.seen_at` says. Nothing here writes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import lcm

from django.db.models import F, Sum

from workloads.models import ForeignPod, NodePoolRecord, NodeRecord, PodRecord, ResourceFlavor
from workloads.placement import PRODUCT_LABEL, FlavorFacts, NodeFacts, matching_nodes, takes_pods
from workloads.provisioning import NodePoolFacts, brings, remaining

COUNT_LABEL = "nvidia.com/gpu.count"

Units = Mapping[tuple[str, str], int]
"""Units by the name of a node and of a resource."""


@dataclass(frozen=True)
class Room:
    """A node that may take pods of the flavor now. `free` is negative where more was bound than it offers."""

    node: str
    size: int
    free: int
    foreign: int = 0


@dataclass(frozen=True)
class CardRoom:
    """Cards of one model that several flavors are cut from, in parts of a card: `parts` make one.

    A unit of the flavor takes `per_unit`, `foreign` is what pods of others hold. What claims hold is for the caller
    to subtract, of every flavor of the card: its `gpu_fraction` times `parts` for each unit.
    """

    card: str
    parts: int
    per_unit: int
    total: int
    foreign: int


@dataclass(frozen=True)
class Rooms:
    """`largest` is the most that one pod could ever get: of any node that exists, usable now or not, or may come."""

    rooms: tuple[Room, ...]
    largest: int
    nodes: list[NodeFacts]
    provisionable_block: int
    provisionable_units: int
    card: CardRoom | None

    @property
    def free(self) -> int:
        return sum(max(0, room.free) for room in self.rooms)

    @property
    def largest_free(self) -> int:
        return max((room.free for room in self.rooms), default=0)


@dataclass(frozen=True)
class Observed:
    """What is known of the cluster at one moment, read in five queries for any number of pools."""

    nodes: list[NodeFacts]
    used: Units
    foreign: Units
    pools: Sequence[NodePoolFacts]
    flavors: Sequence[FlavorFacts]


def nodes() -> list[NodeFacts]:
    """Every node that was last observed to exist, by name."""
    return [record.facts for record in NodeRecord.objects.filter(gone_at__isnull=True)]


def node_pools() -> list[NodePoolFacts]:
    """Every Karpenter NodePool; none where the API server serves no such kind."""
    return [pool_facts(record) for record in NodePoolRecord.objects.all()]


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
    """What is touched, and whatever else is cut from the same cards."""
    flavors = [(flavor.pk, flavor.facts) for flavor in ResourceFlavor.objects.all()]
    found = {(pk, kind) for pk, facts in flavors for kind in facts.capacity if touched(facts, kind)}
    cards = {
        facts.card
        for pk, facts in flavors
        if facts.card and any((pk, kind) in found for kind in facts.capacity)
    }
    return found | {(pk, kind) for pk, facts in flavors if facts.card in cards for kind in facts.capacity}


def observe() -> Observed:
    """The rows of nodes, pods, node pools and flavors as they are now."""
    return Observed(
        nodes=nodes(),
        used=_used(),
        foreign=_foreign(),
        pools=node_pools(),
        flavors=[flavor.facts for flavor in ResourceFlavor.objects.all()],
    )


def rooms_of(flavor: ResourceFlavor, capacity_type: str, *, known: Observed | None = None) -> Rooms:
    """Where pods of this flavor and capacity type have room, in units of the flavor's resource.

    `known` spares the queries to who asks of many pools.
    """
    facts = flavor.facts
    seen = observe() if known is None else known
    matching = matching_nodes(facts, capacity_type, seen.nodes)
    block, units = remaining(facts, capacity_type, matching, seen.pools)
    return Rooms(
        rooms=tuple(_room(node, facts.resource, seen) for node in matching if takes_pods(facts, node)),
        largest=max([block, *(node.allocatable[facts.resource] for node in matching)]),
        nodes=seen.nodes,
        provisionable_block=block,
        provisionable_units=units,
        card=_card_room(facts, seen),
    )


def _room(node: NodeFacts, resource: str, seen: Observed) -> Room:
    size, foreign = node.allocatable[resource], seen.foreign.get((node.name, resource), 0)
    used = seen.used.get((node.name, resource), 0)
    return Room(node=node.name, size=size, free=size - used - foreign, foreign=foreign)


def _used() -> dict[tuple[str, str], int]:
    """What pods of the portal hold of nodes; of whatever flavor, as several may share a resource name."""
    holding = PodRecord.objects.filter(gone_at__isnull=True, finished_at__isnull=True, units__gt=0)
    sums = (
        holding.exclude(node_name="")
        .order_by()
        .values("node_name", resource=F("workload__flavor__resource"))
        .annotate(held=Sum("units"))
    )
    return {(row["node_name"], row["resource"]): row["held"] for row in sums}


def _foreign() -> dict[tuple[str, str], int]:
    held: dict[tuple[str, str], int] = defaultdict(int)
    for node, requests in ForeignPod.objects.values_list("node_name", "requests"):
        for resource, units in requests.items():
            held[node, resource] += int(units)
    return dict(held)


def _card_room(facts: FlavorFacts, seen: Observed) -> CardRoom | None:
    """None where no other flavor is cut from the same card: then the rooms say all."""
    flavors = [each for each in seen.flavors if each.card == facts.card]
    if not facts.card or len(flavors) < 2:
        return None
    parts = lcm(*(each.gpu_fraction.denominator for each in flavors))
    offered: dict[str, dict[str, int]] = defaultdict(dict)
    total = foreign = 0
    for each in flavors:
        per_unit = int(each.gpu_fraction * parts)
        for capacity_type in each.capacity:
            matching = matching_nodes(each, capacity_type, seen.nodes)
            total += per_unit * remaining(each, capacity_type, matching, seen.pools)[1]
            for node in matching:
                offered[node.name][each.resource] = per_unit
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
