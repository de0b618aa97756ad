"""Rows of a pool read into the frozen snapshot that the policy judges."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from functools import cached_property

from policy.decay import decayed, integral
from policy.packing import what_exists
from policy.pool_snapshot import (
    Account,
    AdmissionRules,
    Beyond,
    Block,
    BudgetFacts,
    CardFacts,
    Holder,
    PoolSnapshot,
    PriceFacts,
    Provisionable,
    TeamFacts,
    Waiter,
)
from quotas import pool_sql
from quotas.ceilings import CLAIMED, in_force
from quotas.models import Pool
from quotas.pool_rows import PoolReader, PoolRows
from quotas.waiters import left_of, waiter_of
from workloads.kinds import kind_of
from workloads.models import ResourceFlavor, Workload
from workloads.nodes.capacity import CardRoom, Observed, rooms_of
from workloads.placement import FlavorFacts
from workloads.states import OUT_OF_REACH, PRIORITY_VALUE

PERMILLE = 1000
_VALUE = {priority.value: value for priority, value in PRIORITY_VALUE.items()}


def pool_for(*, flavor: ResourceFlavor, capacity_type: str) -> Pool:
    """The pool's row, made when it is first asked for."""
    pool = Pool.objects.filter(flavor=flavor, capacity_type=capacity_type).first()
    return pool or Pool.objects.get_or_create(flavor=flavor, capacity_type=capacity_type)[0]


def pool_snapshot_of(
    *,
    flavor: ResourceFlavor,
    capacity_type: str,
    now: datetime,
    extra: Waiter | None = None,
    focus: Workload | None = None,
    without: Workload | None = None,
    history: bool = False,
    whole_line: bool = False,
) -> PoolSnapshot:
    """Everything a judgement of this pool looks at, as of now.

    `extra` is a waiter that has no row, `focus` one that must be shown however far behind it is, `without` one that
    would wait no longer. With `history` the expected ends follow reports and what the team's runs used of their limits.
    `whole_line` shows all that wait, also those beside the line, which ask for what was out of reach.
    """
    return snapshot_of(
        flavor=flavor,
        capacity_type=capacity_type,
        now=now,
        extra=extra,
        focus=focus,
        without=without,
        history=history,
        whole_line=whole_line,
        everybody=whole_line,
    ).pool


@dataclass(frozen=True)
class KeyedSnapshot:
    """A snapshot with the keys that acting on it needs."""

    pool: PoolSnapshot
    quota_ids: Mapping[str, int]
    """Ids of the quotas, by team."""
    shown: Mapping[str, tuple[str, str]]
    """Reason and message that the row of each waiter shows, by its id; the messages only where they were asked for."""
    names: Mapping[str, tuple[str, str]]
    """Name and kind of each waiter and holder, by its id."""


@dataclass(frozen=True)
class Outlook:
    """A pool, and what else its workloads could ask for, all in the cluster as it was observed once."""

    own: KeyedSnapshot
    observed: Observed
    _others: Callable[[], Sequence[_Assembly]]

    @cached_property
    def others(self) -> tuple[PoolSnapshot, ...]:
        """Other pools in which the team has a quota, the largest quotas first; the waiter stands in none of them."""
        return tuple(assembly.snapshot().pool for assembly in self._others())


def snapshot_of(
    *,
    flavor: ResourceFlavor,
    capacity_type: str,
    now: datetime,
    extra: Waiter | None = None,
    focus: Workload | None = None,
    without: Workload | None = None,
    history: bool = False,
    whole_line: bool = False,
    turn: int = 0,
    telling: bool = False,
    everybody: bool = False,
) -> KeyedSnapshot:
    """As `pool_snapshot_of`, with keys of the rows. In a later `turn` waiters further behind are shown, after the first
    few; with `everybody` all at once. `telling` also reads the messages that the rows show.
    """
    reader = PoolReader(now, without=without, history=history, telling=telling, everybody=everybody)
    pools, observed = reader.pools(flavor.pk, capacity_type, team_id=None, others=0, turn=turn)
    reader.beyond(pools, beside=whole_line)
    return _own(reader, pools[0], observed, flavor.facts, now, extra=extra, focus=focus)


