"""What the cluster offers of each flavor, and how much of it is held."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Sum

from quotas.models import Quota
from quotas.queries import nodes
from workloads.models import ResourceFlavor
from workloads.placement import largest_block, matches


@dataclass(frozen=True)
class FlavorCapacity:
    flavor: str
    capacity: str
    nodes: int
    units: int
    claimed: int
    largest_block: int


def capacity() -> list[FlavorCapacity]:
    """One row for each enabled flavor and capacity type, in three queries."""
    observed = nodes()
    held = {
        (row["flavor"], row["capacity_type"]): row["held"]
        for row in Quota.objects.values("flavor", "capacity_type").annotate(held=Sum("used"))
    }
    rows = []
    for flavor in ResourceFlavor.objects.filter(enabled=True):
        facts = flavor.facts
        for capacity_type in sorted(flavor.capacity):
            usable = [
                node
                for node in observed
                if node.ready and not node.unschedulable and matches(facts, capacity_type, node)
            ]
            rows.append(
                FlavorCapacity(
                    flavor=flavor.name,
                    capacity=capacity_type,
                    nodes=len(usable),
                    units=sum(node.allocatable[flavor.resource] for node in usable),
                    claimed=held.get((flavor.pk, capacity_type), 0),
                    largest_block=largest_block(facts, capacity_type, observed),
                )
            )
    return rows
