"""Builders of Supplies for the pure half of admission, and strategies that generate them."""

from __future__ import annotations

import random as stdlib_random
from dataclasses import replace
from fractions import Fraction

from policy.arithmetic import LimitNode, Tree, derive
from policy.pool_snapshot import Account, Block, Holder, PoolSnapshot, TeamFacts, Waiter
from workloads.placement import FlavorFacts, Sharing

NOW = 1_800_000_000
HOUR = 3600


def flavor(name="a100-40gb", fraction=Fraction(1)):
    return FlavorFacts(
        name=name,
        resource="nvidia.com/gpu",
        gpu_fraction=fraction,
        sharing=Sharing.NONE,
        node_selector={},
        tolerations=(),
        capacity={"on-demand": {}, "spot": {}},
    )


def waiter(name="w", team="vision", units=8, pods=1, **changes):
    """A run of `units` in `pods` pods of equal size that waits for an hour's run."""
    facts = {
        "id": name,
        "team": team,
        "owner": f"{team}-member",
        "noun": "run",
        "units": units,
        "units_each": units // pods,
        "pods": pods,
        "priority": 500,
        "queued_at": NOW - 100,
        "sequence": 0,
        "seconds": HOUR,
        "expected_seconds": changes.get("seconds", HOUR),
        "preemptible": False,
    }
    return Waiter(**(facts | changes))


def holder(name="h", team="vision", units=8, **changes):
    facts = {
        "id": name,
        "team": team,
        "owner": f"{team}-member",
        "noun": "run",
        "units": units,
        "units_each": units,
        "priority": 500,
        "preemptible": False,
        "age_seconds": 1000,
        "lost_seconds": 1000,
        "ends_in": HOUR,
        "expected_in": changes.get("ends_in", HOUR),
    }
    return Holder(**(facts | changes))


def accounts_of(nodes, holders=()):
    """The derived accounts of limits, with what the holders hold that is not lent."""
    held = {}
    for each in holders:
        if not each.lent:
            held[each.team] = held.get(each.team, 0) + each.units
    nodes = [node if node.nominal is None else replace(node, held=held.get(node.name, 0)) for node in nodes]
    derived = derive(nodes)
    return tuple(
        Account(node.name, node.parent, d.guaranteed, d.local, d.ceiling, d.used)
        for node in nodes
        for d in [derived[node.name]]
    )


def team(slug, nominal, parent=None, borrowing=None, lending=None):
    return LimitNode(slug, parent, nominal, borrowing, lending)


def cohort(name, parent=None, borrowing=None, lending=None):
    return LimitNode(name, parent, None, borrowing, lending)


def snapshot(limits=None, *, nodes=None, holders=(), waiters=(), teams=(), **changes):
    """A pool; by default team vision alone with a quota of 32 on four nodes of 8.

    `nodes`: sizes by name. Holders are put on nodes first fit unless they say where they are.
    """
    limits = [team("vision", 32)] if limits is None else limits
    sizes = {f"n{number}": 8 for number in range(1, 5)} if nodes is None else nodes
    free = dict(sizes)
    placed = []
    for each in holders:
        where = each.placed
        if not where and each.units_each:
            where = _first_fit(free, each)
        else:
            for node, units in where:
                free[node] -= units
        placed.append(replace(each, placed=where))
    known = {facts.slug for facts in teams}
    teams = (
        *teams,
        *(TeamFacts(n.name, n.name) for n in limits if n.nominal is not None and n.name not in known),
    )
    facts = {
        "flavor": flavor(),
        "capacity_type": "on-demand",
        "now": NOW,
        "revision": 1,
        "accounts": accounts_of(limits, placed),
        "teams": teams,
        "blocks": tuple(Block(name, size, free[name]) for name, size in sizes.items()),
        "largest_block": max(sizes.values(), default=0),
        "exists": "Nodes that exist: some.",
        "holders": tuple(placed),
        "waiters": tuple(waiters),
    }
    return PoolSnapshot(**(facts | changes))


