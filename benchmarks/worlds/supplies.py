"""Pools as admission sees them on a full day: every quota in use, and a line of every team behind it."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from fractions import Fraction

from typing_extensions import override

from policy.arithmetic import LimitNode, derive
from policy.pool_snapshot import Account, Block, Holder, PoolSnapshot, TeamFacts, Waiter
from workloads.placement import FlavorFacts, Sharing

NOW = 1_800_000_000
HOUR = 3600
NODE = 8
TEAMS_IN_COHORT = 6
GIB = 1024**3
BESIDE_NODE = (96_000, 1024 * GIB, 500 * 10**9, 110)
"""Millicores, bytes of memory and of storage, and pods: enough for every unit, as on most nodes."""
FREE_NODES = 2
"""Every pool has some free units, so that a pass admits a workload too."""


@dataclass(frozen=True)
class Shape:
    teams: int
    holders: int
    waiters: int

    @override
    def __str__(self) -> str:
        return f"{self.teams} teams, {self.holders:,} holders, {self.waiters:,} waiters"


def snapshot(shape: Shape) -> PoolSnapshot:
    """A generated pool; always the same for the same shape. Teams lend to each other in cohorts of six."""
    source = random.Random(repr(shape))
    slugs = [f"t{number:03}" for number in range(shape.teams)]
    holders = [_holder(source, number, slugs[number % shape.teams]) for number in range(shape.holders)]
    blocks, placed = _place(holders)
    waiters = [_waiter(source, number, source.choice(slugs)) for number in range(shape.waiters)]
    return PoolSnapshot(
        flavor=FlavorFacts(
            name="a100-40gb",
            resource="nvidia.com/gpu",
            gpu_fraction=Fraction(1),
            sharing=Sharing.NONE,
            node_selector={},
            tolerations=(),
            capacity={"on-demand": {}},
        ),
        capacity_type="on-demand",
        now=NOW,
        revision=1,
        accounts=_accounts(slugs, placed),
        teams=tuple(
            TeamFacts(slug, slug, use=source.randrange(10**6), weight=source.choice([1, 1, 2]))
            for slug in slugs
        ),
        blocks=blocks,
        hosts=((NODE, BESIDE_NODE),),
        largest_block=NODE,
        exists="Nodes of eight.",
        holders=placed,
        waiters=tuple(waiters),
    )


def _accounts(slugs: list[str], holders: tuple[Holder, ...]) -> tuple[Account, ...]:
    """Each team was given what it holds, and one more; what one does not use, others of its cohort may."""
    held = dict.fromkeys(slugs, 0)
    for holder in holders:
        held[holder.team] += holder.units
    limits = []
    for number, slug in enumerate(slugs):
        cohort = f"cohort-{number // TEAMS_IN_COHORT}"
        if number % TEAMS_IN_COHORT == 0:
            limits.append(LimitNode(cohort, None, None, None, None))
        limits.append(LimitNode(slug, cohort, held[slug] + 1, NODE, None, held[slug]))
    derived = derive(limits)
    return tuple(
        Account(node.name, node.parent, known.guaranteed, known.local, known.ceiling, known.used)
        for node in limits
        for known in [derived[node.name]]
    )


def _place(holders: list[Holder]) -> tuple[tuple[Block, ...], tuple[Holder, ...]]:
    free: dict[str, int] = {}
    placed = []
    opened: dict[int, str] = {}
    beside: dict[str, list[int]] = {}
    for holder in holders:
        # Nodes are filled with pods of one size, so none of them is left half used.
        node = opened.get(holder.units)
        if node is None or free[node] < holder.units:
            node = opened[holder.units] = f"n{len(free):04}"
            free[node] = NODE
            beside[node] = list(BESIDE_NODE)
        free[node] -= holder.units
        taken = _beside(holder.units, 1)
        beside[node] = [have - less for have, less in zip(beside[node], taken, strict=True)]
        placed.append(replace(holder, placed=((node, holder.units),), taken=(taken,)))
    free |= {f"n{len(free) + number:04}": NODE for number in range(FREE_NODES)}
    blocks = (
        Block(name, NODE, units, BESIDE_NODE, tuple(beside.get(name, BESIDE_NODE)))
        for name, units in free.items()
    )
    return tuple(blocks), tuple(placed)


def _beside(units: int, *pods: int) -> tuple[int, ...]:
    """The cpu, memory and storage that a run with so many units asks for by default."""
    return (8000 * units, 64 * GIB * units, 0, *pods)


def _holder(source: random.Random, number: int, team: str) -> Holder:
    age = source.randrange(4 * HOUR)
    left = source.randrange(60, 8 * HOUR)
    units = source.choice([1, 1, 2, 4, 8])
    return Holder(
        id=f"h{number:05}",
        team=team,
        owner=f"{team}-{source.randrange(3)}",
        noun="run",
        units=units,
        units_each=units,
        priority=source.choice([100, 500, 500, 1000]),
        preemptible=source.random() < 0.3,
        age_seconds=age,
        lost_seconds=source.randrange(age + 1),
        ends_in=left,
        expected_in=source.randrange(1, left + 1),
        beside=_beside(units),
    )


def _waiter(source: random.Random, number: int, team: str) -> Waiter:
    units_each, pods = source.choice([1, 1, 2, 4, 8]), source.choice([1, 1, 1, 1, 2, 3])
    seconds = source.choice([HOUR // 2, HOUR, 2 * HOUR, 8 * HOUR]) + source.randrange(60)
    return Waiter(
        id=f"w{number:05}",
        team=team,
        owner=f"{team}-{source.randrange(3)}",
        noun="run",
        units=units_each * pods,
        units_each=units_each,
        pods=pods,
        priority=source.choice([100, 500, 500, 1000]),
        queued_at=NOW - source.randrange(2 * HOUR),
        sequence=number,
        seconds=seconds,
        expected_seconds=source.randrange(seconds // 10, seconds + 1),
        preemptible=source.random() < 0.3,
        beside=_beside(units_each),
    )
