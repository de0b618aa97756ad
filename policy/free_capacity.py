"""The working copy of a snapshot: which quota, cards and blocks are free, and what holds the rest until when.

Times are seconds since the snapshot's `now`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

from policy import budgets, ceilings, node_resources
from policy.arithmetic import Tree
from policy.ordering import TeamQueue, TeamQueues
from policy.packing import Blocks, Places, Shape
from policy.pool_snapshot import Amounts, Beside, Holder, PoolSnapshot, Waiter

QUOTA, CARDS, BLOCKS = "quota", "cards", "blocks"


@dataclass(slots=True, eq=False)
class Holding:
    """A workload that holds units: a Holder of the snapshot, or a waiter admitted since."""

    id: str
    line: TeamQueue
    owner: str
    units: int
    units_each: int
    priority: int
    preemptible: bool
    lent: bool
    places: Places
    since: int
    lost_since: int
    ends: int | None
    beside: Beside = ()
    most: Amounts = ()
    leaving: bool = False
    waiter: Waiter | None = None
    rank: tuple[int, int, int, str] = (0, 0, 0, "")
    """The smallest leaves first: low priority, least work lost, youngest."""

    def __post_init__(self) -> None:
        # Age and lost work grow alike for all, so that the order never changes.
        self.rank = (self.priority, -self.lost_since, -self.since, self.id)


class FreeCapacity:
    """Free quota, cards and blocks; taken and released together."""

    __slots__ = ("blocks", "cards", "per_unit", "tree")

    def __init__(self, tree: Tree, blocks: Blocks, cards: int, per_unit: int) -> None:
        self.tree, self.blocks = tree, blocks
        self.cards = cards
        """Free parts of cards; a unit takes `per_unit`, which is 0 where cards are not counted."""
        self.per_unit = per_unit

    def copy(self) -> FreeCapacity:
        return FreeCapacity(self.tree.copy(), self.blocks.copy(), self.cards, self.per_unit)

    def lack(self, place: int, waiter: Waiter) -> str:
        """The first thing that there is too little of; empty where the waiter fits."""
        if waiter.units > self.tree.available_at(place):
            return QUOTA
        if waiter.units * self.per_unit > self.cards:
            return CARDS
        return "" if self.blocks.fits(waiter.units_each, waiter.pods, waiter.beside) else BLOCKS

    def take(self, holding: Holding) -> None:
        """Take what it holds, at its places."""
        self.blocks.take(holding.places)
        self.count(holding, holding.units)

    def release(self, holding: Holding) -> None:
        self.blocks.release(holding.places)
        self.count(holding, -holding.units)

    def count(self, holding: Holding, units: int) -> None:
        """Count quota and cards alone. What is lent belongs to its team's endpoints, which hold both."""
        if not holding.lent:
            self.cards -= units * self.per_unit
            if holding.line.place >= 0:
                self.tree.change_at(holding.line.place, units)


