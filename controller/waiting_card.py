"""The waiting card: why a workload waits, when it starts, what it costs, and what would make it start sooner.

Preview and waiting card are computed from the same snapshot by the same policy that admits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from uuid import UUID

from controller.admission import forecasts
from controller.hints import Hint, price_hints
from controller.in_use import InUse, in_use
from controller.reconcile.adapters import adapter_for
from costs.queries import CapacityQuote, PriceBook, cost_for, quotes_for, rate_now, spans_by_card
from policy import judge
from policy.budgets import BudgetShare, share_of
from policy.estimates import Estimate, estimate
from policy.levers import Alternative, Lever, levers
from policy.pool_snapshot import Account, Beside, PoolSnapshot, TeamFacts, Waiter
from policy.verdicts import CyclePlan, Outcome, Verdict
from quotas import cpu_admission, snapshots
from quotas.elsewhere import with_elsewhere
from quotas.models import Preemption
from quotas.queries import Past, hit_rate, past_of
from quotas.snapshots import Outlook
from quotas.waiters import waiter_of
from teams.models import Team
from workloads.kinds import kind_of
from workloads.models import ResourceFlavor, Workload
from workloads.nodes.capacity import Observed, Seen, last_seen
from workloads.nodes.sizing import beside_with
from workloads.placement import FlavorFacts
from workloads.podrequests import PodGroup
from workloads.podspec.specs import ContainerSpec
from workloads.states import Phase, Reason

ALTERNATIVES_MAX = 4
AHEAD_MAX = 20
ANOTHER_TEAM = "another team"


@dataclass(frozen=True)
class Ahead:
    """A workload ahead in the queue; another team's has no id, and a team name only if that team shows it."""

    id: str | None
    team: str
    units: int


@dataclass(frozen=True)
class LeverOffer:
    """A possible change of the request, with the start and cost that it would give. Money in micro-USD.

    `change` has the fields of the request by the names that its kind gives them.
    """

    lever: Lever
    change: Mapping[str, int | str]
    rate_per_hour: int | None
    at_time_limit: int | None


@dataclass(frozen=True)
class ObservedEvidence:
    """A number behind the verdict, and when it was observed."""

    fact: str
    value: int
    unit: str
    observed_at: datetime


@dataclass(frozen=True)
class Leaving:
    """A run to be preempted for it; another team's has no id."""

    id: str | None
    lost_seconds: int


_OF_NODES = frozenset(
    {
        "free",
        "largest_free_block",
        "provisionable",
        "largest_free_cpu",
        "largest_free_memory",
        "largest_free_ephemeral_storage",
    }
)


@dataclass(frozen=True)
class Card:
    """The contents of the preview and the waiting card. Money in micro-USD, None without a price."""

    verdict: Verdict
    kind: str
    units: int
    now: datetime
    revision: int
    position: int | None
    ahead_count: int
    ahead: tuple[Ahead, ...]
    estimate: Estimate
    past_hit_rate: float | None
    rate_per_hour: int | None
    at_time_limit: int | None
    account: Account | None
    team: TeamFacts | None
    by_capacity: tuple[CapacityQuote, ...] = ()
    """The cost on each capacity type that the flavor has and that has a price."""
    budget: BudgetShare | None = None
    offers: tuple[LeverOffer, ...] = ()
    offers_complete: bool = True
    """Whether there is nothing else that would make it start sooner, of what levers change."""
    hints: tuple[Hint, ...] = ()
    """What is allowed but seldom meant."""
    decision: UUID | None = None
    """The newest receipt of what waits."""
    preempted: Preemption | None = None
    """The last time that it had to leave."""
    names: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Name and kind of every workload whose id it has."""
    in_use: tuple[InUse, ...] = ()
    """Who holds the units of its pool, where it waits for them."""
    seen: Seen | None = None
    """How old what it says of nodes is; None where it says nothing of them."""
    since: datetime | None = None
    """Since when it says so; None for a request that is not submitted yet."""
    ended: bool = False
    """Whether it has ended, so that nothing is judged any more."""

    @property
    def outcome(self) -> str:
        """`admit`, `wait` or `never`, or `ended`."""
        return "ended" if self.ended else self.verdict.outcome.value

    @property
    def evidence(self) -> tuple[ObservedEvidence, ...]:
        """Every number with its age: node capacity is as old as the watch of nodes, all else is current."""
        nodes_at = (self.seen.nodes_at if self.seen else None) or self.now
        return tuple(
            ObservedEvidence(
                fact.fact, fact.value, fact.unit, nodes_at if fact.fact in _OF_NODES else self.now
            )
            for fact in self.verdict.evidence
        )

    @property
    def victims(self) -> tuple[Leaving, ...]:
        """The runs to be preempted for it; those of other teams have no ids."""
        own = self.team.slug if self.team else None
        return tuple(
            Leaving(victim.id if victim.team == own else None, victim.lost_seconds)
            for victim in self.verdict.victims
        )

    @property
    def quota_before(self) -> dict[str, int]:
        """The team's quota figures by which it is judged: with those ahead that start now; empty without a quota."""
        return _quota(self.account, self._used) if self.account else {}

    @property
    def quota_after(self) -> dict[str, int]:
        """The quota figures after the workload's admission."""
        more = 0 if self.verdict.lent else self.units
        return _quota(self.account, self._used + more) if self.account else {}

    @property
    def _used(self) -> int:
        counted = (fact.value for fact in self.verdict.evidence if fact.fact == "used")
        return next(counted, self.account.used if self.account else 0)


