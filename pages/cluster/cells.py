"""The capacity map: pools of nodes, their GPUs and slices as cells to scale, each in one state. Pure.

A cell is a unit of a resource that a flavor names. Which card a slice lies on is not observed: slices are laid out from
the largest on, so that none lies on two cards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor
from typing import Any, Final

from foundation.digits import whole_number
from workloads.nodes.supply import COUNT_LABEL
from workloads.placement import (
    PRODUCT_LABEL,
    SLICES_LABEL,
    FlavorFacts,
    NodeFacts,
    matching_nodes,
    strategy_label,
    takes_pods,
)

POOL_LABELS: Final = (
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
)
"""Labels in which clouds and autoscalers say which pool a node is of."""
CARD_WIDTH: Final = 26
CARD_HEIGHT: Final = 20
GAP: Final = 4
CARDS_A_ROW: Final = 8
CARDS_MAX: Final = 64
"""Of a node; a label that says more is wrong."""


class State(StrEnum):
    """What a unit is now, in the order in which a node's cells stand."""

    MINE = "mine"
    OTHERS = "others"
    FITS = "fits"
    FREE = "free"
    CORDONED = "cordoned"
    FAULTY = "faulty"


WORDS: Final[Mapping[State, str]] = {
    State.MINE: "my teams",
    State.OTHERS: "others",
    State.FITS: "would fit here",
    State.FREE: "free",
    State.CORDONED: "takes no pods",
    State.FAULTY: "faulty",
}

PLACE: Final[Mapping[State, int]] = {state: place for place, state in enumerate(State)}


@dataclass(frozen=True)
class NodePart:
    """What a node has of one resource: a count for each state, in the order of State."""

    resource: str
    flavors: tuple[str, ...]
    fraction: Fraction
    counts: tuple[int, ...]

    @property
    def units(self) -> int:
        return sum(self.counts)

    def count(self, state: State) -> int:
        return self.counts[PLACE[state]]

    @property
    def mine(self) -> int:
        return self.count(State.MINE)

    @property
    def others(self) -> int:
        return self.count(State.OTHERS)

    @property
    def fits(self) -> int:
        return self.count(State.FITS)

    @property
    def free(self) -> int:
        """Also where more would fit."""
        return self.count(State.FREE) + self.fits

    @property
    def cordoned(self) -> int:
        return self.count(State.CORDONED)

    @property
    def faulty(self) -> int:
        return self.count(State.FAULTY)


@dataclass(frozen=True)
class Drawing:
    """Outlines of cards and one path for each state, in the drawing's own units."""

    width: int
    height: int
    cards: str
    paths: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class NodeCells:
    """One node of the map."""

    node: NodeFacts
    parts: tuple[NodePart, ...]
    cards: int
    conditions: Sequence[Mapping[str, Any]]
    pairs: frozenset[tuple[str, str]]
    """Flavors and capacity types that it offers."""
    counts: tuple[int, ...]
    """Of all its parts, a count for each state."""

    def offers(self, flavor: str, capacity_type: str) -> bool:
        """Whether it offers any such; empty for whichever."""
        return any(flavor in ("", name) and capacity_type in ("", kind) for name, kind in self.pairs)

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def product(self) -> str:
        return self.node.labels.get(PRODUCT_LABEL, "")

    @property
    def state(self) -> str:
        """In a word or two; empty where there is nothing to say."""
        if not self.node.ready:
            return "not ready"
        if self.node.unschedulable:
            return "cordoned"
        return "tainted" if self.count(State.CORDONED) else ""

    def count(self, state: State) -> int:
        return self.counts[PLACE[state]]

    @property
    def words(self) -> str:
        """What its units are, such as: 6 of others, 2 free."""
        held = {State.MINE.value, State.OTHERS.value}
        return ", ".join(
            f"{count} of {word}" if state in held else f"{count} {word}"
            for state, word, count in told(self.counts)
        )

    @property
    def drawing(self) -> Drawing:
        return draw(tuple((part.fraction, part.counts) for part in self.parts), self.cards)


@dataclass(frozen=True)
class NodePool:
    """Nodes of one pool and product."""

    name: str
    flavors: tuple[str, ...]
    nodes: list[NodeCells]
    counts: tuple[int, ...]
    """A count for each state."""
    largest_block: int
    """The most that one pod could get of a node now."""

    @property
    def free(self) -> int:
        """Also where more would fit."""
        return self.counts[PLACE[State.FREE]] + self.counts[PLACE[State.FITS]]

    @property
    def units(self) -> int:
        return sum(self.counts)


