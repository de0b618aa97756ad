"""Workloads that ask for no GPU: they have no pool, no quota and no queue; their pods need CPU, memory and a place on a node.

The same policy judges such a workload as the others, alone on a snapshot whose units are places for pods; a node runs out
of everything else before it runs out of these. Admission lets it through all the same, because a node autoscaler waits for
its pods: only what no node could ever hold is refused, and where no node has room now the message says so. It waits in the
queue where its team's ceilings of CPU, memory, storage and pods leave too little.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction

from foundation.errors import Invalid
from foundation.models import PlatformSettings
from policy.estimates import Estimate, estimate
from policy.judge import judge
from policy.levers import Lever, levers
from policy.messages import BESIDE
from policy.pool_snapshot import NEW, Account, Block, PoolSnapshot, Provisionable, TeamFacts, Waiter
from policy.verdicts import Outcome, Verdict
from quotas.ceilings import CLAIMED, ceilings_of, held_of
from quotas.elsewhere import holders_of
from quotas.pool_sql import CLOSING
from quotas.waiters import new_waiter, waiter_of
from teams.models import Team
from workloads.models import Workload
from workloads.nodes.cpu import PlainRooms, kinds_of_the_past, plain_rooms
from workloads.placement import ON_DEMAND, FlavorFacts, Sharing
from workloads.podrequests import PODS, Others, PodGroup
from workloads.states import Desired, Phase, Priority, Reason

WAITING_MOST = 200
"""Others of a team that are looked at beside the one that is asked about."""
ENOUGH = 1_000_000_000
"""Units of a node: so many that it runs out of everything else first."""
UNKNOWN_START = Estimate(
    None, None, "", "Nobody knows when a node has room: what asks for no GPU has no queue."
)
_PLAIN = FlavorFacts("", PODS, Fraction(1), Sharing.NONE, {}, (), {ON_DEMAND: {}})


@dataclass(frozen=True)
class PlainAnswer:
    """The verdict, and changes that would let it start now."""

    verdict: Verdict
    levers: tuple[Lever, ...] = ()
    complete: bool = True
    start: Estimate = UNKNOWN_START
    """When it starts, where it is not admitted now."""


def answer(noun: str, groups: Sequence[PodGroup], *, now: datetime, with_levers: bool = False) -> PlainAnswer:
    """The answer about these pods now: NEVER names the field, WAIT says what lacks where, though the pods are made."""
    rooms = plain_rooms()
    if not rooms.seen:
        return PlainAnswer(admitted(noun))
    judged = [(group, *_judged(noun, group, rooms, now)) for group in groups]
    for outcome in (Outcome.NEVER, Outcome.WAIT):
        for group, snapshot, verdict in judged:
            if verdict.outcome is outcome:
                # A change of one group says nothing about the others.
                helps = with_levers and len(groups) == 1
                return _short(group, snapshot, verdict, with_levers=helps)
    return PlainAnswer(admitted(noun))


def answer_below_ceilings(
    waiter: Waiter,
    *,
    team: Team,
    focus: Workload | None,
    without: Workload | None,
    now: datetime,
    with_levers: bool,
) -> PlainAnswer | None:
    """What keeps it below its team's ceilings from starting now, with what waits of the team; None where nothing does."""
    snapshot = team_snapshot(team=team, waiters=[*_waiting(team, focus, without), replace(waiter)], now=now)
    verdict = judge(snapshot, waiter.id)
    if verdict.admitted:
        return None
    grace = PlatformSettings.current().grace_seconds
    later = replace(snapshot, holders=holders_of(team.slug, grace_seconds=grace, now=now))
    start = estimate(later, waiter.id)
    if not with_levers:
        return PlainAnswer(verdict, start=start)
    offered = levers(later, waiter.id, base=start)
    return PlainAnswer(verdict, offered.levers, offered.complete, start)


def _waiting(team: Team, focus: Workload | None, without: Workload | None) -> list[Waiter]:
    """Others of the team that wait without a GPU."""
    rows = Workload.objects.filter(
        team=team, flavor=None, phase=Phase.QUEUED.value, desired=Desired.RUN.value
    ).select_related("team")
    left_out = [workload.pk for workload in (focus, without) if workload is not None]
    return [
        waiter_of(row) for row in rows.exclude(pk__in=left_out).order_by("queued_at", "pk")[:WAITING_MOST]
    ]


def team_snapshot(*, team: Team, waiters: Iterable[Waiter], now: datetime) -> PoolSnapshot:
    """The snapshot in which these wait for nothing but the team's ceilings, or that it is closed; three queries."""
    account = Account("", None, ENOUGH, ENOUGH, ENOUGH, 0)
    facts = TeamFacts(
        team.slug,
        account.name,
        stopped=CLOSING if team.closing_since else "",
        ceilings=ceilings_of([team])[team.pk][: len(CLAIMED)],
        held=tuple(held_of([team]).get(team.pk, (0,) * len(CLAIMED))),
    )
    places = (replace(waiter, units=max(1, *waiter.most[-1:]), units_each=1) for waiter in waiters)
    return PoolSnapshot(
        flavor=_PLAIN,
        capacity_type=ON_DEMAND,
        now=int(now.timestamp()),
        revision=0,
        accounts=(account,),
        teams=(facts,),
        blocks=(Block("", ENOUGH, ENOUGH),),
        largest_block=ENOUGH,
        exists="",
        waiters=tuple(places),
    )


def admitted(noun: str) -> Verdict:
    """Admission's verdict on a workload that asks for no GPU."""
    return Verdict(Outcome.ADMIT, Reason.CREATING, f"This {noun} asks for no GPU.", rule="no-gpu")


def check_held(noun: str, groups: Sequence[PodGroup], *, now: datetime) -> None:
    """Raises Invalid, which names the field, for pods that no node could ever hold."""
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
        answered = replace(verdict, field=f"{group.within}{verdict.field}")
    else:
        message = f"{verdict.message} Its pods are made, and wait in the cluster for a node."
        answered = replace(verdict, reason=Reason.UNSCHEDULABLE, message=message)
    if not with_levers:
        return PlainAnswer(answered)
    offered = levers(snapshot, NEW, base=UNKNOWN_START)
    return PlainAnswer(answered, tuple(filter(_is_meant, offered.levers)), offered.complete)


def _is_meant(lever: Lever) -> bool:
    """Not a number of replicas: of an endpoint the fewest wait, and a lever names the most."""
    return set(lever.change) <= set(BESIDE)


def pool_snapshot_of(waiter: Waiter, rooms: PlainRooms, *, now: datetime) -> PoolSnapshot:
    """The snapshot in which this waiter alone waits for places on nodes."""
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
