"""Whether pods fit the free blocks of nodes, not only their sum, and on which nodes they would land."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from policy.pool_snapshot import Beside, Block, Provisionable
from workloads.placement import FlavorFacts, NodeFacts, matches

Place = tuple[str, int] | tuple[str, int, Beside]
"""Node and units; and what else is counted, where something else than units can run out."""
Places = tuple[Place, ...]


class Blocks:
    """Free units of each node and of nodes that could be made; places are given and taken back.

    A pod goes to the fullest node that still takes it, so that large blocks stay whole; among equals by name.
    Nodes that do not exist yet come last and are called new-1, new-2 and so on. What pods ask for `beside` units is
    not counted here: `policy.node_resources` says when it has to be.
    """

    __slots__ = ("block", "counts", "free", "free_total", "new", "unopened")

    def __init__(self, blocks: Sequence[Block], provisionable: Provisionable) -> None:
        self.free = {block.node: block.free for block in blocks}
        self.counts: dict[int, int] = {}
        for free in self.free.values():
            self.counts[free] = self.counts.get(free, 0) + 1
        self.block = provisionable.block
        self.unopened = provisionable.units // provisionable.block if provisionable.block > 0 else 0
        self.new: frozenset[str] = frozenset()
        self.free_total = sum(free for free in self.free.values() if free > 0)
        """Unused units on nodes that exist or are assumed to be made."""

    def copy(self) -> Blocks:
        other = Blocks.__new__(Blocks)
        other.free, other.counts = self.free.copy(), self.counts.copy()
        other.block, other.unopened, other.new = self.block, self.unopened, self.new
        other.free_total = self.free_total
        return other

    @property
    def largest_free(self) -> int:
        """Most units that one node has free; 0 where none has."""
        return max(0, max(self.counts, default=0))

    @property
    def provisionable(self) -> int:
        """Units of nodes that could still be made."""
        return self.unopened * self.block

    @property
    def largest_new(self) -> int:
        """Units of one node that could still be made; 0 where none can."""
        return self.block if self.unopened else 0

    def fits(self, units_each: int, pods: int, beside: Beside = ()) -> bool:
        """Whether all `pods` of `units_each` have a place at once."""
        if units_each <= 0 or pods <= 0:
            return True
        left = pods
        for free, count in self.counts.items():
            if free >= units_each:
                left -= free // units_each * count
                if left <= 0:
                    return True
        return bool(self.unopened) and left <= self.unopened * (self.block // units_each)

    def place(self, units_each: int, pods: int, beside: Beside = ()) -> Places | None:
        """Take a place for each of the pods, all or none; units by node, or None where they do not fit."""
        if units_each <= 0 or pods <= 0:
            return ()
        if not self.fits(units_each, pods):
            return None
        left = pods
        places: list[Place] = []
        if pods == 1 and not self.new and (node := self._fullest(units_each)):
            self._change(node, -units_each)
            return ((node, units_each),)
        for _, _, node in self._candidates(units_each):
            here = min(left, self.free[node] // units_each)
            places.append((node, here * units_each))
            left -= here
            if not left:
                break
        while left:
            node = self._open()
            here = min(left, self.block // units_each)
            places.append((node, here * units_each))
            left -= here
        self.take(places)
        return tuple(places)

    def place_some(self, units_each: int, pods: int, beside: Beside = ()) -> Places:
        """Take places for as many of the pods as fit, one by one."""
        places: list[Place] = []
        for _ in range(pods):
            one = self.place(units_each, 1, beside)
            if not one:
                break
            places += one
        return tuple(places)

    def held(self, placed: Iterable[tuple[str, int]], taken: Sequence[Beside]) -> Places:
        """What pods hold on nodes already, as places; `taken` is what they take besides units."""
        return tuple(placed)

    def has(self, places: Iterable[Place]) -> bool:
        """Whether all of these places are free."""
        return all(self.free.get(place[0], 0) >= place[1] for place in places)

    def take(self, places: Iterable[Place]) -> None:
        """Take these places; a node that is not known yet is one that another copy has assumed to be made."""
        for place in places:
            if place[0] not in self.free:
                self._make(place[0])
            self._change(place[0], -place[1])

    def release(self, places: Iterable[Place]) -> None:
        """Give places back; those on nodes that take no pods now stay out."""
        for place in places:
            if place[0] in self.free:
                self._change(place[0], place[1])

    def pods(self, units_each: int, beside: Beside = ()) -> int:
        """How many pods of that size have a place."""
        here = self.unopened * (self.block // units_each)
        for free, count in self.counts.items():
            if free >= units_each:
                here += free // units_each * count
        return here

    def lost(self, places: Iterable[Place], units_each: int, beside: Beside = ()) -> int:
        """The number of pods of that size that no longer fit once these places are taken."""
        lost = 0
        for place in places:
            before = self.free.get(place[0])
            if before is None:
                before = self.block
            if before >= units_each:
                after = before - place[1]
                lost += before // units_each - (after // units_each if after > 0 else 0)
        return lost

    def _change(self, node: str, units: int) -> None:
        before = self.free[node]
        after = before + units
        self.free[node] = after
        counts = self.counts
        if counts[before] == 1:
            del counts[before]
        else:
            counts[before] -= 1
        counts[after] = counts.get(after, 0) + 1
        if before >= 0 and after >= 0:
            self.free_total += units
        else:
            self.free_total += max(0, after) - max(0, before)

    def _fullest(self, units_each: int) -> str:
        """The first of the candidates for one pod; empty where only a node to be made would take it."""
        free = min((count for count in self.counts if count >= units_each), default=0)
        return min((node for node, units in self.free.items() if units == free), default="") if free else ""

    def _candidates(self, units_each: int) -> list[tuple[bool, int, str]]:
        new = self.new
        candidates = [(node in new, free, node) for node, free in self.free.items() if free >= units_each]
        candidates.sort()
        return candidates

    def _open(self) -> str:
        number = len(self.new) + 1
        while f"new-{number}" in self.free:
            number += 1
        node = f"new-{number}"
        self._make(node)
        return node

    def _make(self, node: str) -> None:
        self.new |= {node}
        self.unopened -= 1
        self.free[node] = self.block
        self.counts[self.block] = self.counts.get(self.block, 0) + 1
        self.free_total += self.block


Shape = tuple[int, int] | tuple[int, int, Beside]
"""Units of a pod, how many pods, and what each asks for besides where that is counted."""


class Fits(dict[Shape, bool]):
    """Whether pods of a size, so many at once, have places in these blocks as they are; each shape is looked up once."""

    def __init__(self, blocks: Blocks) -> None:
        super().__init__()
        self.blocks = blocks
        self.largest = max(blocks.largest_free, blocks.largest_new)

    def __missing__(self, shape: Shape) -> bool:
        fit = self[shape] = self.blocks.fits(*shape)
        return fit


def what_exists(flavor: FlavorFacts, nodes: Sequence[NodeFacts]) -> str:
    """A sentence with the blocks of this flavor that nodes offer, or could be provisioned to offer."""
    parts = []
    for capacity_type in sorted(flavor.capacity):
        blocks = [node.allocatable[flavor.resource] for node in nodes if matches(flavor, capacity_type, node)]
        parts += [
            f"{blocks.count(size)} with {size} {flavor.name} ({capacity_type})"
            for size in sorted(set(blocks), reverse=True)
        ]
        declared = flavor.declared_block(capacity_type)
        if declared:
            parts.append(f"up to {declared} per new node ({capacity_type})")
    return f"Nodes that exist: {', '.join(parts)}." if parts else f"No node offers {flavor.name}."