class PoolInTime:
    """A pool in time: its room, its holdings and its lines."""

    __slots__ = (
        "amounts",
        "ceilings",
        "counted",
        "ends",
        "held_by",
        "holdings",
        "leaving",
        "lines",
        "money",
        "now",
        "reach",
        "room",
        "snapshot",
        "victims",
        "whole",
    )

    def __init__(self, snapshot: PoolSnapshot) -> None:
        self.snapshot = snapshot
        self.now = 0
        tree = Tree(snapshot.accounts)
        places = [tree.index.get(team.account, -1) for team in snapshot.teams]
        self.lines = TeamQueues(snapshot.teams, places, snapshot.flavor.gpu_fraction)
        self.lines.join(snapshot.waiters)
        self.ceilings: dict[int, tuple[tuple[int, int], ...]] = {}
        """By line, the ceilings of its team that may keep a waiter from starting; mostly none."""
        self.amounts: dict[int, list[int]] = {}
        """By line, what its team holds of these."""
        for line in self.lines.lines:
            if limits := ceilings.binding(line.facts, (entry[4] for entry in line.waiters)):
                self.ceilings[line.index] = limits
                self.amounts[line.index] = list(line.facts.held)
        self.money: dict[int, int] = {}
        """By line, what is left of its team's budget; without those that have none, or cost nothing."""
        for line in self.lines.lines:
            if line.facts.budget is not None and snapshot.prices:
                self.money[line.index] = line.facts.budget.left
        card = snapshot.card
        self.counted = node_resources.may_run_out(snapshot)
        """Which of a node's other resources have to be counted; mostly none."""
        self.reach = node_resources.Reach(snapshot.hosts)
        blocks = node_resources.blocks_of(snapshot, self.counted)
        self.whole = node_resources.blocks_of(snapshot, self.counted, empty=True)
        """The nodes as if they were empty."""
        self.room = FreeCapacity(tree, blocks, card.free if card else 0, card.per_unit if card else 0)
        self.holdings: dict[str, Holding] = {}
        self.held_by: dict[tuple[str, str], int] = {}
        self.ends: list[tuple[int, str, Holding]] = []
        """All holdings that end and are not leaving, first to end first."""
        self.leaving: list[Holding] = []
        self.victims: dict[int, list[Holding]] = {}
        """Holdings that could be made to leave, by line, first to leave first."""
        for holder in sorted(snapshot.holders, key=_largest_pods_first):
            self._settle(holder)
        self.ends.sort(key=_by_end)
        for line_victims in self.victims.values():
            line_victims.sort(key=_by_rank)

    def _settle(self, holder: Holder) -> None:
        blocks = self.room.blocks
        places = blocks.held(holder.placed, holder.taken)
        if holder.unplaced_pods:
            places += blocks.place_some(holder.units_each, holder.unplaced_pods, holder.beside)
        holding = Holding(
            id=holder.id,
            line=self.lines.of(holder.team),
            owner=holder.owner,
            units=holder.units,
            units_each=holder.units_each,
            priority=holder.priority,
            preemptible=holder.preemptible,
            lent=holder.lent,
            places=places,
            since=-holder.age_seconds,
            lost_since=-holder.lost_seconds,
            ends=None if holder.ends_in is None else max(0, holder.ends_in),
            beside=holder.beside,
            most=holder.most,
            leaving=holder.leaving,
        )
        self.holdings[holding.id] = holding
        self._count_owner(holding, holding.units)
        if holding.leaving:
            self.leaving.append(holding)
            return
        if holding.ends is not None:
            self.ends.append((holding.ends, holding.id, holding))
        if holding.preemptible:
            self.victims.setdefault(holding.line.index, []).append(holding)

    def _count_owner(self, holding: Holding, units: int) -> None:
        key = (holding.line.slug, holding.owner)
        self.held_by[key] = self.held_by.get(key, 0) + units

    def _count_amounts(self, holding: Holding, sign: int) -> None:
        amounts = self.amounts.get(holding.line.index)
        if amounts is not None:
            for number, amount in enumerate(holding.most):
                amounts[number] += sign * amount

    def above_ceiling(self, line: TeamQueue, waiter: Waiter) -> str:
        """The rule by which its team's ceilings keep it from starting now; empty where they do not."""
        limits = self.ceilings.get(line.index)
        return ceilings.above(limits, tuple(self.amounts[line.index]), waiter.most) if limits else ""

    def need(self, line: TeamQueue, waiter: Waiter) -> budgets.Need:
        """What the waiter needs of its team's budget to start now."""
        budget = line.facts.budget
        if budget is None:
            return budgets.NOTHING
        return budgets.need_of(self.snapshot, waiter, budget.ends_at, self.snapshot.now + self.now)

    def longest(self, line: TeamQueue, waiter: Waiter) -> int:
        """The longest time limit that what is left of the budget pays for; 0 where none helps."""
        left = self.money.get(line.index, 0)
        return budgets.longest(self.snapshot, waiter, left, self.snapshot.now + self.now)

    def holding_of(
        self, line: TeamQueue, waiter: Waiter, places: Places, *, start: int, lent: bool
    ) -> Holding:
        """The waiter as it will hold its units from `start` on; nothing is taken yet."""
        return Holding(
            id=waiter.id,
            line=line,
            owner=waiter.owner,
            units=waiter.units,
            units_each=waiter.units_each,
            priority=waiter.priority,
            preemptible=waiter.preemptible,
            lent=lent,
            places=places,
            since=start,
            lost_since=start,
            ends=None if waiter.seconds is None else start + waiter.seconds,
            beside=waiter.beside,
            most=waiter.most,
            waiter=waiter,
        )

    def admit(self, holding: Holding) -> None:
        """Count a holding whose places are taken already."""
        self.room.count(holding, holding.units)
        self.holdings[holding.id] = holding
        self._count_owner(holding, holding.units)
        self._count_amounts(holding, 1)
        if holding.ends is not None:
            insort(self.ends, (holding.ends, holding.id, holding), key=_by_end)
        holding.line.use += holding.units * self.lines.penalty
        if holding.lent:
            holding.line.lendable -= holding.units
        self._promise(holding)

    def _promise(self, holding: Holding) -> None:
        """What it is promised of its team's budget. It is not given back when it ends: how much that will be, nobody
        knows.
        """
        left = self.money.get(holding.line.index)
        if left is not None and holding.waiter is not None:
            self.money[holding.line.index] = left - min(left, self.need(holding.line, holding.waiter).whole)

    def shape(self, waiter: Waiter) -> Shape:
        """What decides whether the waiter's pods have places, as far as any of it can run out."""
        if not self.counted:
            return waiter.units_each, waiter.pods
        return waiter.units_each, waiter.pods, waiter.beside

    def may_leave(self, holding: Holding) -> None:
        """A holding that was admitted later can be made to leave too."""
        insort(self.victims.setdefault(holding.line.index, []), holding, key=_by_rank)

    def stop(self, holding: Holding) -> None:
        """The holding is leaving; what it holds stays taken until it is gone."""
        holding.leaving = True
        self._forget(holding)
        self.leaving.append(holding)

    def remove(self, holding: Holding) -> None:
        """The holding is gone, and what it held is free."""
        if holding.leaving:
            self.leaving.remove(holding)
        else:
            self._forget(holding)
        del self.holdings[holding.id]
        self.room.release(holding)
        self._count_owner(holding, -holding.units)
        self._count_amounts(holding, -1)
        if holding.lent:
            holding.line.lendable += holding.units

    def _forget(self, holding: Holding) -> None:
        if holding.ends is not None:
            del self.ends[bisect_left(self.ends, (holding.ends, holding.id), key=_by_end)]
        held = self.victims.get(holding.line.index)
        if holding.preemptible and held:
            place = bisect_left(held, holding.rank, key=_by_rank)
            if place < len(held) and held[place] is holding:
                del held[place]

    def within_guaranteed(self, line: TeamQueue, waiter: Waiter) -> bool:
        """Whether the waiter needs nothing that other teams lend: now, or once its own team uses less, because until
        then it may not borrow either.
        """
        if line.place < 0:
            return True
        tree = self.room.tree
        guaranteed, used = tree.guaranteed[line.place], tree.used[line.place] + waiter.units
        return used <= guaranteed or (waiter.units <= guaranteed and used > tree.ceiling[line.place])


def _largest_pods_first(holder: Holder) -> tuple[int, str]:
    return (-holder.units_each, holder.id)


def _by_end(entry: tuple[int, str, Holding]) -> tuple[int, str]:
    return entry[:2]


def _by_rank(holding: Holding) -> tuple[int, int, int, str]:
    return holding.rank
