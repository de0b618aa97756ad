"""What a node has of a card, and how much of it the flavors offer: what idle and stranded money is counted from. Pure.

A node costs what its cards cost, whoever uses them and whether or not it takes pods: cordoned and not ready ones too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, floor

from foundation.digits import whole_number
from workloads.placement import ON_DEMAND, PRODUCT_LABEL, FlavorFacts, NodeFacts, Sharing, matching_nodes

COUNT_LABEL = "nvidia.com/gpu.count"
_COUNT_DIGITS = 6
_SHARES = frozenset({Sharing.TIME_SLICING, Sharing.MPS})
"""Shares of a card are as many as somebody has configured; slices and whole cards are there."""


@dataclass(frozen=True)
class CardOffer:
    """Cards of one model and capacity type on a node. `offered` is what of them the flavors' units add up to: the rest
    is stranded, as no flavor can be given it.
    """

    card: str
    capacity_type: str
    cards: int
    offered: Fraction
    resources: Mapping[str, Mapping[str, int | str]] = field(default_factory=dict)
    """By resource name the usable units, and which exact fraction of a card one is; to show and to check."""

    def unoffered(self) -> CardOffer:
        """The same cards before anything on the node offers them."""
        return replace(self, offered=Fraction(0), resources={})


@dataclass(frozen=True)
class _Part:
    """One resource of the node, and the flavor that says what a unit of it is."""

    flavor: FlavorFacts
    usable: int
    there: int

    @property
    def least_cards(self) -> int:
        """The fewest cards that this many units can be cut from: of 3/7 a card holds two."""
        return -(-self.there // floor(1 / self.flavor.gpu_fraction))


def offers_of(
    node: NodeFacts, capacity: Mapping[str, int], flavors: Sequence[FlavorFacts]
) -> tuple[CardOffer, ...]:
    """What the node has, by card; nothing where no flavor matches it, since nobody can say what it costs.

    `capacity` are its units, usable or not: one whose units are all unhealthy is still known by them. A node has one
    capacity type: of those that match, the one whose own selector names the most labels, then on-demand, as the dearer.
    A unit belongs to one card: that of the flavor of this capacity type whose selector names the most labels, then of
    the first by name.
    """
    there = {
        name: max(capacity.get(name, 0), node.allocatable.get(name, 0))
        for name in {*capacity, *node.allocatable}
    }
    whole = replace(node, allocatable=there)
    pairs = [
        (flavor, kind)
        for flavor in flavors
        if flavor.card
        for kind in flavor.capacity
        if matching_nodes(flavor, kind, [whole])
    ]
    if not pairs:
        return ()
    capacity_type = min(pairs, key=_rank_of_capacity)[1]
    parts: dict[str, list[_Part]] = {}
    for resource in sorted({flavor.resource for flavor, _ in pairs}):
        fitting = [pair for pair in pairs if pair[0].resource == resource]
        flavor, _ = min(
            fitting,
            key=lambda pair: (pair[1] != capacity_type, -len(pair[0].selector(pair[1])), pair[0].name),
        )
        part = _Part(flavor, node.allocatable.get(resource, 0), there[resource])
        parts.setdefault(flavor.card, []).append(part)
    # The node's label counts all its cards: of two models it says of neither how many there are.
    counted = _counted(node) if len(parts) == 1 else 0
    return tuple(_offer(card, capacity_type, own, counted) for card, own in sorted(parts.items()))


def _rank_of_capacity(pair: tuple[FlavorFacts, str]) -> tuple[int, bool, str]:
    flavor, kind = pair
    return -len(flavor.capacity[kind].get("node_selector", {})), kind != ON_DEMAND, kind


def _counted(node: NodeFacts) -> int:
    """Cards as the node's label counts them; 0 where it does not say. Under MIG strategy `single` it counts slices."""
    if "-MIG-" in node.labels.get(PRODUCT_LABEL, ""):
        return 0
    return whole_number(node.labels.get(COUNT_LABEL, ""), digits=_COUNT_DIGITS) or 0


def _offer(card: str, capacity_type: str, parts: Sequence[_Part], counted: int) -> CardOffer:
    sure = [part for part in parts if not counted or part.flavor.sharing not in _SHARES]
    together = ceil(sum((part.there * part.flavor.gpu_fraction for part in sure), Fraction(0)))
    cards = max([counted, together, *(part.least_cards for part in sure)])
    usable = sum((part.usable * part.flavor.gpu_fraction for part in parts), Fraction(0))
    return CardOffer(
        card=card,
        capacity_type=capacity_type,
        cards=cards,
        # More shares than the flavor says that a card has are no more of it.
        offered=min(usable, Fraction(cards)),
        resources={
            part.flavor.resource: {"units": part.usable, "fraction": str(part.flavor.gpu_fraction)}
            for part in parts
        },
    )