def _quota(account: Account, used: int) -> dict[str, int]:
    return {
        "nominal": account.guaranteed,
        "used": used,
        "available": account.guaranteed - used,
        "borrowed": max(0, used - account.guaranteed),
        "limit": account.ceiling,
    }


@dataclass(frozen=True, kw_only=True)
class CardRequest:
    """A request, whether it is queued already or only previewed."""

    kind: str
    team: Team
    flavor: ResourceFlavor | None
    capacity_type: str
    waiter: Waiter
    time_limit_seconds: int | None
    container: ContainerSpec | None = None
    """The request itself; None where a change of its GPUs changes nothing else."""
    groups: tuple[PodGroup, ...] = ()
    """Its pods, where it asks for no GPU."""
    replaces: Workload | None = None
    """A waiting one in whose place this would come."""
    reader_id: int | None = None


def card_of(
    workload: Workload,
    *,
    named: frozenset[str],
    now: datetime,
    reader_id: int | None = None,
    with_levers: bool = True,
    price_book: PriceBook | None = None,
    container: ContainerSpec | None = None,
) -> Card | None:
    """The card of a workload that is queued or whose pods have no node; None once it has been admitted since it was read.

    `named` are slugs of teams the reader may see; `reader_id` has the limits that count, None for the owner; `price_book`
    and `container` spare queries where given.
    """
    sized = with_levers and workload.units
    asked = CardRequest(
        kind=workload.kind,
        team=workload.team,
        flavor=workload.flavor if workload.units else None,
        capacity_type=workload.capacity_type,
        waiter=waiter_of(workload),
        time_limit_seconds=workload.time_limit_seconds,
        container=(container or adapter_for(workload.kind).asked(workload)) if sized else None,
        groups=() if workload.units else _groups(workload),
        reader_id=reader_id,
    )
    past = past_of(workload, now=now)
    if asked.flavor is None:
        return _plain_card(asked, workload, past, now, with_levers=with_levers)
    outlook = _outlook(asked, asked.flavor, workload, now, others=ALTERNATIVES_MAX if with_levers else 0)
    if any(holder.id == asked.waiter.id for holder in outlook.own.pool.holders):
        return None
    prices = spans_by_card() if price_book is None else price_book
    return _card(
        asked, workload, asked.flavor, outlook, past, prices, named=named, now=now, with_levers=with_levers
    )


def _groups(workload: Workload) -> tuple[PodGroup, ...]:
    """The workload's pods without a node; one of each group if pods differ, since it is unknown which are placed."""
    groups = adapter_for(workload.kind).asked(workload).pod_groups(workload.pod_count)
    placed = (
        workload.pods.filter(gone_at__isnull=True, finished_at__isnull=True).exclude(node_name="").count()
    )
    if len(groups) == 1:
        return (replace(groups[0], pods=max(1, groups[0].pods - placed)),)
    return tuple(replace(group, pods=1) for group in groups) if placed else groups


def lacks_a_node(workload: Workload) -> bool:
    """Whether it asks for no GPU and the scheduler found no node for it: it has a card without being queued."""
    unplaced = workload.phase == Phase.ADMITTED.value and workload.reason == Reason.UNSCHEDULABLE.value
    return unplaced and not workload.units


def card_for(asked: CardRequest, *, named: frozenset[str], now: datetime, with_levers: bool = True) -> Card:
    """The card of a request that is not submitted yet."""
    past = Past(hit_rate(now=now), decision=None, preempted=None)
    if asked.flavor is None:
        return _plain_card(asked, None, past, now, with_levers=with_levers)
    outlook = _outlook(asked, asked.flavor, None, now, others=ALTERNATIVES_MAX if with_levers else 0)
    prices = spans_by_card()
    return _card(
        asked, None, asked.flavor, outlook, past, prices, named=named, now=now, with_levers=with_levers
    )


