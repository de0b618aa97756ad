"""What a node has besides units: CPU, memory, ephemeral storage and places for pods, counted as the scheduler does.

Mostly none of it can run out: a node has enough for each of its units, whichever workload of a snapshot takes them. Then
units alone are counted, and nothing here costs anything. What is not known is taken to be enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from typing_extensions import override

from policy.packing import Blocks, Place, Places
from policy.pool_snapshot import Beside, Block, PoolSnapshot
from workloads.podrequests import OTHERS, PODS, Others

PLENTY = 1 << 62
"""The amount of a resource where it is unknown how much there is."""
TOO_LARGE = ("largest-cpu", "largest-memory", "largest-storage")
"""The step that refuses what no node could ever hold, by the number in a pod's request."""
_PODS = OTHERS.index(PODS)
_ALL = range(len(OTHERS))


def wants(beside: Beside) -> Beside:
    """What a pod takes of each of OTHERS: its requests, and one place."""
    return (*(beside or (0,) * _PODS), 1)


def _known(others: Others) -> Beside:
    return tuple(PLENTY if amount is None else amount for amount in others) or (PLENTY,) * len(OTHERS)


class Reach(dict[tuple[int, Beside], str]):
    """Which step refuses a pod of so many units that asks for so much besides; empty where some kind of node could
    hold it while it is empty. Each pod is looked up once.
    """

    def __init__(self, kinds: Sequence[tuple[int, Others]]) -> None:
        super().__init__()
        self._kinds = [(size, _known(others)) for size, others in kinds]

    def __missing__(self, pod: tuple[int, Beside]) -> str:
        units_each, beside = pod
        left = [others for size, others in self._kinds if size >= units_each]
        refusal = ""
        if left:
            for number, asked in enumerate(beside):
                left = [others for others in left if others[number] >= asked]
                if not left:
                    refusal = TOO_LARGE[number]
                    break
        self[pod] = refusal
        return refusal

    def most(self, units_each: int, beside: Beside, number: int) -> int:
        """The most of the resource `number` on a node that could hold so many units, and the resources before it."""
        return max(
            (
                others[number]
                for size, others in self._kinds
                if size >= units_each
                and all(have >= asked for have, asked in zip(others, beside[:number], strict=False))
            ),
            default=0,
        )


def may_run_out(snapshot: PoolSnapshot) -> tuple[int, ...]:
    """The numbers of those OTHERS that may keep a pod of this snapshot from units which are free.

    A resource cannot as long as every empty node has as much for each unit as the greediest workload takes: a workload that
    comes then takes no more than its part of the rest, and one that stays leaves at least that.
    """
    if not any(block.left for block in snapshot.blocks) and not any(snapshot.provisionable.others):
        return ()
    most = _greediest(snapshot)
    if not any(most):
        return ()
    emptied = _emptied(snapshot)
    new = snapshot.provisionable
    bare = [(new.block, _known(new.others))] if new.block else []
    nodes = [
        *bare,
        *((block.size, _known(block.whole)) for block in snapshot.blocks),
        *((units, left) for units, left in emptied.values()),
    ]
    return tuple(
        number for number in _ALL if any(left[number] < units * most[number] for units, left in nodes)
    )


