"""Which runs have to leave so that another may start, and no more than needed.

Lent quota comes back to a waiter that its team's own guaranteed quota covers: from teams that borrow, and only while
they borrow. After that, lower priority leaves in the waiter's own team. No run leaves before the minimum run time.
Owner and borrower cannot chase each other: a waiter that reclaims does not borrow, and one that borrows cannot reclaim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from policy.free_capacity import FreeCapacity, Holding, PoolInTime
from policy.ordering import TeamQueue
from policy.pool_snapshot import Holder, PoolSnapshot, Waiter
from policy.verdicts import PreemptionCause, Victim

Chosen = tuple[Holding, PreemptionCause]
_NOBODY = 1 << 62
"""A priority that no waiter is above."""


def choose(pool: PoolInTime, after: FreeCapacity, line: TeamQueue, waiter: Waiter) -> list[Chosen] | None:
    """The runs that must leave, first to leave first, so that the waiter fits what is then free; None where no
    choice of them is enough.

    `after` is the room once all that are leaving already have left; it stays as it is.
    """
    if line.place < 0:
        return None
    reclaimable, above = room_to_make(pool, after, line)
    if waiter.units > reclaimable and waiter.priority <= above:
        return None
    room = after.copy()
    chosen: list[Chosen] = []
    for holding, cause in _candidates(pool, room, line, waiter):
        room.release(holding)
        chosen.append((holding, cause))
        if not room.lack(line.place, waiter):
            needed = _only_needed(room, chosen, lambda: not room.lack(line.place, waiter))
            return None if _in_vain(room, needed, line, waiter) else needed
    return None


def _in_vain(room: FreeCapacity, chosen: list[Chosen], line: TeamQueue, waiter: Waiter) -> bool:
    """Whether a run of the waiter's own team that leaves would have the next turn again, because it would not borrow and
    the waiter would.
    """
    tree, place = room.tree, line.place
    return not tree.within_guaranteed(place, waiter.units) and any(
        tree.within_guaranteed(place, holding.units)
        for holding, cause in chosen
        if cause is PreemptionCause.IN_CLUSTER_QUEUE
    )


def evictions_after_cut(snapshot: PoolSnapshot, team: str) -> tuple[Victim, ...]:
    """The runs of a team that have to leave because it uses more than its ceiling, or borrows what is not lent any more."""
    pool = PoolInTime(snapshot)
    line = pool.lines.by_slug.get(team)
    if line is None or line.place < 0:
        return ()
    room, place = pool.room, line.place
    for holding in pool.leaving:
        room.release(holding)

    def too_much() -> bool:
        tree = room.tree
        over = tree.used[place] > tree.ceiling[place]
        return over or (tree.available_at(place) < 0 and tree.borrowed_at(place) > 0)

    chosen: list[Chosen] = []
    # No minimum run time protects: a person has decided that they leave.
    for holding in (victim for victim in pool.victims.get(line.index, ()) if not victim.leaving):
        if not too_much():
            break
        if not holding.lent:
            room.release(holding)
            chosen.append((holding, PreemptionCause.QUOTA_REDUCED))
    if too_much():
        return victims(pool, chosen)
    return victims(pool, _only_needed(room, chosen, lambda: not too_much()))


def reclaim_headroom(holders: Iterable[Holder], units: int) -> tuple[Victim, ...]:
    """The runs on lent headroom that have to leave so that `units` of it return; all of them where they hold less.

    Those that are leaving already count towards it. No minimum run time protects: the endpoint owns the headroom.
    """
    lent = [holder for holder in holders if holder.lent]
    missing = units - sum(holder.units for holder in lent if holder.leaving)
    chosen = []
    for holder in sorted(lent, key=_least_lost_first):
        if missing <= 0:
            break
        if not holder.leaving and holder.units > 0:
            missing -= holder.units
            chosen.append(holder)
    for holder in reversed(chosen.copy()):
        if missing + holder.units <= 0:
            missing += holder.units
            chosen.remove(holder)
    cause = PreemptionCause.HEADROOM_RECLAIMED
    return tuple(Victim(holder.id, holder.team, holder.lost_seconds, cause) for holder in chosen)


def victims(pool: PoolInTime, chosen: Iterable[Chosen]) -> tuple[Victim, ...]:
    """The chosen as victims, with the work that they lose as of now."""
    return tuple(
        Victim(holding.id, holding.line.slug, pool.now - holding.lost_since, cause)
        for holding, cause in chosen
    )


def room_to_make(pool: PoolInTime, after: FreeCapacity, line: TeamQueue) -> tuple[int, int]:
    """Bounds for preemption: the units up to which a claim may reclaim, and the priority above which it may preempt.

    A cheap upper bound: most waiters have no run to preempt.
    """
    own = pool.victims.get(line.index)
    above = own[0].priority if own else _NOBODY
    left = after.tree.guaranteed[line.place] - after.tree.used[line.place]
    return (left if left > 0 and any(True for _ in lenders(pool, after, line)) else 0), above


def lenders(pool: PoolInTime, room: FreeCapacity, line: TeamQueue) -> Iterator[TeamQueue]:
    """The other teams' queues that borrow within this one's cohort tree."""
    tree = room.tree
    root = tree.root[line.place]
    for index, held in pool.victims.items():
        other = pool.lines.lines[index]
        if other is line or not held or other.place < 0 or tree.root[other.place] != root:
            continue
        if tree.borrowed_at(other.place) > 0:
            yield other


def _candidates(pool: PoolInTime, room: FreeCapacity, line: TeamQueue, waiter: Waiter) -> Iterator[Chosen]:
    """The runs in the order in which they leave; looks at the room again after each of them."""
    if room.tree.within_guaranteed(line.place, waiter.units):
        for holding in _borrowers(pool, room, line):
            yield holding, PreemptionCause.IN_COHORT_RECLAMATION
    for holding in _eligible(pool, line):
        if holding.priority >= waiter.priority:
            return
        yield holding, PreemptionCause.IN_CLUSTER_QUEUE


def _borrowers(pool: PoolInTime, room: FreeCapacity, line: TeamQueue) -> Iterator[Holding]:
    """Low priority first, then runs of the team that borrows most, then those that lose least."""
    queues = []
    for other in lenders(pool, room, line):
        held = [holding for holding in _eligible(pool, other) if not holding.lent]
        if held:
            queues.append((other, held[::-1]))
    while True:
        best = None
        for other, held in queues:
            borrowed = room.tree.borrowed_at(other.place)
            if held and borrowed:
                key = (held[-1].priority, -borrowed, held[-1].rank)
                if best is None or key < best[0]:
                    best = (key, held)
        if best is None:
            return
        yield best[1].pop()


def _eligible(pool: PoolInTime, line: TeamQueue) -> Iterator[Holding]:
    """Preemptible runs of a line that have had their minimum run time and are not leaving."""
    since = pool.now - pool.snapshot.rules.minimum_run_seconds
    for victim in pool.victims.get(line.index, ()):
        if victim.since <= since and not victim.leaving:
            yield victim


def _only_needed(room: FreeCapacity, chosen: list[Chosen], enough: Callable[[], bool]) -> list[Chosen]:
    """The chosen without those that need not leave after all; the last chosen is spared first."""
    kept = chosen.copy()
    for entry in reversed(chosen):
        room.take(entry[0])
        if enough():
            kept.remove(entry)
        else:
            room.release(entry[0])
    return kept


def _least_lost_first(holder: Holder) -> tuple[int, int, str]:
    return (holder.lost_seconds, holder.age_seconds, holder.id)
