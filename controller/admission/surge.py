"""Whether quota and nodes have room for the extra pod that a surge rollout needs."""

from __future__ import annotations

from dataclasses import dataclass

from quotas.queries import team_quotas
from teams.models import Team
from workloads.models import ResourceFlavor
from workloads.nodes.capacity import rooms_of
from workloads.podrequests import Others, has_beside


@dataclass(frozen=True)
class SurgeRoom:
    """Quota and node capacity available for one more pod of `units`. Numbers are units of the flavor.

    `limit` and `available` are None where the team has no quota; `available` includes what may be borrowed.
    """

    units: int
    flavor: str
    capacity_type: str
    used: int
    limit: int | None
    available: int | None
    largest_free: int
    provisionable: int
    nodes: int

    @property
    def granted(self) -> bool:
        return self.available is not None and self.available >= self.units

    @property
    def placeable(self) -> bool:
        return max(self.largest_free, self.provisionable) >= self.units

    @property
    def what(self) -> str:
        return f"{self.units} more {self.flavor} ({self.capacity_type})"

    @property
    def refusals(self) -> list[str]:
        """Sentences that say why the surge cannot start, with numbers; empty if it can."""
        sentences = []
        if self.limit is None:
            sentences.append(f"There is no quota for {self.what}.")
        elif not self.granted:
            usage = f"A pod more needs {self.what}; {self.used} of {self.limit} are in use"
            left = max(0, self.available or 0)
            sentences.append(f"{usage} and {left} can be had now, borrowing included.")
        if not self.placeable:
            where = f"{self.nodes} nodes that may take it" if self.nodes != 1 else "one node that may take it"
            free = max(0, self.largest_free)
            sentences.append(f"No node has room for {self.what}: of {where} the freest has {free} left.")
        return sentences


def surge_room(
    *, team: Team, flavor: ResourceFlavor, capacity_type: str, units: int, beside: Others = ()
) -> SurgeRoom:
    """The room for a surge pod according to the rows: node capacity is as old as the watch of nodes and pods."""
    mine = next(
        (
            quota
            for quota in team_quotas(team)
            if quota.quota.flavor_id == flavor.pk and quota.quota.capacity_type == capacity_type
        ),
        None,
    )
    rooms = rooms_of(flavor, capacity_type)
    # Free units on a node without enough memory are of no use to another pod.
    taking = [room for room in rooms.rooms if has_beside(room.left, beside)]
    return SurgeRoom(
        units=units,
        flavor=flavor.name,
        capacity_type=capacity_type,
        used=mine.quota.used if mine else 0,
        limit=mine.ceiling if mine else None,
        available=mine.available if mine else None,
        largest_free=max((room.free for room in taking), default=0),
        provisionable=rooms.provisionable_block,
        nodes=len(rooms.rooms),
    )
