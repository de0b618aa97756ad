"""Rows of a pool read into the frozen Supply that the policy judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from typing import Any

from django.db import connection
from django.db.models import Sum

from foundation.models import PlatformSettings
from quotas import pool_sql
from quotas.decay import decayed, integral
from quotas.models import Pool, Quota
from quotas.packing import what_exists
from quotas.supply import (
    Account,
    Beyond,
    Block,
    CardFacts,
    Holder,
    Provisionable,
    Rules,
    Supply,
    TeamFacts,
    Waiter,
)
from quotas.waiters import left_of, noun_of, waiter_of
from workloads.models import ResourceFlavor, Workload
from workloads.queries import CardRoom, nodes_listed, rooms_of
from workloads.states import OUT_OF_REACH, PRIORITY_VALUE

WINDOW = 32
"""Waiters of a team that a Supply shows one by one; those behind them are counted."""
HEAD = 8
"""Of these many first ones every turn shows the same, so that it protects them."""
WINDOW_WITH_USER_LIMIT = 512
"""More where the first ones may be held back by their own limit while others of the team could start."""
OUT_OF_REACH_MAX = 200
EVERYBODY = 1_000_000
PERMILLE = 1000
_VALUE = {priority.value: value for priority, value in PRIORITY_VALUE.items()}
HISTORY_RUNS = 50


def pool_for(*, flavor: ResourceFlavor, capacity_type: str) -> Pool:
    """The pool's row, made when it is first asked for."""
    found = Pool.objects.filter(flavor=flavor, capacity_type=capacity_type).first()
    return found or Pool.objects.get_or_create(flavor=flavor, capacity_type=capacity_type)[0]


