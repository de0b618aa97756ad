"""Where so many pods would land in a pool now: asked of the blocks that admission itself fills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from policy.free_capacity import PoolInTime
from policy.node_resources import PLENTY
from policy.pool_snapshot import NEW, Beside, PoolSnapshot, Waiter
from quotas.snapshots import outlook_of
from workloads.models import ResourceFlavor
from workloads.nodes.capacity import Observed
from workloads.nodes.sizing import least_share
from workloads.podrequests import others_offered

NOBODY = 0
"""No team: the outlook is of the pool alone."""


@dataclass(frozen=True)
class Placing:
    """Where pods of `units_each` have room beside everything that is admitted, whatever quota says.

    `units` are by the name of a node; of nodes that do not exist yet the names begin with `new-`.
    """

    units_each: int
    asked: int
    fitting: int
    """How many of the pods that were asked for have a place at once."""
    units: Mapping[str, int]
    new_nodes: int
    largest: int
    """Most units that one pod could ever get; 0 where no node offers the flavor."""
    short_of: str
    """What there is too little of: cards, units or node-size; empty where all fit."""


def place_in_pool(
    *, flavor: ResourceFlavor, capacity_type: str, units_each: int, pods: int, now: datetime
) -> tuple[Placing, Observed]:
    """The places of the pods, and the cluster as it was observed in the same statement. Each pod asks besides for its GPUs'
    share of a node, as a request does that names no CPU and memory.
    """
    outlook = outlook_of(flavor=flavor, capacity_type=capacity_type, now=now, team_id=NOBODY, others=0)
    pool, observed = outlook.own.pool, outlook.observed
    beside = _share(flavor, capacity_type, units_each, observed)
    return _place(pool, units_each, pods, beside), observed


def _share(flavor: ResourceFlavor, capacity_type: str, units_each: int, observed: Observed) -> Beside:
    hosts = observed.hosts_of(flavor.facts, capacity_type)
    offers = [(host.node, others_offered(host.others)) for host in hosts]
    share = least_share(offers, flavor.facts, units_each)
    return (*share, 0) if share else ()


def _place(pool: PoolSnapshot, units_each: int, pods: int, beside: Beside) -> Placing:
    # A waiter of its own, so that CPU and memory are counted where it could run out of them.
    asks = _waiter(pool, units_each, pods, beside)
    room = PoolInTime(replace(pool, waiters=(*pool.waiters, asks))).room
    by_cards = room.cards // (units_each * room.per_unit) if room.per_unit else PLENTY
    by_blocks = room.blocks.pods(units_each, beside)
    fitting = max(0, min(pods, by_cards, by_blocks))
    units: dict[str, int] = {}
    for place in room.blocks.place(units_each, fitting, beside) or ():
        units[place[0]] = units.get(place[0], 0) + place[1]
    short_of = ""
    if fitting < pods:
        short_of = "cards" if by_cards < by_blocks else "units"
        short_of = "node-size" if units_each > pool.largest_block else short_of
    return Placing(
        units_each=units_each,
        asked=pods,
        fitting=fitting,
        units=units,
        new_nodes=len(room.blocks.new & units.keys()),
        largest=pool.largest_block,
        short_of=short_of,
    )


def _waiter(pool: PoolSnapshot, units_each: int, pods: int, beside: Beside) -> Waiter:
    team = pool.teams[0].slug if pool.teams else ""
    return Waiter(
        id=NEW,
        team=team,
        owner="",
        noun="run",
        units=units_each * pods,
        units_each=units_each,
        pods=pods,
        priority=0,
        queued_at=pool.now,
        sequence=0,
        seconds=None,
        expected_seconds=None,
        preemptible=False,
        beside=beside,
    )