def outlook_of(
    *,
    flavor: ResourceFlavor,
    capacity_type: str,
    now: datetime,
    team_id: int,
    others: int,
    extra: Waiter | None = None,
    focus: Workload | None = None,
    without: Workload | None = None,
    later: bool = False,
) -> Outlook:
    """As `pool_snapshot_of` with history, and beside it so many other pools in which the team has a quota.

    The others are read in the same statement, and with `later` in one of their own when they are first asked for: for
    a caller that may well do without them.
    """
    reader = PoolReader(now, without=without, history=True, telling=False, everybody=False)
    key, together = (flavor.pk, capacity_type), 0 if later else others
    (asked, *beside), observed = reader.pools(*key, team_id=team_id, others=together, turn=0)
    reader.beyond([asked, *beside], beside=False)

    def read_others() -> list[_Assembly]:
        rows = beside
        if later:
            rows = reader.others(*key, team_id=team_id, most=others)
            reader.beyond(rows, beside=False)
        facts = {flavor_facts.name: flavor_facts for flavor_facts in observed.flavors}
        # A flavor that came between two statements was not observed.
        return [_Assembly(row, facts[row.flavor], now, observed) for row in rows if row.flavor in facts]

    own = _own(reader, asked, observed, flavor.facts, now, extra=extra, focus=focus)
    return Outlook(own, observed, read_others)


def _own(
    reader: PoolReader,
    rows: PoolRows,
    observed: Observed,
    facts: FlavorFacts,
    now: datetime,
    *,
    extra: Waiter | None,
    focus: Workload | None,
) -> KeyedSnapshot:
    shown = {row.key for row in rows.waiting}
    far = focus if focus is not None and focus.pk not in shown else None
    before = reader.before(rows, far) if far is not None and _has_window(rows, far) else 0
    return _Assembly(rows, facts, now, observed, extra=extra, far=far, before=before).snapshot()


def _has_window(rows: PoolRows, far: Workload) -> bool:
    """Whether it is queued behind others of its team and priority; false for waiters beside the queue."""
    return bool(rows.shown[far.team.slug, far.priority]) and far.reason not in OUT_OF_REACH


def _cohort(name: str, known: set[str]) -> str | None:
    """The account of a cohort that has a row in this pool."""
    return f"cohort:{name}" if name in known else None