def told(counts: Sequence[int]) -> list[tuple[str, str, int]]:
    """Of each state that there is: its name, its words and how many units."""
    counted = zip(State, counts, strict=True)
    return [(state.value, WORDS[state], count) for state, count in counted if count]


def together(counts: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Their sum, state by state."""
    return tuple(map(sum, zip(*counts, strict=True))) or (0,) * len(State)


@dataclass(frozen=True)
class NodeOffer:
    """What the nodes of one kind offer: by resource, the largest first, the flavors' names and the fraction of a card."""

    by_resource: Mapping[str, tuple[tuple[str, ...], Fraction]]
    pairs: tuple[tuple[FlavorFacts, str], ...]
    names: frozenset[tuple[str, str]]


class Flavors:
    """Which flavors the nodes offer; nodes that are alike in what flavors look at are judged once."""

    def __init__(self, flavors: Sequence[FlavorFacts]) -> None:
        self.flavors = flavors
        self.named = {flavor.resource for flavor in flavors}
        selected = {key for flavor in flavors for kind in flavor.capacity for key in flavor.selector(kind)}
        strategies = {label for name in self.named if (label := strategy_label(name))}
        self._keys = sorted({*selected, *strategies, PRODUCT_LABEL, SLICES_LABEL})
        self._known: dict[tuple[object, ...], NodeOffer] = {}

    def of(self, node: NodeFacts, there: Mapping[str, int]) -> NodeOffer:
        """What a node with so many units, usable or not, offers."""
        labels = node.labels
        names = tuple(sorted(name for name in there if name in self.named and there[name] > 0))
        kind = (names, *(labels.get(key) for key in self._keys))
        known = self._known.get(kind)
        if known is None:
            known = self._known[kind] = self._judged(NodeFacts(node.name, labels, there))
        return known

    def _judged(self, node: NodeFacts) -> NodeOffer:
        pairs = tuple(
            (flavor, kind)
            for flavor in self.flavors
            for kind in flavor.capacity
            if matching_nodes(flavor, kind, [node])
        )
        by_resource: dict[str, tuple[tuple[str, ...], Fraction]] = {}
        for resource in sorted({flavor.resource for flavor, _ in pairs}):
            mine = [flavor for flavor, _ in pairs if flavor.resource == resource]
            names = tuple(sorted({flavor.name for flavor in mine}))
            by_resource[resource] = names, min(flavor.gpu_fraction for flavor in mine)
        by_resource = dict(sorted(by_resource.items(), key=lambda entry: (-entry[1][1], entry[0])))
        return NodeOffer(by_resource, pairs, frozenset((flavor.name, kind) for flavor, kind in pairs))


@dataclass(frozen=True)
class Held:
    """Units that are held, by node and resource: by all pods of the portal, of these by the person's teams, by others."""

    own: Mapping[tuple[str, str], int]
    mine: Mapping[tuple[str, str], int]
    foreign: Mapping[tuple[str, str], int]


def cells_of(
    nodes: Iterable[NodeFacts],
    flavors: Sequence[FlavorFacts],
    held: Held,
    *,
    capacity: Mapping[str, Mapping[str, int]],
    conditions: Mapping[str, Sequence[Mapping[str, Any]]],
    fits: tuple[str, Mapping[str, int]] = ("", {}),
) -> list[NodeCells]:
    """Each node that offers a unit of some flavor, by name. `fits`: a resource, and the units of it that would be taken, by
    node.
    """
    known, rows = Flavors(flavors), []
    for node in nodes:
        there = {**node.allocatable, **capacity.get(node.name, {})}
        for name, units in node.allocatable.items():
            there[name] = max(units, there[name])
        offered = known.of(node, there)
        if not offered.by_resource:
            continue
        parts = tuple(
            NodePart(
                resource,
                names,
                fraction,
                _counts(node, resource, there[resource], offered, held, _fitting(fits, node, resource)),
            )
            for resource, (names, fraction) in offered.by_resource.items()
        )
        found = conditions.get(node.name, ())
        counted = parts[0].counts if len(parts) == 1 else together(part.counts for part in parts)
        rows.append(NodeCells(node, parts, _cards(node, parts), found, offered.names, counted))
    return rows


def _fitting(fits: tuple[str, Mapping[str, int]], node: NodeFacts, resource: str) -> int:
    return fits[1].get(node.name, 0) if resource == fits[0] else 0


def _counts(
    node: NodeFacts, resource: str, there: int, offered: NodeOffer, held: Held, fitting: int
) -> tuple[int, ...]:
    """Of each State so many units of one resource, together as many as there are: what is bound beyond them shows in none."""
    place = node.name, resource
    usable = node.allocatable.get(resource, 0)
    own, foreign = held.own.get(place, 0), held.foreign.get(place, 0)
    mine = min(there, own, held.mine.get(place, 0))
    others = min(there, own + foreign) - mine
    free = max(0, usable - mine - others)
    # Of units that are broken some may still be held by pods that do not know.
    broken = there - mine - others - free
    if not node.ready:
        return mine, others, 0, 0, 0, free + broken
    takes = any(
        takes_pods(flavor, kind, node) for flavor, kind in offered.pairs if flavor.resource == resource
    )
    if not takes:
        return mine, others, 0, 0, free, broken
    chosen = min(fitting, free)
    return mine, others, chosen, free - chosen, 0, broken


def _cards(node: NodeFacts, parts: Sequence[NodePart]) -> int:
    """Cards as the node's label counts them, and no fewer than its units need; under MIG strategy `single` it counts slices."""
    count = node.labels.get(COUNT_LABEL, "")
    sliced = "-MIG-" in node.labels.get(PRODUCT_LABEL, "")
    cards_told = 0 if sliced else min(whole_number(count) or 0, CARDS_MAX)
    return max(cards_told, _places(tuple((part.fraction, part.units) for part in parts))[1])


def pools_of(nodes: Iterable[NodeCells]) -> list[NodePool]:
    """The nodes by pool: those of one node pool and product. First those where more would fit, then by name."""
    pools: dict[str, list[NodeCells]] = {}
    for row in nodes:
        pools.setdefault(_pool_name(row), []).append(row)
    return [
        NodePool(
            name,
            tuple(sorted({flavor for row in rows for part in row.parts for flavor in part.flavors})),
            sorted(rows, key=lambda row: (not row.count(State.FITS), row.name)),
            together(row.counts for row in rows),
            max((part.free for row in rows for part in row.parts), default=0),
        )
        for name, rows in sorted(pools.items(), key=lambda entry: (not _marked(entry[1]), entry[0]))
    ]


def _marked(rows: Iterable[NodeCells]) -> bool:
    return any(row.count(State.FITS) for row in rows)


def _pool_name(row: NodeCells) -> str:
    labels = row.node.labels
    pool = next((labels[key] for key in POOL_LABELS if labels.get(key)), "")
    product = labels.get(PRODUCT_LABEL, "") or row.parts[0].resource
    return f"{pool} · {product}" if pool else product


@lru_cache(maxsize=4096)
def _places(parts: tuple[tuple[Fraction, int], ...]) -> tuple[tuple[Fraction, ...], int]:
    """Where each unit begins, in cards from the first on, and how many cards that takes. Each lies on the first card that has
    room for all of it.
    """
    used: list[Fraction] = []
    begins = []
    first, last = 0, Fraction(0)
    for fraction, units in parts:
        size = min(fraction, Fraction(1))
        # What was too narrow for one is too narrow for the next of its size.
        first = first if size == last else 0
        last = size
        for _ in range(units):
            while first < len(used) and used[first] + size > 1:
                first += 1
            if first == len(used):
                used.append(Fraction(0))
            begins.append(first + used[first])
            used[first] += size
    return tuple(begins), len(used)


@lru_cache(maxsize=4096)
def draw(parts: tuple[tuple[Fraction, tuple[int, ...]], ...], cards: int) -> Drawing:
    """The cells of these parts, each a fraction and its counts by state, on so many cards."""
    begins, _ = _places(tuple((fraction, sum(counts)) for fraction, counts in parts))
    paths: dict[State, list[str]] = {state: [] for state in State}
    unit = 0
    for fraction, counts in parts:
        width = max(2, round(CARD_WIDTH * min(fraction, Fraction(1))) - (fraction < 1))
        for state, count in zip(State, counts, strict=True):
            for _ in range(count):
                paths[state].append(_cell(begins[unit], width))
                unit += 1
    rows = max(1, ceil(cards / CARDS_A_ROW))
    return Drawing(
        width=min(max(cards, 1), CARDS_A_ROW) * (CARD_WIDTH + GAP),
        height=rows * (CARD_HEIGHT + GAP),
        cards="".join(_cell(Fraction(card), CARD_WIDTH) for card in range(cards)),
        paths=tuple((state.value, "".join(found)) for state, found in paths.items() if found),
    )


def _cell(begin: Fraction, width: int) -> str:
    card = floor(begin)
    x = card % CARDS_A_ROW * (CARD_WIDTH + GAP) + GAP // 2 + round((begin - card) * CARD_WIDTH)
    y = card // CARDS_A_ROW * (CARD_HEIGHT + GAP) + GAP // 2
    return f"M{x} {y}h{width}v{CARD_HEIGHT}h-{width}z"
