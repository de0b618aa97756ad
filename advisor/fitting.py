"""The smallest flavors that hold a model: which unit, how many, in what pods, at what price (pure)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

from advisor.demand import Demand
from advisor.memory_sum import GIB, memory_sum
from advisor.model_text import Sharding
from foundation.money import half_up
from foundation.number_words import gib
from workloads.placement import FlavorFacts
from workloads.placement import Sharing as Cut
from workloads.podrequests import CPU, MEMORY, Others, quantity_of, said_of, told_of

USABLE_PERCENT = 90
"""Percent of a unit's memory: the rest goes to fragmentation and to what the driver keeps. vLLM's default is the same."""
CARDS_MAX = 4096
_SHARED = frozenset({Cut.TIME_SLICING, Cut.MPS})


class Isolation(StrEnum):
    """What neighbours on the same card must not be able to touch."""

    NONE = "none"
    MEMORY = "memory"
    FULL = "full"


_ISOLATION = {Cut.NONE: Isolation.FULL, Cut.MIG: Isolation.FULL, Cut.MPS: Isolation.MEMORY}
_ORDER = list(Isolation)


def isolation_of(cut: Cut) -> Isolation:
    """What a unit of such a flavor keeps from its neighbours on the card."""
    return _ISOLATION.get(cut, Isolation.NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPool:
    """A flavor with one capacity type, as one team may use it. Units are those of the flavor.

    `blocks` is how many units each node can hold, whether they are free now or not; money is exact micro-USD per unit
    and hour, None without a price.
    """

    capacity_type: str
    blocks: tuple[int, ...]
    quota: int
    rate_per_hour: Fraction | None
    others: tuple[Others, ...] = ()
    """What each of these nodes has besides units for pods of the portal; empty where that is unknown."""
    share: Callable[[int], tuple[int, int] | None] | None = None
    """Millicores and bytes that a pod of so many units gets where the request leaves them out."""

    @property
    def largest(self) -> int:
        return max(self.blocks, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """A flavor that the team has quota for."""

    facts: FlavorFacts
    memory_gib: int
    pools: tuple[UnitPool, ...]

    @property
    def usable_bytes(self) -> int:
        return self.memory_gib * GIB * USABLE_PERCENT // 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """How it is asked for with one capacity type; `refused` says why it cannot be, and is empty where it can."""

    capacity_type: str
    units_each: int = 0
    replicas: int = 0
    nodes: int = 0
    """The fewest nodes that its pods need."""
    rate_per_hour: int | None = None
    quota: int = 0
    refused: str = ""
    share: tuple[int, int] | None = None
    """Millicores and bytes that each pod gets where the request leaves them out; None where no node shows them."""
    lacks: str = ""
    """What nodes have too little of for such pods, whichever workload of the portal uses it; empty where they have enough."""

    @property
    def units(self) -> int:
        return self.units_each * self.replicas

    @property
    def within_quota(self) -> bool:
        return self.units <= self.quota

    @property
    def cpu(self) -> str | None:
        """The share's CPU as Kubernetes writes it."""
        return quantity_of(CPU, self.share[0]) if self.share else None

    @property
    def memory(self) -> str | None:
        """The share's memory as Kubernetes writes it."""
        return quantity_of(MEMORY, self.share[1]) if self.share else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The answer for one flavor. `count` is the fewest units that hold the model, 0 where none do."""

    offered: Offered
    count: int = 0
    unit_bytes: int = 0
    """Needed on each of `count` units, or on one where none do."""
    places: tuple[Place, ...] = ()
    refused: str = ""

    @property
    def holds(self) -> bool:
        return not self.refused

    @property
    def cheapest(self) -> int | None:
        rates = [
            place.rate_per_hour
            for place in self.places
            if not place.refused and place.rate_per_hour is not None
        ]
        return min(rates, default=None)


def fits_of(
    demand: Demand, offered: Sequence[Offered], *, isolation: Isolation, cards: int | None = None
) -> list[Fit]:
    """Every flavor: first those that hold it, the least memory first, then the others by name, each with its reason.

    `cards` asks for exactly so many units; without it the fewest are found.
    """
    fits = [_fit(demand, flavor, isolation, cards) for flavor in offered]
    return sorted(fits, key=_by_size)


def _by_size(fit: Fit) -> tuple[bool, int, int, bool, int, str]:
    memory = fit.count * fit.offered.memory_gib if fit.holds else 0
    rate = fit.cheapest if fit.holds else None
    return (
        not fit.holds,
        memory,
        fit.count if fit.holds else 0,
        rate is None,
        rate or 0,
        fit.offered.facts.name,
    )


def _fit(demand: Demand, offered: Offered, isolation: Isolation, cards: int | None) -> Fit:
    least = memory_sum(demand, cards=cards or 1).total_bytes
    refused = _unfit(demand, offered, isolation, cards)
    if refused:
        return Fit(offered=offered, unit_bytes=least, refused=refused)
    count = smallest_count(demand, offered, cards)
    if count == 0:
        return Fit(offered=offered, unit_bytes=least, refused=_too_small(demand, offered, cards, least))
    places = tuple(_place(demand, count, pool, exactly=cards is not None) for pool in offered.pools)
    open_places = [place for place in places if not place.refused]
    count = min((place.units for place in open_places), default=count)
    return Fit(
        offered=offered,
        count=count,
        unit_bytes=memory_sum(demand, cards=count).total_bytes,
        places=places,
        refused="" if open_places else places[0].refused,
    )


def _unfit(demand: Demand, offered: Offered, isolation: Isolation, cards: int | None) -> str:
    """Why this kind of unit is out of the question, whatever its size."""
    name, cut = offered.facts.name, offered.facts.sharing
    if not offered.memory_gib:
        return f"How much memory a unit of {name} has is not known: a quota manager can set it."
    if demand.trains and cut in _SHARED:
        return f"{name} is a share of a card, and training needs the memory and the time of its own."
    provided = isolation_of(cut)
    if _ORDER.index(provided) < _ORDER.index(isolation):
        what = "memory is isolated" if provided is Isolation.MEMORY else "nothing is isolated"
        return f"{name} is shared by {cut}, where {what}: isolation {isolation} is asked for."
    if cut is not Cut.NONE and cards is not None and cards > 1:
        return f"A container gets one unit of {name}, which is a part of a card; {cards} are asked for."
    return ""


def counts_of(demand: Demand, offered: Offered) -> Sequence[int]:
    """Numbers of units over which the model can be spread, ascending.

    Parts of a card do not work together. A model that is served is split by its heads within one node. In training
    without sharded state each card holds everything, so that more cards are no help.
    """
    if offered.facts.sharing is not Cut.NONE:
        return (1,)
    if not demand.trains:
        heads = demand.shape.heads
        return [count for count in range(1, min(heads, CARDS_MAX) + 1) if heads % count == 0]
    return (1,) if demand.sharding is Sharding.NONE else range(1, CARDS_MAX + 1)


def smallest_count(demand: Demand, offered: Offered, cards: int | None = None) -> int:
    """The fewest units that hold the model, or `cards` where they do; 0 where it cannot be held."""
    counts = counts_of(demand, offered) if cards is None else (cards,)

    def held(count: int) -> bool:
        return memory_sum(demand, cards=count).total_bytes <= offered.usable_bytes

    if held(counts[0]):
        return counts[0]
    # From two cards on, each further one lowers what every card needs.
    return _first(counts[1:], held)


def _first(counts: Sequence[int], held: Callable[[int], bool]) -> int:
    """The first of ascending counts that holds, if those after it all do; 0 for none."""
    low, high = 0, len(counts)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if held(counts[middle]) else (middle + 1, high)
    return counts[low] if low < len(counts) else 0


def _place(demand: Demand, count: int, pool: UnitPool, *, exactly: bool = False) -> Place:
    """Pods of equal size, as few as the nodes allow, with a few units more unless it is `exactly` that many;
    a served model has all units in one pod.
    """
    block = pool.largest
    if block == 0:
        return Place(capacity_type=pool.capacity_type, refused="No node offers it, and none may come.")
    if count > block and not demand.trains:
        message = f"It needs {count} units in one pod, and the largest node holds {block}."
        return Place(capacity_type=pool.capacity_type, refused=message)
    replicas = -(-count // block)
    while exactly and count % replicas:
        replicas += 1
    units_each = -(-count // replicas)
    pods = sorted((size // units_each for size in pool.blocks), reverse=True)
    if sum(pods) < replicas:
        message = f"It needs {replicas} pods of {units_each} units, and all nodes together hold {sum(pods)}."
        return Place(capacity_type=pool.capacity_type, refused=message)
    nodes = next(index for index in range(1, len(pods) + 1) if sum(pods[:index]) >= replicas)
    rate = None if pool.rate_per_hour is None else half_up(pool.rate_per_hour * units_each * replicas)
    share = pool.share(units_each) if pool.share else None
    return Place(
        capacity_type=pool.capacity_type,
        units_each=units_each,
        replicas=replicas,
        nodes=nodes,
        rate_per_hour=rate,
        quota=pool.quota,
        share=share,
        lacks="" if share is None else lacking(pool, units_each, replicas, share),
    )


def lacking(pool: UnitPool, units_each: int, replicas: int, share: tuple[int, int]) -> str:
    """What keeps nodes from holding so many pods with that share, beside what others hold of them; empty for nothing."""
    nodes = [
        (size // units_each, others)
        for size, others in zip(pool.blocks, pool.others or [()] * len(pool.blocks), strict=True)
        if size >= units_each
    ]
    if _pods(nodes, share) >= replicas:
        return ""
    cpu, memory = _pods(nodes, (share[0], 0)), _pods(nodes, (0, share[1]))
    if min(cpu, memory) >= replicas:
        both = f"{said_of(CPU, share[0])} and {said_of(MEMORY, share[1])}"
        return f"Each pod gets {both} where that is left out, and beside pods of others too few nodes have both: ask for less."
    number, name = (1, MEMORY) if memory <= cpu else (0, CPU)
    begin = f"Each pod gets {said_of(name, share[number])} where that is left out"
    if replicas > 1:
        room = min(cpu, memory)
        return f"{begin}, and beside pods of others nodes have that for {room} of {replicas}: ask for less."
    most = max(max(0, others[number] or 0) for _, others in nodes)
    return f"{begin}, and beside pods of others no node has more than {told_of(name, most)}: ask for less."


def _pods(nodes: Sequence[tuple[int, Others]], share: tuple[int, int]) -> int:
    """How many pods with that share the nodes hold, each node at most as many as its units are enough for."""
    return sum(
        min(
            [units, *(max(0, have) // asked for have, asked in zip(others, share, strict=False) if have is not None and asked)]
        )
        for units, others in nodes
    )  # fmt: skip


def message_of(demand: Demand, fits: Sequence[Fit], *, cards: int | None = None) -> str:
    """The answer in a sentence or two."""
    best = next((fit for fit in fits if fit.holds), None)
    need = gib(memory_sum(demand, cards=cards or 1).total_bytes)
    where = "one card" if (cards or 1) == 1 else f"each of {cards} cards"
    if best is None:
        return f"It needs {need} GiB on {where}. " + (
            "None of the team's flavors holds it." if fits else "The team has no quota for any flavor."
        )
    name, count = best.offered.facts.name, best.count
    if count == 1:
        return f"It needs {need} GiB on one card. The smallest that holds it is one {name}."
    sentence = f"{count} {name} together hold it, with {gib(best.unit_bytes)} GiB on each"
    if cards is not None:
        return f"{sentence}."
    single = next((fit.offered.facts.name for fit in fits if fit.holds and fit.count == 1), None)
    if single is not None:
        return f"It needs {need} GiB on one card, which one {single} holds. Less memory in all: {sentence}."
    return f"One card would need {need} GiB, and none of the team's flavors holds that. {sentence}."


def _too_small(demand: Demand, offered: Offered, cards: int | None, least: int) -> str:
    name, count = offered.facts.name, cards or 1
    unit = f"each of {count} {name}" if count > 1 else f"one {name}"
    sentence = (
        f"{gib(least)} GiB are needed and {unit} has {offered.memory_gib} GiB, "
        f"of which {gib(offered.usable_bytes)} are usable"
    )
    enough = smallest_count(demand, offered) if cards is not None else 0
    if enough:
        return f"{sentence}; {enough} hold it."
    if offered.facts.sharing is not Cut.NONE:
        return f"{sentence}; a container gets one part of a card."
    return f"{sentence}{_way_out(demand, offered)}."


def _way_out(demand: Demand, offered: Offered) -> str:
    """The least change of how it is trained that makes the flavor hold it, on nodes that exist if that is possible."""
    if not demand.trains:
        return "; however many share it, one of them is too small"
    sentence = "; without sharding each card holds it all" if demand.sharding is Sharding.NONE else ""
    ways = [(other, count) for other in _savers(demand) if (count := smallest_count(other, offered))]
    if not ways:
        return f"{sentence}; no sharding makes it fit: try a shorter sequence or a smaller batch"
    other, count = next(
        (way for way in ways if any(not _place(*way, pool).refused for pool in offered.pools)), ways[0]
    )
    changes = [f"sharding {other.sharding}"] if other.sharding is not demand.sharding else []
    changes += (
        ["gradient checkpointing"] if other.gradient_checkpointing != demand.gradient_checkpointing else []
    )
    return f"{sentence}; with {' and '.join(changes)} {count} {'holds' if count == 1 else 'hold'} it"


def _savers(demand: Demand) -> list[Demand]:
    """The same training with more sharding, with checkpointing, and with both."""
    stages = list(Sharding)
    return [
        replace(demand, gradient_checkpointing=checkpointing, sharding=sharding)
        for checkpointing in sorted({demand.gradient_checkpointing, True})
        for sharding in stages[stages.index(demand.sharding) :]
        if (checkpointing, sharding) != (demand.gradient_checkpointing, demand.sharding)
    ]