def _greediest(snapshot: PoolSnapshot) -> list[int]:
    """The most of each of OTHERS that any workload asks for or holds per unit."""
    reach = Reach(snapshot.hosts)
    shapes = {(waiter.units_each, waiter.beside) for waiter in snapshot.waiters}
    shapes |= {(holder.units_each, holder.beside) for holder in snapshot.holders}
    asked = {(units, wants(beside)) for units, beside in shapes if units > 0 and not reach[units, beside]}
    for holder in snapshot.holders:
        asked |= {
            (units, taken)
            for (_, units), taken in zip(holder.placed, holder.taken, strict=False)
            if units > 0
        }
    return [max((-(-beside[number] // units) for units, beside in asked), default=0) for number in _ALL]


def _emptied(snapshot: PoolSnapshot) -> dict[str, tuple[int, list[int]]]:
    """Each node as it is when every holder with units there has left: units, and what else is left."""
    nodes = {block.node: (block.free, list(_known(block.left))) for block in snapshot.blocks}
    for holder in snapshot.holders:
        for (node, units), taken in zip(holder.placed, holder.taken, strict=False):
            if units > 0 and node in nodes:
                free, left = nodes[node]
                nodes[node] = free + units, [have + back for have, back in zip(left, taken, strict=True)]
    return nodes


def blocks_of(snapshot: PoolSnapshot, counted: Sequence[int], *, empty: bool = False) -> Blocks:
    """The nodes as they are, or as they would be empty; units alone where nothing else is `counted`."""
    blocks = snapshot.blocks
    if empty:
        blocks = tuple(
            Block(block.node, block.size, block.size, block.whole, block.whole) for block in blocks
        )
    if not counted:
        return Blocks(blocks, snapshot.provisionable)
    return HostBlocks(blocks, snapshot, counted)


class HostBlocks(Blocks):
    """Blocks of which something else than units may run out before they do."""

    __slots__ = ("counted", "kinds", "left", "needs", "new_left")

    def __init__(self, blocks: Sequence[Block], snapshot: PoolSnapshot, counted: Sequence[int]) -> None:
        super().__init__(blocks, snapshot.provisionable)
        self.counted = tuple(counted)
        self.needs: dict[Beside, Beside] = {}
        self.left = {block.node: self._of(_known(block.left)) for block in blocks}
        self.new_left = self._of(_known(snapshot.provisionable.others))
        self.kinds: dict[tuple[int, Beside], int] = {}
        """How many nodes have so many units free, and so much besides."""
        for node, left in self.left.items():
            self._add((self.free[node], left), 1)

    @override
    def copy(self) -> HostBlocks:
        other = HostBlocks.__new__(HostBlocks)
        other.free, other.counts = self.free.copy(), self.counts.copy()
        other.block, other.unopened, other.new = self.block, self.unopened, self.new
        other.free_total = self.free_total
        other.counted, other.needs, other.new_left = self.counted, self.needs, self.new_left
        other.left, other.kinds = self.left.copy(), self.kinds.copy()
        return other

    @override
    def fits(self, units_each: int, pods: int, beside: Beside = ()) -> bool:
        if units_each <= 0 or pods <= 0:
            return True
        return super().fits(units_each, pods) and self.pods(units_each, beside, enough=pods) >= pods

    @override
    def pods(self, units_each: int, beside: Beside = (), *, enough: int = PLENTY) -> int:
        """How many pods of that size have a place; it stops to count where that is `enough`."""
        need = self._need(beside)
        here = self.unopened * _takes(self.block, self.new_left, units_each, need)
        for (free, left), count in self.kinds.items():
            if here >= enough:
                break
            if free >= units_each:
                here += count * _takes(free, left, units_each, need)
        return here

    @override
    def place(self, units_each: int, pods: int, beside: Beside = ()) -> Places | None:
        if units_each <= 0 or pods <= 0:
            return ()
        if not self.fits(units_each, pods, beside):
            return None
        need = self._need(beside)
        left = pods
        places: list[Place] = []
        for node in self._having(units_each, need):
            here = min(left, _takes(self.free[node], self.left[node], units_each, need))
            places.append((node, here * units_each, tuple(amount * here for amount in need)))
            left -= here
            if not left:
                break
        self.take(places)
        return tuple(places)

    @override
    def held(self, placed: Iterable[tuple[str, int]], taken: Sequence[Beside]) -> Places:
        nothing = (0,) * len(self.counted)
        known = [self._of(amounts) for amounts in taken]
        return tuple(
            (node, units, known[place] if place < len(known) else nothing)
            for place, (node, units) in enumerate(placed)
        )

    @override
    def has(self, places: Iterable[Place]) -> bool:
        kept = list(places)
        return super().has(kept) and all(
            have >= asked
            for place in kept
            for have, asked in zip(self.left.get(place[0], ()), _beside(place), strict=False)
        )

    @override
    def take(self, places: Iterable[Place]) -> None:
        for place in places:
            if place[0] not in self.free:
                self._make(place[0])
            self._shift(place[0], -place[1], _beside(place), back=False)

    @override
    def release(self, places: Iterable[Place]) -> None:
        for place in places:
            if place[0] in self.free:
                self._shift(place[0], place[1], _beside(place))

    @override
    def lost(self, places: Iterable[Place], units_each: int, beside: Beside = ()) -> int:
        need, lost = self._need(beside), 0
        for place in places:
            node, taken = place[0], _beside(place)
            free, left = self.free.get(node, self.block), self.left.get(node, self.new_left)
            after = _less(left, taken)
            lost += _takes(free, left, units_each, need) - _takes(free - place[1], after, units_each, need)
        return lost

    def short(self, units_each: int, pods: int, beside: Beside) -> tuple[int, str, int] | None:
        """The first of OTHERS that keeps pods from units that are free: its number, the node that has most left of it
        beside enough units, and how much that is; None where the units themselves are too few.
        """
        if not super().fits(units_each, pods):
            return None
        need = self._need(beside)
        for place, number in enumerate(self.counted):
            cut = (*need[: place + 1], *(0,) * (len(need) - place - 1))
            if self._places_for(units_each, cut) < pods:
                earlier = (*need[:place], *(0,) * (len(need) - place))
                nodes = list(self._having(units_each, earlier, new=False))
                node = max(nodes, key=lambda name: (self.left[name][place], name), default="")
                return number, node, max(0, self.left[node][place]) if node else 0
        return None

    def offers(self, units_each: int, pods: int) -> Iterator[tuple[int, Beside]]:
        """How many pods of so many units a node has room for, and what else it has left; each kind of node once."""
        for free, left in self.kinds:
            if free >= units_each:
                yield min(pods, free // units_each), left

    def _places_for(self, units_each: int, need: Beside) -> int:
        here = self.unopened * _takes(self.block, self.new_left, units_each, need)
        return here + sum(
            count * _takes(free, left, units_each, need) for (free, left), count in self.kinds.items()
        )

    def _of(self, others: Sequence[int]) -> Beside:
        """The amounts that are counted."""
        return tuple(others[number] for number in self.counted)

    def _need(self, beside: Beside) -> Beside:
        known = self.needs.get(beside)
        if known is None:
            known = self.needs[beside] = self._of(wants(beside))
        return known

    def _having(self, units_each: int, need: Beside, *, new: bool = True) -> Iterator[str]:
        """Nodes that take a pod, the fullest first; then new ones, for as long as there can be."""
        for _, _, node in self._candidates(units_each):
            if _takes(self.free[node], self.left[node], units_each, need):
                yield node
        while new and self.unopened:
            yield self._open()

    def _shift(self, node: str, units: int, beside: Beside, *, back: bool = True) -> None:
        before = self.left[node]
        self._add((self.free[node], before), -1)
        self._change(node, units)
        taken = tuple(-amount for amount in beside) if back else beside
        after = self.left[node] = _less(before, taken)
        self._add((self.free[node], after), 1)

    @override
    def _make(self, node: str) -> None:
        super()._make(node)
        self.left[node] = self.new_left
        self._add((self.block, self.new_left), 1)

    def _add(self, kind: tuple[int, Beside], count: int) -> None:
        now = self.kinds.get(kind, 0) + count
        if now:
            self.kinds[kind] = now
        else:
            del self.kinds[kind]


def _beside(place: Place) -> Beside:
    return place[2] if len(place) == 3 else ()


def _less(left: Beside, taken: Beside) -> Beside:
    return tuple(have - less for have, less in zip(left, taken, strict=True)) if taken else left


def _takes(free: int, left: Beside, units_each: int, need: Beside) -> int:
    """How many such pods a node with so much left takes."""
    most = free // units_each
    for have, wanted in zip(left, need, strict=True):
        if wanted and have // wanted < most:
            most = have // wanted
    return max(0, most)
