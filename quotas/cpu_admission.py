"""What asks for no GPU: it has no pool, no quota and no queue, and its pods need CPU, memory and a place of a node.

It is judged by the same policy as the others, alone on a snapshot whose units are places for pods, of which no node runs
out before it runs out of something else. Admission lets it through all the same, because what makes nodes waits for
its pods: only what no node could ever hold is refused, and what no node has room for now is told so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction

from foundation.errors import Invalid
from policy.estimates import Estimate
from policy.judge import judge
from policy.levers import Lever, levers
from policy.messages import BESIDE
from policy.pool_snapshot import NEW, Account, Block, PoolSnapshot, Provisionable, TeamFacts, Waiter
from policy.verdicts import Outcome, Verdict
from quotas.waiters import new_waiter
from workloads.cpu_nodes import PlainRooms, kinds_of_the_past, plain_rooms
from workloads.placement import ON_DEMAND, FlavorFacts, Sharing
from workloads.podrequests import PODS, Others, PodGroup
from workloads.states import Priority, Reason

ENOUGH = 1_000_000
"""Units of a node, which are to be the last thing that it runs out of."""
UNKNOWN_START = Estimate(
    None, None, "", "Nobody knows when a node has room: what asks for no GPU has no queue."
)
_PLAIN = FlavorFacts("", PODS, Fraction(1), Sharing.NONE, {}, (), {ON_DEMAND: {}})


@dataclass(frozen=True)
class PlainAnswer:
    """The verdict, and changes that would let it start now."""

    verdict: Verdict
    found: tuple[Lever, ...] = ()
    complete: bool = True


def answer(noun: str, groups: Sequence[PodGroup], *, now: datetime, with_levers: bool = False) -> PlainAnswer:
    """What is to be said of those pods now: NEVER names the field, WAIT says what lacks where, though its pods are made."""
    rooms = plain_rooms()
    if not rooms.seen:
        return PlainAnswer(admitted(noun))
    judged = [(group, *_judged(noun, group, rooms, now)) for group in groups]
    for outcome in (Outcome.NEVER, Outcome.WAIT):
        for group, snapshot, verdict in judged:
            if verdict.outcome is outcome:
                # A change of one group says nothing of the others.
                helps = with_levers and len(groups) == 1
                return _short(group, snapshot, verdict, with_levers=helps)
    return PlainAnswer(admitted(noun))


def admitted(noun: str) -> Verdict:
    """What admission answers to anything that asks for no GPU."""
    return Verdict(Outcome.ADMIT, Reason.CREATING, f"This {noun} asks for no GPU.", rule="no-gpu")


def check_held(noun: str, groups: Sequence[PodGroup], *, now: datetime) -> None:
    """Invalid, naming the field, for what no node could ever hold."""
    verdict = answer(noun, groups, now=now).verdict
    if verdict.outcome is Outcome.NEVER:
        raise Invalid.of_field(verdict.field, verdict.message, code="never_fits")


def _judged(noun: str, group: PodGroup, rooms: PlainRooms, now: datetime) -> tuple[PoolSnapshot, Verdict]:
    one = new_waiter(
        team="",
        owner_id=0,
        noun=noun,
        units=group.pods,
        units_each=1,
        pods=group.pods,
        beside=group.beside,
        priority=Priority.NORMAL,
        seconds=None,
        preemptible=False,
        now=now,
    )
    snapshot = pool_snapshot_of(one, rooms, now=now)
    verdict = judge(snapshot, NEW)
    if verdict.outcome is Outcome.NEVER:
        snapshot = pool_snapshot_of(one, replace(rooms, kinds=(*rooms.kinds, *kinds_of_the_past())), now=now)
        verdict = judge(snapshot, NEW)
    return snapshot, verdict


def _short(group: PodGroup, snapshot: PoolSnapshot, verdict: Verdict, *, with_levers: bool) -> PlainAnswer:
    if verdict.outcome is Outcome.NEVER:
        said = replace(verdict, field=f"{group.within}{verdict.field}")
    else:
        message = f"{verdict.message} Its pods are made, and wait in the cluster for a node."
        said = replace(verdict, reason=Reason.UNSCHEDULABLE, message=message)
    if not with_levers:
        return PlainAnswer(said)
    offered = levers(snapshot, NEW, base=UNKNOWN_START)
    return PlainAnswer(said, tuple(filter(_is_meant, offered.found)), offered.complete)


def _is_meant(lever: Lever) -> bool:
    """Not how many replicas: of an endpoint it is the fewest that wait, and a lever names the most."""
    return set(lever.change) <= set(BESIDE)


def pool_snapshot_of(waiter: Waiter, rooms: PlainRooms, *, now: datetime) -> PoolSnapshot:
    """One who waits alone for places on nodes."""
    kinds: tuple[Others, ...] = () if rooms.more else rooms.kinds
    account = Account("", None, ENOUGH, ENOUGH, ENOUGH, 0)
    return PoolSnapshot(
        flavor=_PLAIN,
        capacity_type=ON_DEMAND,
        now=int(now.timestamp()),
        revision=0,
        accounts=(account,),
        teams=(TeamFacts(waiter.team, account.name),),
        blocks=tuple(Block(room.node, ENOUGH, ENOUGH, room.whole, room.left) for room in rooms.rooms),
        largest_block=ENOUGH,
        exists="",
        hosts=tuple((ENOUGH, kind) for kind in kinds),
        provisionable=Provisionable(0, 0),
        waiters=(waiter,),
    )
