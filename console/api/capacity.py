"""How many units of each flavor the cluster offers, and how many are held."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Sum

from quotas.models import Quota
from workloads.models import ResourceFlavor
from workloads.node_capacity import Rooms, observe, rooms_of


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


def capacity() -> list[FlavorCapacity]:
    """One row for each enabled flavor and capacity type, in three queries."""
    known = observe()
    held = {
        (row["flavor"], row["capacity_type"]): row["held"]
        for row in Quota.objects.order_by().values("flavor", "capacity_type").annotate(held=Sum("used"))
    }
    return [
        _row(flavor, kind, rooms_of(flavor, kind, known=known), held.get((flavor.pk, kind), 0))
        for flavor in ResourceFlavor.objects.filter(enabled=True)
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
