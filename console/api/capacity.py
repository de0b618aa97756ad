"""What the cluster offers: units of each flavor, how many are held and how they lie, and each node with its GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Sum

from quotas.models import Quota
from workloads.models import ResourceFlavor
from workloads.nodes.capacity import Observed, Rooms, observe, rooms_of
from workloads.placement import PRODUCT_LABEL, NodeFacts, matching_nodes


@dataclass(frozen=True)
class FlavorCapacity:
    flavor: str
    capacity: str
    nodes: int
    units: int
    claimed: int
    largest_block: int
    free: int
    largest_free_block: int
    foreign: int
    provisionable: int
    provisionable_block: int

    @property
    def fragmentation(self) -> float | None:
        """The share of what is free that lies outside the largest block; None where nothing is free."""
        return None if not self.free else 1 - self.largest_free_block / self.free

    @property
    def words(self) -> str:
        """What is free, and how much of it one pod could get."""
        return f"{self.free} free, largest usable block {self.largest_free_block}"


@dataclass(frozen=True)
class NodeUnits:
    """What a node offers of one resource, and who holds it: `free` is negative where more is bound than it offers."""

    resource: str
    flavors: tuple[str, ...]
    units: int
    held: int
    foreign: int
    free: int


@dataclass(frozen=True)
class NodeRow:
    """One node with GPUs."""

    name: str
    product: str
    ready: bool
    schedulable: bool
    resources: tuple[NodeUnits, ...]


def nodes(known: Observed | None = None) -> list[NodeRow]:
    """Every node that offers GPUs or slices that a flavor names, by name; in one query, none if it is `known`."""
    known = observe() if known is None else known
    named: dict[str, set[str]] = {flavor.resource: set() for flavor in known.flavors}
    matching: dict[str, dict[str, set[str]]] = {}
    for flavor in known.flavors:
        for kind in flavor.capacity:
            for node in matching_nodes(flavor, kind, known.nodes):
                by_resource = matching.setdefault(node.name, {})
                by_resource.setdefault(flavor.resource, set()).add(flavor.name)
    rows = []
    for node in known.nodes:
        offered = tuple(
            _units_of(node, resource, matching.get(node.name, {}).get(resource, set()), known)
            for resource in sorted(node.allocatable)
            if resource in named and node.allocatable[resource] > 0
        )
        if offered:
            product = node.labels.get(PRODUCT_LABEL, "")
            rows.append(NodeRow(node.name, product, node.ready, not node.unschedulable, offered))
    return rows


def _units_of(node: NodeFacts, resource: str, flavors: set[str], known: Observed) -> NodeUnits:
    place = (node.name, resource)
    units, held, foreign = node.allocatable[resource], known.used.get(place, 0), known.foreign.get(place, 0)
    return NodeUnits(resource, tuple(sorted(flavors)), units, held, foreign, units - held - foreign)


def capacity(
    known: Observed | None = None, *, flavors: Sequence[ResourceFlavor] | None = None
) -> list[FlavorCapacity]:
    """One row for each enabled flavor and capacity type, in three queries; without one for what the caller has read: nodes
    that are `known`, and the `flavors`.
    """
    known = observe() if known is None else known
    there = ResourceFlavor.objects.filter(enabled=True) if flavors is None else flavors
    held = {
        (row["flavor"], row["capacity_type"]): row["held"]
        for row in Quota.objects.order_by().values("flavor", "capacity_type").annotate(held=Sum("used"))
    }
    return [
        _row(flavor, kind, rooms_of(flavor, kind, known=known), held.get((flavor.pk, kind), 0))
        for flavor in there
        for kind in sorted(flavor.capacity)
    ]


def _row(flavor: ResourceFlavor, capacity_type: str, rooms: Rooms, claimed: int) -> FlavorCapacity:
    return FlavorCapacity(
        flavor=flavor.name,
        capacity=capacity_type,
        nodes=len(rooms.rooms),
        units=sum(room.size for room in rooms.rooms),
        claimed=claimed,
        largest_block=rooms.largest,
        free=rooms.free,
        largest_free_block=max(0, rooms.largest_free),
        foreign=sum(room.foreign for room in rooms.rooms),
        provisionable=rooms.provisionable_units,
        provisionable_block=rooms.provisionable_block,
    )