@dataclass(frozen=True)
class _Assembly:
    """Makes a snapshot of the rows of a pool and of what was observed; asks nothing."""

    rows: PoolRows
    flavor: FlavorFacts
    now: datetime
    observed: Observed
    extra: Waiter | None = None
    far: Workload | None = None
    """A waiter that is shown although its team's window does not reach it."""
    before: int = 0
    """How many of its own team and priority stand before `far`."""

    def snapshot(self) -> KeyedSnapshot:
        messages = {row.public_id: (row.reason, row.message) for row in self.rows.waiting}
        names = {row.public_id: (row.name, row.kind) for row in self.rows.waiting}
        names |= {row.public_id: (row.name, row.kind) for row in self.rows.held}
        if self.far is not None:
            messages[str(self.far.public_id)] = (self.far.reason, self.far.message)
            names[str(self.far.public_id)] = (self.far.name, self.far.kind)
        quota_ids = {quota.team: quota.id for quota in self.rows.quotas}
        return KeyedSnapshot(self._pool_snapshot(), quota_ids, messages, names)

    @cached_property
    def half_life(self) -> int:
        return self.rows.settings[2] * 3600

    @cached_property
    def permille(self) -> Mapping[str, int]:
        return {slug: round(share * PERMILLE) for slug, share in self.rows.history.items()}

    def _waiters(self) -> tuple[Waiter, ...]:
        waiters = [self._waiter(row) for row in sorted(self.rows.waiting, key=lambda row: row.key)]
        more = [waiter_of(self.far)] if self.far is not None else []
        if self.extra is not None:
            more.append(self.extra)
        return (*waiters, *(self._with_history(waiter) for waiter in more))

    def _before_far(self) -> int:
        shown = self.rows.shown[self.far.team.slug, self.far.priority] if self.far is not None else 0
        return max(0, self.before - shown)

    def _beyond(self) -> tuple[Beyond, ...]:
        shown = {(slug, _VALUE[priority]): count for (slug, priority), count in self.rows.shown.items()}
        rows = [(slug, _VALUE[priority], count, units) for slug, priority, count, units in self.rows.counts]
        return tuple(
            Beyond(team=slug, priority=value, count=count - shown.get((slug, value), 0), units=units)
            for slug, value, count, units in sorted(rows)
            if count > shown.get((slug, value), 0)
        )

    def _waiter(self, row: pool_sql.WaiterRow) -> Waiter:
        left = left_of(row.limit, row.used)
        return self._with_history(
            Waiter(
                id=row.public_id,
                team=row.team,
                owner=row.owner,
                noun=kind_of(row.kind).noun,
                units=row.units,
                units_each=row.units_each,
                pods=row.pods,
                priority=_VALUE[row.priority],
                queued_at=row.queued_at,
                sequence=row.key,
                seconds=left,
                expected_seconds=left,
                preemptible=row.preemptible,
                beside=(row.cpu_each, row.memory_each, row.storage_each),
                most=tuple(row.most),
            )
        )

    def _with_history(self, waiter: Waiter) -> Waiter:
        permille = self.permille.get(waiter.team)
        if waiter.seconds is None or permille is None:
            return waiter
        return replace(waiter, expected_seconds=max(1, waiter.seconds * permille // PERMILLE))

    def _pool_snapshot(self) -> PoolSnapshot:
        rooms = rooms_of(self.flavor, self.rows.capacity_type, known=self.observed)
        holders, held = self._holders({room.node for room in rooms.rooms})
        accounts, teams = self._accounts(held)
        minimum, grace, *_ = self.rows.settings
        return PoolSnapshot(
            flavor=self.flavor,
            capacity_type=self.rows.capacity_type,
            now=int(self.now.timestamp()),
            revision=self.rows.revision,
            accounts=accounts,
            teams=teams,
            blocks=tuple(
                Block(room.node, room.size, room.free, room.whole, room.left) for room in rooms.rooms
            ),
            largest_block=rooms.largest,
            exists=what_exists(self.flavor, rooms.nodes),
            hosts=rooms.hosts,
            nodes_seen=bool(rooms.nodes) or self.observed.seen.nodes_listed,
            provisionable=Provisionable(
                rooms.provisionable_block, rooms.provisionable_units, rooms.provisionable_others
            ),
            card=self._card(rooms.card),
            holders=holders,
            waiters=self._waiters(),
            beyond=self._beyond(),
            far=str(self.far.public_id) if self.far is not None else "",
            before_far=self._before_far(),
            rules=AdmissionRules(minimum_run_seconds=minimum, grace_seconds=grace),
            prices=tuple(PriceFacts(*row) for row in self.rows.prices),
        )

    def _card(self, room: CardRoom | None) -> CardFacts | None:
        """The card's free parts after the claims of all its flavors; None if this flavor is the card's only one."""
        if room is None:
            return None
        parts = sum(
            int(Fraction(numerator, denominator) * room.parts) * used
            for numerator, denominator, used in self.rows.on_card
        )
        free = room.total - room.foreign - parts
        return CardFacts(room.card, room.parts, room.per_unit, room.total, free)

    def _accounts(self, held: Mapping[str, int]) -> tuple[tuple[Account, ...], tuple[TeamFacts, ...]]:
        known = {name for name, *_ in self.rows.cohorts}
        accounts = [
            Account(f"cohort:{name}", _cohort(parent, known), guaranteed, local, ceiling, used)
            for name, parent, guaranteed, local, ceiling, used in self.rows.cohorts
        ]
        teams = []
        for quota in self.rows.quotas:
            account = Account(
                name=f"team:{quota.team}",
                parent=_cohort(quota.cohort, known),
                guaranteed=quota.nominal,
                local=quota.local,
                ceiling=quota.ceiling,
                used=quota.used,
            )
            accounts.append(account)
            teams.append(self._team(quota, account, held.get(quota.team, 0)))
        return tuple(accounts), tuple(teams)

    def _team(self, quota: pool_sql.QuotaRow, account: Account, held: int) -> TeamFacts:
        past = 0.0
        if quota.decayed_at is not None:
            seconds = max(0.0, self.now.timestamp() - quota.decayed_at)
            past = decayed(quota.decayed_use, seconds, self.half_life)
        return TeamFacts(
            slug=quota.team,
            account=account.name,
            use=int((round(past) + held) * self.flavor.gpu_fraction),
            weight=quota.weight,
            stopped=quota.stopped,
            user_limit=quota.user_limit,
            max_time_limit_seconds=quota.max_time_limit_seconds,
            lendable=quota.lendable,
            ceilings=in_force(quota.ceilings, self.rows.settings[3]),
            held=tuple(map(int, quota.held or (0,) * len(CLAIMED))),
            budget=BudgetFacts(*quota.budget) if quota.budget else None,
        )

    def _holders(self, nodes: Container[str]) -> tuple[tuple[Holder, ...], dict[str, int]]:
        """The holders of units now, and for each team the decayed unit-seconds of what it holds."""
        holders, held = [], dict[str, float]()
        for claim in self.rows.held:
            holders.append(self._holder(claim, nodes))
            seconds = max(0.0, (self.now - claim.reserved_at).total_seconds())
            held[claim.team] = held.get(claim.team, 0.0) + integral(claim.units, seconds, self.half_life)
        return tuple(holders), {slug: round(use) for slug, use in held.items()}

    def _holder(self, claim: pool_sql.HeldRow, nodes: Container[str]) -> Holder:
        age = self._since(claim.started_at)
        left = None if claim.limit is None else max(0, claim.limit - claim.used - age)
        # Pods without units count where they take what those with units need.
        placed = claim.placed if claim.purpose == "workload" else ()
        there = [row for row in placed or () if row[1] or row[0] in nodes]
        missing = 0 if claim.leaving or not claim.units_each else max(0, claim.pods - int(claim.seen or 0))
        return Holder(
            id=claim.public_id if claim.purpose == "workload" else f"{claim.public_id}/{claim.purpose}",
            team=claim.team,
            owner=str(claim.owner_id),
            noun=kind_of(claim.kind).noun,
            units=claim.units,
            units_each=claim.units_each,
            priority=_VALUE[claim.priority],
            preemptible=claim.preemptible,
            age_seconds=age,
            lost_seconds=min(age, self._since(claim.saved_at)) if claim.saved_at else age,
            ends_in=left,
            expected_in=self._expected(claim, left),
            leaving=claim.leaving,
            lent=claim.lent,
            placed=tuple((node, units) for node, units, *_ in there),
            unplaced_pods=missing if claim.purpose == "workload" else 0,
            beside=(claim.cpu_each, claim.memory_each, claim.storage_each),
            most=tuple(claim.most),
            taken=tuple(tuple(beside) for _, _, *beside in there),
        )

    def _expected(self, claim: pool_sql.HeldRow, left: int | None) -> int | None:
        """Seconds until it ends: by its own report while that is fresh, else by the share of limits that its team's runs use."""
        if left is None:
            return None
        if claim.remaining is not None and claim.reported_at is not None:
            return min(left, max(0, claim.remaining - self._since(claim.reported_at)))
        permille = self.permille.get(claim.team)
        if permille is None or claim.limit is None:
            return left
        used = claim.limit - left
        return min(left, max(0, claim.limit * permille // PERMILLE - used))

    def _since(self, moment: datetime | None) -> int:
        return 0 if moment is None else max(0, int((self.now - moment).total_seconds()))