def judge_new(asked: CardRequest, *, now: datetime) -> Verdict:
    """The verdict that admission would give the request now."""
    if asked.flavor is None:
        return _without_gpu(asked, None, now).verdict
    return judge.judge(_outlook(asked, asked.flavor, None, now, others=0).own.pool, asked.waiter.id)


def _without_gpu(
    asked: CardRequest, focus: Workload | None, now: datetime, *, with_levers: bool = False
) -> cpu_admission.PlainAnswer:
    groups = asked.groups or (PodGroup(asked.waiter.pods, asked.waiter.beside),)
    on_nodes = cpu_admission.answer(asked.waiter.noun, groups, now=now, with_levers=with_levers)
    if on_nodes.verdict.outcome is Outcome.NEVER or (focus is not None and focus.phase != Phase.QUEUED.value):
        return on_nodes
    held_up = cpu_admission.answer_below_ceilings(
        asked.waiter, team=asked.team, focus=focus, without=asked.replaces, now=now, with_levers=with_levers
    )
    return held_up or on_nodes


def _outlook(
    asked: CardRequest, flavor: ResourceFlavor, focus: Workload | None, now: datetime, *, others: int
) -> Outlook:
    return snapshots.outlook_of(
        flavor=flavor,
        capacity_type=asked.capacity_type,
        now=now,
        team_id=asked.team.pk,
        others=others,
        extra=asked.waiter if focus is None else None,
        focus=focus,
        without=asked.replaces,
        # A previewed request may well start now, and then needs no other pool.
        later=focus is None,
    )


def _card(
    asked: CardRequest,
    focus: Workload | None,
    flavor: ResourceFlavor,
    outlook: Outlook,
    past: Past,
    price_book: PriceBook,
    *,
    named: frozenset[str],
    now: datetime,
    with_levers: bool,
) -> Card:
    waiter = asked.waiter
    kind, limit = asked.capacity_type, asked.time_limit_seconds
    snapshot = outlook.own.pool
    plan = judge.plan(snapshot, is_read=lambda waiting, _: waiting.id == waiter.id)
    verdict = plan.verdicts[waiter.id]
    waits = verdict.outcome is Outcome.WAIT
    before = judge.ahead(snapshot, waiter.id, cycle_plan=plan) if waits else ()
    place = judge.position(snapshot, waiter.id, cycle_plan=plan) if waits else None
    facts = next((team for team in snapshot.teams if team.slug == waiter.team), None)
    account = next((each for each in snapshot.accounts if facts and each.name == facts.account), None)
    snapshot = with_elsewhere(snapshot, [(waiter.team, verdict)], now=now)
    start = _start(snapshot, waiter, focus, plan)
    offers: tuple[LeverOffer, ...] = ()
    complete = True
    if with_levers and not verdict.admitted:
        offers, complete = _offers(
            asked, flavor, snapshot, outlook, plan=plan, start=start, price_book=price_book, now=now
        )
    verdict, start = forecasts.rested(focus, verdict, start, now)
    return Card(
        verdict=verdict,
        kind=asked.kind,
        units=waiter.units,
        now=now,
        revision=snapshot.revision,
        position=place,
        ahead_count=place - 1 if place else 0,
        ahead=_ahead(snapshot, before, waiter.team, named),
        estimate=start,
        past_hit_rate=past.hit_rate,
        rate_per_hour=rate_now(flavor, kind, waiter.units, price_book, now),
        at_time_limit=cost_for(flavor, kind, waiter.units, limit, price_book, now),
        account=account,
        team=facts,
        by_capacity=quotes_for(flavor, waiter.units, limit, price_book, now),
        budget=share_of(snapshot, waiter),
        offers=offers,
        offers_complete=complete,
        hints=price_hints(flavor, kind, facts, price_book, now),
        decision=past.decision,
        preempted=past.preempted,
        names=outlook.own.names,
        in_use=in_use(outlook.own.pool, waiter.team, named) if waits else (),
        seen=outlook.observed.seen,
        since=focus.since if focus else None,
    )


def _plain_card(
    asked: CardRequest, focus: Workload | None, past: Past, now: datetime, *, with_levers: bool
) -> Card:
    """The card of a request without GPUs: no quota, no queue position, no cost."""
    answer = _without_gpu(asked, focus, now, with_levers=with_levers)
    moment = int(now.timestamp())
    start = Estimate(moment, moment, "free now") if answer.verdict.admitted else answer.start
    verdict, start = forecasts.rested(focus, answer.verdict, start, now)
    at_limit = None if asked.time_limit_seconds is None else 0
    return Card(
        verdict=verdict,
        kind=asked.kind,
        units=0,
        now=now,
        revision=0,
        position=None,
        ahead_count=0,
        ahead=(),
        estimate=start,
        past_hit_rate=None,
        rate_per_hour=0,
        at_time_limit=at_limit,
        account=None,
        team=None,
        offers=tuple(LeverOffer(lever, _change(asked, lever), 0, at_limit) for lever in answer.levers),
        offers_complete=answer.complete,
        decision=past.decision,
        preempted=past.preempted,
        seen=last_seen(),
        since=focus.since if focus else None,
    )