def supply_of(
    *,
    flavor: ResourceFlavor,
    capacity_type: str,
    now: datetime,
    extra: Waiter | None = None,
    focus: Workload | None = None,
    without: Workload | None = None,
    history: bool = False,
    whole_line: bool = False,
) -> Supply:
    """Everything a judgement of this pool looks at, as of now.

    `extra` is a waiter that has no row, `focus` one that must be shown however far behind it is, `without` one that
    would wait no longer. With `history` the expected ends follow reports and what the team's runs used of their limits.
    `whole_line` shows everybody who waits, those beside the line too, because what they ask for was out of reach.
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
    ).supply


@dataclass(frozen=True)
class Snapshot:
    """A Supply with the keys that acting on it needs."""

    supply: Supply
    quota_ids: Mapping[str, int]
    """By team."""
    said: Mapping[str, tuple[str, str]]
    """Reason and message that the row of each waiter shows, by its id; the messages only where they were asked for."""


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
) -> Snapshot:
    """As `supply_of`, with keys of the rows. In a later `turn` those further behind are shown, after the first few, and
    with `everybody` all at once. `telling` brings the messages along that the rows show.
    """
    reader = _Reader(flavor, capacity_type, now, without=without, history=history, telling=telling)
    if everybody:
        reader.values |= dict.fromkeys(("window", "wide", "most"), EVERYBODY)
    waiters, beyond = reader.line(focus=focus, whole_line=whole_line, turn=turn)
    if extra is not None:
        waiters = (*waiters, reader.with_history(extra))
    return Snapshot(reader.supply(waiters, beyond), reader.quota_ids, reader.said)


def _cohort(name: str, known: set[str]) -> str | None:
    """The account of a cohort that has a row in this pool."""
    return f"cohort:{name}" if name in known else None


def _default_settings() -> tuple[int, int, int]:
    each = PlatformSettings()
    return each.minimum_run_seconds, each.grace_seconds, each.fair_share_half_life_hours


class _Reader:
    """Reads one pool; every method is one query or two, however many teams and workloads there are."""

    def __init__(
        self,
        flavor: ResourceFlavor,
        capacity_type: str,
        now: datetime,
        *,
        without: Workload | None,
        history: bool,
        telling: bool,
    ) -> None:
        self.flavor = flavor
        self.capacity_type = capacity_type
        self.now = now
        self.values: dict[str, Any] = {
            "flavor": flavor.pk,
            "capacity": capacity_type,
            "now": now,
            "without": without.pk if without else 0,
            "telling": telling,
            "out": [each.value for each in OUT_OF_REACH],
            "window": WINDOW,
            "head": HEAD,
            "wide": WINDOW_WITH_USER_LIMIT,
            "most": OUT_OF_REACH_MAX,
            "runs": HISTORY_RUNS,
        }
        self.permille = self._history() if history else {}
        self.said: dict[str, tuple[str, str]] = {}
        self.far, self.before_far = "", 0
        pool, settings, cohorts, quotas = self.rows(pool_sql.BOOKS)[0]
        self.revision: int = pool[1] if pool else 0
        minimum, grace, hours = settings or _default_settings()
        self.rules = Rules(minimum_run_seconds=minimum, grace_seconds=grace)
        self.half_life = hours * 3600
        self.cohorts: list[tuple[str, str, int, int, int, int]] = cohorts or []
        self.quotas = [pool_sql.QuotaRow(*row) for row in quotas or []]
        self.quota_ids = {quota.team: quota.id for quota in self.quotas}

    def rows(self, sql: str, more: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(sql, {**self.values, **(more or {})})
            return list(cursor.fetchall())

    def _history(self) -> dict[str, int]:
        return {slug: round(float(ratio) * PERMILLE) for slug, ratio in self.rows(pool_sql.HISTORY)}

    def line(
        self, *, focus: Workload | None, whole_line: bool, turn: int = 0
    ) -> tuple[tuple[Waiter, ...], tuple[Beyond, ...]]:
        found = [self._waiter(row) for row in self.rows(pool_sql.LINE, {"turn": turn})]
        widths = Counter((each.team, each.priority) for each in found)
        if whole_line:
            found += [self._waiter(row) for row in self.rows(pool_sql.BESIDE)]
        full = any(width >= self.values["window"] for width in widths.values())
        beyond = self._beyond(widths) if full else ()
        if focus is not None and all(each.sequence != focus.pk for each in found):
            found.append(self.with_history(waiter_of(focus)))
            self.far, self.before_far = str(focus.public_id), self._before(focus, widths)
            self.said[str(focus.public_id)] = (focus.reason, focus.message)
        return tuple(found), beyond

    def _before(self, focus: Workload, widths: Mapping[tuple[str, int], int]) -> int:
        """How many of its own team and priority stand before one that its team's window does not reach."""
        shown = widths.get((focus.team.slug, _VALUE[focus.priority]), 0)
        if not shown or focus.reason in OUT_OF_REACH:
            return 0
        place = {
            "team": focus.team_id,
            "priority": focus.priority,
            "queued_at": focus.queued_at,
            "id": focus.pk,
        }
        before: int = self.rows(pool_sql.BEFORE, place)[0][0]
        return max(0, before - shown)

    def _beyond(self, shown: Mapping[tuple[str, int], int]) -> tuple[Beyond, ...]:
        counts = self.rows(pool_sql.COUNTS)
        rows = [(slug, _VALUE[priority], count, units) for slug, priority, count, units in counts]
        return tuple(
            Beyond(team=slug, priority=value, count=count - shown.get((slug, value), 0), units=int(units))
            for slug, value, count, units in sorted(rows)
            if count > shown.get((slug, value), 0)
        )

    def _waiter(self, row: Sequence[Any]) -> Waiter:
        (
            public_id,
            slug,
            owner,
            kind,
            units,
            each,
            pods,
            priority,
            queued_at,
            key,
            limit,
            used,
            soft,
            cpu,
            memory,
            storage,
            why,
            message,
        ) = row
        self.said[public_id] = (why, message)
        left = left_of(limit, used)
        return self.with_history(
            Waiter(
                id=public_id,
                team=slug,
                owner=owner,
                noun=noun_of(kind),
                units=units,
                units_each=each,
                pods=pods,
                priority=_VALUE[priority],
                queued_at=queued_at,
                sequence=key,
                seconds=left,
                expected_seconds=left,
                preemptible=soft,
                beside=(cpu, memory, storage),
            )
        )

    def with_history(self, waiter: Waiter) -> Waiter:
        permille = self.permille.get(waiter.team)
        if waiter.seconds is None or permille is None:
            return waiter
        return replace(waiter, expected_seconds=max(1, waiter.seconds * permille // PERMILLE))

    def supply(self, waiters: tuple[Waiter, ...], beyond: tuple[Beyond, ...]) -> Supply:
        rooms = rooms_of(self.flavor, self.capacity_type)
        holders, held = self._holders({room.node for room in rooms.rooms})
        accounts, teams = self._accounts(held)
        facts = self.flavor.facts
        return Supply(
            flavor=facts,
            capacity_type=self.capacity_type,
            now=int(self.now.timestamp()),
            revision=self.revision,
            accounts=accounts,
            teams=teams,
            blocks=tuple(
                Block(room.node, room.size, room.free, room.whole, room.left) for room in rooms.rooms
            ),
            largest_block=rooms.largest,
            exists=what_exists(facts, rooms.nodes),
            hosts=rooms.hosts,
            nodes_seen=bool(rooms.nodes) or nodes_listed(),
            provisionable=Provisionable(
                rooms.provisionable_block, rooms.provisionable_units, rooms.provisionable_others
            ),
            card=self._card(rooms.card),
            holders=holders,
            waiters=waiters,
            beyond=beyond,
            far=self.far,
            before_far=self.before_far,
            rules=self.rules,
        )

    def _card(self, room: CardRoom | None) -> CardFacts | None:
        """What claims of every flavor of the card leave of it; None where this flavor is the card's only one."""
        if room is None:
            return None
        held = Quota.objects.filter(flavor__card=room.card, used__gt=0).values_list(
            "flavor__fraction_numerator", "flavor__fraction_denominator"
        )
        parts = sum(
            int(Fraction(numerator, denominator) * room.parts) * used
            for numerator, denominator, used in held.annotate(units=Sum("used"))
        )
        free = room.total - room.foreign - parts
        return CardFacts(room.card, room.parts, room.per_unit, room.total, free)

    def _accounts(self, held: Mapping[str, int]) -> tuple[tuple[Account, ...], tuple[TeamFacts, ...]]:
        known = {name for name, *_ in self.cohorts}
        accounts = [
            Account(f"cohort:{name}", _cohort(parent, known), guaranteed, local, ceiling, used)
            for name, parent, guaranteed, local, ceiling, used in self.cohorts
        ]
        teams = []
        for quota in self.quotas:
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
        )

    def _holders(self, nodes: Container[str]) -> tuple[tuple[Holder, ...], dict[str, int]]:
        """Who holds units now, and for each team the decayed unit-seconds of what it holds."""
        holders, held = [], dict[str, float]()
        for row in self.rows(pool_sql.HOLDERS):
            found = pool_sql.HeldRow(*row)
            holders.append(self._holder(found, nodes))
            seconds = max(0.0, (self.now - found.reserved_at).total_seconds())
            held[found.team] = held.get(found.team, 0.0) + integral(found.units, seconds, self.half_life)
        return tuple(holders), {slug: round(use) for slug, use in held.items()}

    def _holder(self, found: pool_sql.HeldRow, nodes: Container[str]) -> Holder:
        age = self._since(found.started_at)
        left = None if found.limit is None else max(0, found.limit - found.used - age)
        # Pods without units count where they take what those with units need.
        placed = found.placed if found.purpose == "workload" else ()
        there = [row for row in placed or () if row[1] or row[0] in nodes]
        missing = 0 if found.leaving or not found.units_each else max(0, found.pods - int(found.seen or 0))
        return Holder(
            id=str(found.public_id) if found.purpose == "workload" else f"{found.public_id}/{found.purpose}",
            team=found.team,
            owner=str(found.owner_id),
            noun=noun_of(found.kind),
            units=found.units,
            units_each=found.units_each,
            priority=_VALUE[found.priority],
            preemptible=found.preemptible,
            age_seconds=age,
            lost_seconds=min(age, self._since(found.saved_at)) if found.saved_at else age,
            ends_in=left,
            expected_in=self._expected(found, left),
            leaving=found.leaving,
            lent=found.lent,
            placed=tuple((node, units) for node, units, *_ in there),
            unplaced_pods=missing if found.purpose == "workload" else 0,
            beside=(found.cpu_each, found.memory_each, found.storage_each),
            taken=tuple(tuple(beside) for _, _, *beside in there),
        )

    def _expected(self, found: pool_sql.HeldRow, left: int | None) -> int | None:
        """What it says itself while that is fresh, else the share of the limit that its team's runs use."""
        if left is None:
            return None
        if found.remaining is not None and found.reported_at is not None:
            return min(left, max(0, found.remaining - self._since(found.reported_at)))
        permille = self.permille.get(found.team)
        if permille is None or found.limit is None:
            return left
        used = found.limit - left
        return min(left, max(0, found.limit * permille // PERMILLE - used))

    def _since(self, moment: datetime | None) -> int:
        return 0 if moment is None else max(0, int((self.now - moment).total_seconds()))