def _first_fit(free, each):
    places = []
    for _ in range(each.units // each.units_each):
        node = next((name for name in sorted(free) if free[name] >= each.units_each), None)
        if node is None:
            raise ValueError(f"{each.id} does not fit")
        free[node] -= each.units_each
        places.append((node, each.units_each))
    return tuple(places)


def random_supply(seed, **shape):
    return random_world(seed, **shape)[2]


def random_world(
    seed,
    *,
    teams=6,
    nodes=8,
    holders=30,
    waiters=30,
    cohorts=2,
    preemptible=0.4,
    endless=0.0,
    user_limits=(None,),
):
    """Limits, sizes of nodes and the PoolSnapshot of a generated pool with lending teams; always the same for the same
    arguments.
    """
    random = stdlib_random.Random(seed)
    limits = [cohort(f"c{number}") for number in range(cohorts)]
    for number in range(teams):
        parent = random.choice([None, *(f"c{n}" for n in range(cohorts))]) if cohorts else None
        limits.append(
            team(
                f"t{number:02}",
                random.choice([4, 8, 16, 24]),
                parent,
                random.choice([None, 0, 8, 16]) if parent else None,
                random.choice([None, None, 0, 4]) if parent else None,
            )
        )
    sizes = {f"n{number:03}": random.choice([4, 8, 8, 8]) for number in range(nodes)}
    free = dict(sizes)
    accounts = accounts_of(limits)
    tree = Tree(accounts)
    held = []
    for number in range(holders):
        slug = f"t{random.randrange(teams):02}"
        one = random_holder(random, f"h{number:04}", slug, preemptible, endless)
        node = next(
            (name for name in sorted(free, key=lambda n: (free[n], n)) if free[name] >= one.units), None
        )
        if node is None or tree.available(slug) < one.units:
            continue
        tree.take(slug, one.units)
        free[node] -= one.units
        held.append(replace(one, placed=((node, one.units),)))
    waiting = [
        random_waiter(random, number, f"t{random.randrange(teams):02}", preemptible)
        for number in range(waiters)
    ]
    facts = [
        TeamFacts(
            f"t{n:02}",
            f"t{n:02}",
            use=random.randrange(10**6),
            weight=random.choice([1, 1, 2, 3]),
            user_limit=random.choice(user_limits),
        )
        for n in range(teams)
    ]
    return limits, sizes, snapshot(limits, nodes=sizes, holders=held, waiters=waiting, teams=facts)


def random_holder(random, name, slug, preemptible=0.4, endless=0.0):
    units = random.choice([1, 1, 2, 4, 8])
    age = random.randrange(0, 4 * HOUR)
    left = random.randrange(60, 8 * HOUR)
    without_end = random.random() < endless
    return holder(
        name, slug, units, age_seconds=age, lost_seconds=random.randrange(0, age + 1),
        ends_in=None if without_end else left, expected_in=None if without_end else random.randrange(1, left + 1),
        priority=random.choice([100, 500, 500, 1000]), preemptible=random.random() < preemptible,
        owner=f"{slug}-{random.randrange(3)}",
    )  # fmt: skip


def random_waiter(random, number, slug, preemptible=0.4):
    units_each = random.choice([1, 1, 2, 4, 8])
    pods = random.choice([1, 1, 1, 1, 2, 3])
    seconds = random.choice([600, 1800, HOUR, 2 * HOUR, 8 * HOUR]) + random.randrange(60)
    return waiter(
        f"w{number:05}", slug, units_each * pods, pods, seconds=seconds,
        expected_seconds=random.randrange(seconds // 10, seconds + 1), priority=random.choice([100, 500, 500, 1000]),
        queued_at=NOW - random.randrange(0, 2 * HOUR), sequence=number, preemptible=random.random() < preemptible,
        owner=f"{slug}-{random.randrange(3)}",
    )  # fmt: skip


GIB = 1024**3


def with_hosts(facts, others, **left):
    """The PoolSnapshot on nodes that all have `others` besides units: millicores, bytes of memory and of storage, pods; and
    of it less what its holders take, or as `left` says for a node.
    """
    taken = {}
    for each in facts.holders:
        for (node, _), beside in zip(each.placed, each.taken, strict=False):
            for number, amount in enumerate(beside):
                taken[node, number] = taken.get((node, number), 0) + amount
    blocks = []
    for block in facts.blocks:
        own = left.get(block.node) or tuple(
            None if each is None else each - taken.get((block.node, number), 0)
            for number, each in enumerate(others)
        )
        blocks.append(replace(block, whole=others, left=own))
    hosts = tuple(sorted({(block.size, others) for block in blocks}))
    return replace(facts, blocks=tuple(blocks), hosts=hosts)


SIZES = (1000, 4 * GIB, 10**9)


def random_hosts(seed, *, scarce, **shape):
    """A generated pool on nodes with CPU and memory; with `scarce` of them units are often not what is short."""
    random = stdlib_random.Random(seed)
    facts = random_supply(seed, **({"nodes": 5, "holders": 12, "waiters": 14} | shape))

    def beside(units):
        # Else by units alone: who asks for less besides is not taken for denied with one who was, but judged anew.
        times = [random.choice([1, 1, 2, 3]) * random.choice([0, 1, 1]) if scarce else 1 for _ in SIZES]
        return tuple(units * part * size for part, size in zip(times, SIZES, strict=True))

    holders = []
    for each in facts.holders:
        taken = tuple((*beside(units), 1) for _, units in each.placed)
        holders.append(replace(each, taken=taken, beside=beside(each.units_each)))
    waiters = tuple(replace(each, beside=beside(each.units_each)) for each in facts.waiters)
    factor = 1.2 if scarce else 1
    node = tuple(int(8 * size * factor) for size in SIZES)
    facts = replace(facts, holders=tuple(holders), waiters=waiters)
    return with_hosts(facts, (*node, random.choice([3, 8, 110]) if scarce else 110))
