"""Kueue's arithmetic of lending and borrowing quota, in whole units.

An account lends its guaranteed quota except the local part. Its use above local also counts in its parent, and
so on up to the root. No account may be used above its ceiling.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from policy.pool_snapshot import Account


@dataclass(frozen=True)
class LimitNode:
    """What people set for a team (`nominal` is not None) or a cohort, and what a team's claims hold."""

    name: str
    parent: str | None
    nominal: int | None
    borrowing_limit: int | None
    lending_limit: int | None
    held: int = 0


@dataclass(frozen=True)
class Derived:
    """The columns of an account that follow from the limits of the whole tree."""

    guaranteed: int
    local: int
    ceiling: int
    used: int


class Tree:
    """Accounts that are claimed from and given back to, on a copy of the facts.

    Its lists go by an account's place, which `place` looks up once; only `used` ever changes.
    """

    __slots__ = ("ceiling", "guaranteed", "index", "local", "parent", "root", "used")

    def __init__(self, accounts: Sequence[Account]) -> None:
        self.index = {account.name: place for place, account in enumerate(accounts)}
        self.parent = [-1 if account.parent is None else self.index[account.parent] for account in accounts]
        self.guaranteed = [account.guaranteed for account in accounts]
        self.local = [account.local for account in accounts]
        self.ceiling = [account.ceiling for account in accounts]
        self.used = [account.used for account in accounts]
        self.root = [self._root_of(place) for place in range(len(accounts))]

    def _root_of(self, place: int) -> int:
        steps = 0
        while self.parent[place] >= 0:
            place = self.parent[place]
            steps += 1
            if steps > len(self.parent):
                raise ValueError("The accounts' parents form a cycle.")
        return place

    def copy(self) -> Tree:
        """Another tree of the same accounts whose use changes apart from this one's."""
        other = Tree.__new__(Tree)
        other.index, other.parent, other.root = self.index, self.parent, self.root
        other.guaranteed, other.local, other.ceiling = self.guaranteed, self.local, self.ceiling
        other.used = self.used.copy()
        return other

    def __contains__(self, name: str) -> bool:
        return name in self.index

    def place(self, name: str) -> int:
        """Where an account stands: what the `_at` methods take, which save the look-up."""
        return self.index[name]

    def available(self, name: str) -> int:
        """The most that one claim may take; negative by what is used too much."""
        return self.available_at(self.index[name])

    def available_at(self, place: int) -> int:
        """`available` by place: what is local may be claimed even where an ancestor is used too much."""
        used, parent = self.used[place], self.parent[place]
        room = self.ceiling[place] - used
        if parent < 0:
            return room
        slack = self.local[place] - used
        above = self.available_at(parent)
        if slack > 0:
            above = slack + above if above > 0 else slack
        return min(room, above)

    def take(self, name: str, units: int) -> None:
        """Count `units` more, and the overflow above local in the parents; `available` says what is allowed."""
        self.change_at(self.index[name], units)

    def give(self, name: str, units: int) -> None:
        """Undo a `take`."""
        self.change_at(self.index[name], -units)

    def change_at(self, place: int, units: int) -> None:
        while units and place >= 0:
            over = self.used[place] - self.local[place]
            self.used[place] += units
            if over < 0 or over + units < 0:
                units = max(0, over + units) - max(0, over)
            place = self.parent[place]

    def borrowed(self, name: str) -> int:
        """What an account uses above its guaranteed quota."""
        return self.borrowed_at(self.index[name])

    def borrowed_at(self, place: int) -> int:
        return max(0, self.used[place] - self.guaranteed[place])

    def within_guaranteed(self, place: int, units: int) -> bool:
        """Whether `units` more need nothing that others lend."""
        return self.used[place] + units <= self.guaranteed[place]


def derive(nodes: Iterable[LimitNode]) -> dict[str, Derived]:
    """The derived columns of every account of a forest, by name.

    Raises ValueError for a cycle, KeyError for a parent that is not among the nodes.
    """
    by_name = {node.name: node for node in nodes}
    order = _parents_first(by_name)
    guaranteed = {name: by_name[name].nominal or 0 for name in order}
    local: dict[str, int] = {}
    used = {name: by_name[name].held if by_name[name].nominal is not None else 0 for name in order}
    for name in reversed(order):
        node = by_name[name]
        local[name] = _local(node, guaranteed[name])
        if node.parent is not None:
            guaranteed[node.parent] += guaranteed[name] - local[name]
            used[node.parent] += max(0, used[name] - local[name])
    ceiling: dict[str, int] = {}
    for name in order:
        node = by_name[name]
        if node.parent is None:
            ceiling[name] = guaranteed[name]
            continue
        ceiling[name] = local[name] + ceiling[node.parent]
        if node.borrowing_limit is not None:
            ceiling[name] = min(ceiling[name], guaranteed[name] + node.borrowing_limit)
    return {name: Derived(guaranteed[name], local[name], ceiling[name], used[name]) for name in by_name}


def _local(node: LimitNode, guaranteed: int) -> int:
    if node.parent is None:
        return guaranteed
    return 0 if node.lending_limit is None else max(0, guaranteed - node.lending_limit)


def _parents_first(by_name: Mapping[str, LimitNode]) -> list[str]:
    children: dict[str, list[str]] = {name: [] for name in by_name}
    order = []
    for name, node in by_name.items():
        if node.parent is None:
            order.append(name)
        else:
            children[node.parent].append(name)
    for name in order:
        order.extend(children[name])
    if len(order) < len(by_name):
        raise ValueError("The accounts' parents form a cycle.")
    return order