def _start(snapshot: PoolSnapshot, waiter: Waiter, focus: Workload | None, plan: CyclePlan) -> Estimate:
    if focus is None:
        return estimate(snapshot, waiter.id, cycle_plan=plan)
    return forecasts.start_of(focus, snapshot, cycle_plan=plan)


def _ahead(snapshot: PoolSnapshot, ids: Sequence[str], team: str, named: frozenset[str]) -> tuple[Ahead, ...]:
    known: Mapping[str, Waiter] = {waiter.id: waiter for waiter in snapshot.waiters}
    rows = []
    for identity in ids[:AHEAD_MAX]:
        waiter = known[identity]
        own = waiter.team == team
        name = waiter.team if own or waiter.team in named else ANOTHER_TEAM
        rows.append(Ahead(waiter.id if own else None, name, waiter.units))
    return tuple(rows)


def _offers(
    asked: CardRequest,
    flavor: ResourceFlavor,
    snapshot: PoolSnapshot,
    outlook: Outlook,
    *,
    plan: CyclePlan,
    start: Estimate,
    price_book: PriceBook,
    now: datetime,
) -> tuple[tuple[LeverOffer, ...], bool]:
    """Offers of changes within the pool or to another pool of the outlook, and whether the list is complete."""
    others = [_alternative(asked, flavor, pool, outlook.observed) for pool in outlook.others]
    answer = levers(
        snapshot,
        asked.waiter.id,
        others,
        time_limit_seconds=asked.time_limit_seconds,
        owner=None if asked.reader_id is None else str(asked.reader_id),
        share=lambda units: _beside(asked, flavor.name, None, units, outlook.observed),
        cycle_plan=plan,
        base=start,
    )
    flavors = {pool.snapshot.flavor.name: pool.snapshot.flavor for pool in others}
    offers = tuple(_offer(asked, lever, flavors, price_book, now) for lever in answer.levers)
    return offers, answer.complete


def _offer(
    asked: CardRequest,
    lever: Lever,
    flavors: Mapping[str, FlavorFacts],
    price_book: PriceBook,
    now: datetime,
) -> LeverOffer:
    change = lever.change
    flavor = flavors.get(str(change.get("flavor", "")), asked.flavor)
    capacity_type = str(change.get("capacity", asked.capacity_type))
    limit = int(change["time_limit_seconds"]) if "time_limit_seconds" in change else asked.time_limit_seconds
    units = _units(asked.waiter, change)
    rate = rate_now(flavor, capacity_type, units, price_book, now)
    at_limit = cost_for(flavor, capacity_type, units, limit, price_book, now)
    return LeverOffer(lever, _change(asked, lever), rate, at_limit)


def _change(asked: CardRequest, lever: Lever) -> dict[str, int | str]:
    replicas = kind_of(asked.kind).replicas_field
    return {replicas if name == "replicas" else name: value for name, value in lever.change.items()}


def _units(waiter: Waiter, change: Mapping[str, int | str]) -> int:
    units_each = int(change.get("gpus_per_replica", waiter.units_each))
    replicas = Fraction(waiter.units, waiter.units_each) if waiter.units_each else Fraction(0)
    return int(units_each * int(change.get("replicas", replicas)))


def _alternative(
    asked: CardRequest, flavor: ResourceFlavor, other: PoolSnapshot, observed: Observed
) -> Alternative:
    """The other pool as an alternative, with the request fields that select it."""
    name, capacity_type = other.flavor.name, other.capacity_type
    change = {} if name == flavor.name else {"flavor": name}
    if capacity_type != asked.capacity_type:
        change["capacity"] = capacity_type
    return Alternative(change, other, _beside(asked, name, capacity_type, asked.waiter.units_each, observed))


def _beside(asked: CardRequest, flavor: str, capacity: str | None, units: int, observed: Observed) -> Beside:
    """What a pod would request besides `units` of that flavor; `capacity` None for the requested capacity type."""
    spec = asked.container
    if spec is None or not spec.left_out:
        return asked.waiter.beside
    return beside_with(spec, flavor=flavor, capacity=capacity or spec.capacity, units=units, known=observed)
