"""Admission: which workloads of a pool start, which are preempted for them, and why the others wait.

A pool is passed over by one transaction at a time (its mutex), which reads a snapshot, lets the pure policy plan, and writes what follows:
claims with their counters, phases, receipts. Locks are taken in the order mutex, queued workloads, quotas, cohorts,
pool; a victim's row is never touched here, because its own reconcile takes the row first and the quota after it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from django.db import OperationalError, connection, transaction

from controller import wakeups
from controller.admission import plain, preemption
from controller.admission.moves import write_verdicts
from controller.admission.surge import surge_room
from controller.measures import timed_pass
from costs.budgets.admission import promise_money
from costs.errors import BudgetExceeded
from policy import judge
from policy.arithmetic import Tree
from policy.findings import Finding
from policy.pool_snapshot import PoolSnapshot, Waiter
from policy.verdicts import CyclePlan, Outcome, Verdict
from quotas import decisions, pool_rows, services, snapshots
from quotas.counters import due_by, mark_due, passed, rows
from quotas.errors import QuotaExceeded
from quotas.models import ClaimPurpose, Pool
from quotas.queries import holds_surge
from quotas.requests import return_due
from quotas.services import Wanted
from workloads.bulk.transitions import lock_queued
from workloads.locks import hold, reread
from workloads.models import ResourceFlavor, Workload
from workloads.states import Phase, Reason

MUTEX = 20_406
"""First key of the advisory locks of pools; the second is the pool's own."""
CARD_MUTEX = MUTEX + 1
"""First key of the advisory locks of cards; the second is the hash of the card's name."""
LEASE = timedelta(seconds=30)
AGAIN = timedelta(seconds=60)
"""A pool with waiting workloads gets a pass at least this often: shares change with every second."""
TELL_AFTER = timedelta(seconds=50)
"""How old the numbers in the rows of waiting workloads may be; a new reason is written at once."""
_NUMBER = re.compile(r"[0-9]+")
ROUNDS_MAX = 50


def admit(workload: Workload, *, now: datetime) -> Verdict | None:
    """Run an admission pass over this queued workload's pool; its verdict, or None if another pass has judged it.

    Other workloads that the pass admits are woken. Raises QuotaExceeded if limits changed during the pass:
    nothing is saved then, and the caller tries again.
    """
    with transaction.atomic(savepoint=False):
        if workload.flavor is None or not workload.units:
            return plain.admit(workload, now=now)
        pool = snapshots.pool_for(flavor=workload.flavor, capacity_type=workload.capacity_type)
        _take_mutex(pool)
        # The previous holder of the mutex may have admitted or judged it already.
        before = workload.reason
        reread(workload, hold=True)
        if not workload.waits or workload.reason != before:
            return None
        with timed_pass():
            plan = _Pass(pool, workload.flavor, now, focus=workload).run()
        next_at = _next_at(plan, now)
        if next_at is not None:
            due_by(pool_id=pool.pk, at=next_at)
        return plan.verdicts[str(workload.public_id)]


def look_again(workload: Workload, *, now: datetime) -> None:
    """Make sure that the pool of a queued workload that has a verdict gets an admission pass.

    One pass judges all queued workloads; judging each separately would take a pass for each.
    """
    if workload.flavor is None:
        return
    pool = snapshots.pool_for(flavor=workload.flavor, capacity_type=workload.capacity_type)
    pass_over(pool, now=now)


def _next_at(plan: CyclePlan, now: datetime) -> datetime | None:
    """The time of the next pass if nothing happens before; None if no workload waits."""
    if len(plan.order) == len(plan.admitted):
        return None
    again = now + AGAIN
    return again if plan.next_at is None else min(again, datetime.fromtimestamp(plan.next_at, tz=UTC))


_TAKE_ON = """
UPDATE quotas_pool SET due_at = %(leased)s WHERE id = %(pool)s AND due_at <= %(now)s RETURNING told_at
"""


def pass_over(pool: Pool, *, now: datetime) -> int:
    """Admit the workloads that fit a due pool; returns how many. Does nothing for a pool that is not due.

    The pool becomes due again if this process dies during the pass, or if units are released meanwhile.
    """
    leased = now + LEASE
    due = rows(_TAKE_ON, {"pool": pool.pk, "now": now, "leased": leased})
    if not due:
        return 0
    ((told_at,),) = due
    telling = told_at is None or told_at <= now - TELL_AFTER
    try:
        return_due(now=now, pool=(pool.flavor_id, pool.capacity_type))
        admitted, next_at = _rounds(pool, now, telling=telling)
    except (QuotaExceeded, OperationalError):
        # The limits changed during the pass, or it deadlocked with another transaction: nothing is saved.
        Pool.objects.filter(pk=pool.pk, due_at=leased).update(due_at=now)
        raise
    passed(pool_id=pool.pk, leased=leased, next_at=next_at, told_at=now if telling else told_at)
    return admitted


def _rounds(pool: Pool, now: datetime, *, telling: bool) -> tuple[int, datetime | None]:
    """Run admission passes; returns how many workloads were admitted, and when the rest are judged again."""
    admitted, turn = 0, 0
    moments: list[datetime] = []
    for _ in range(ROUNDS_MAX):
        with timed_pass(), transaction.atomic():
            _take_mutex(pool)
            one = _Pass(pool, pool.flavor, now, focus=None, turn=turn, telling=telling)
            plan = one.run()
        admitted += len(plan.admitted)
        next_at = _next_at(plan, now)
        moments += [] if next_at is None else [next_at]
        snapshot = one.snapshot.pool
        if not snapshot.beyond or not _room_left(snapshot, plan):
            break
        # After admissions the next waiters have moved into the window; else the following window is judged.
        turn = turn if plan.admitted else turn + 1
        if turn and not _anybody_behind(snapshot):
            break
    return admitted, min(moments, default=None)


def _anybody_behind(snapshot: PoolSnapshot) -> bool:
    """Whether the snapshot of a later turn has more waiters of any queue than the first few that every turn has."""
    shown = Counter((waiter.team, waiter.priority) for waiter in snapshot.waiters)
    return max(shown.values(), default=0) > pool_rows.HEAD


def _room_left(snapshot: PoolSnapshot, plan: CyclePlan) -> bool:
    """Whether a team with waiters beyond the snapshot may still claim a unit, and a node has one free."""
    known = {waiter.id: waiter for waiter in snapshot.waiters}
    account_of = {team.slug: team.account for team in snapshot.teams}
    tree = Tree(snapshot.accounts)
    free = sum(max(0, block.free) for block in snapshot.blocks) + snapshot.provisionable.units
    for identity in plan.admitted:
        waiter = known[identity]
        free -= waiter.units_each * waiter.pods
        if not plan.verdicts[identity].lent:
            tree.take(account_of[waiter.team], waiter.units)
    behind = {waiter.team for waiter in snapshot.beyond}
    lendable = any(team.lendable and team.slug in behind for team in snapshot.teams)
    return free > 0 and (lendable or any(tree.available(account_of[slug]) > 0 for slug in behind))


def admit_surge(workload: Workload, *, units: int | None, now: datetime) -> Verdict:
    """Claim the pod that a rollout has on top, of so many units; None for none. Without it the pods of the old revision
    stay as they are.

    Nothing is claimed for a pod that fits no node: the units stay free for workloads that can use them.
    """
    if units is None:
        return Verdict(Outcome.ADMIT, Reason.UPDATING, "This rollout needs nothing on top.", rule="surge")
    flavor, capacity_type = workload.flavor, workload.capacity_type
    if holds_surge(workload):
        return _surge("The rollout has its pod on top.")
    if flavor is None or not units:
        return _claim_surge(workload, None, 0, "a pod", now)
    what = f"{units} more {flavor.name} ({capacity_type})"
    room = surge_room(
        team=workload.team,
        flavor=flavor,
        capacity_type=capacity_type,
        units=units,
        beside=workload.beside,
    )
    if not room.placeable:
        return _no_surge(room.refusals[-1])
    return _claim_surge(workload, flavor, units, what, now)


def _claim_surge(
    workload: Workload, flavor: ResourceFlavor | None, units: int, what: str, now: datetime
) -> Verdict:
    with transaction.atomic():
        hold(workload)
        quota = None
        if flavor is not None:
            quota = services.lock_quota(
                team=workload.team, flavor=flavor, capacity_type=workload.capacity_type
            )
            if quota is None:
                return _no_surge(f"There is no quota for {what}.")
        try:
            services.claim(workload=workload, quota=quota, units=units, purpose=ClaimPurpose.SURGE, now=now)
        except QuotaExceeded as error:
            if quota is None or quota.used + units <= quota.ceiling:
                return _no_surge(error.message)
            return _no_surge(f"Its rollout needs {what}; {quota.used} of {quota.ceiling} are in use.")
    return _surge(f"The rollout may use {what}.")


def _surge(message: str) -> Verdict:
    return Verdict(Outcome.ADMIT, Reason.UPDATING, message, rule="surge")


def _no_surge(why: str) -> Verdict:
    return Verdict(Outcome.WAIT, Reason.UPDATING, why, rule="surge")


def release_surge(workload: Workload, *, now: datetime) -> bool:
    """Release the surge claim of a finished rollout; True if there was one."""
    released = services.release(workload=workload, purpose=ClaimPurpose.SURGE, now=now)
    if released:
        _hint(workload)
    return released


def release(workload: Workload, *, now: datetime) -> bool:
    """Release the workload's claim and make its pool due; True if there was a claim."""
    released = services.release(workload=workload, now=now)
    if released:
        _hint(workload)
    return released


def left_line(workload: Workload, *, now: datetime) -> None:
    """Make the pool of a workload that left the queue without admission due: the waiters behind it may start."""
    if workload.flavor is None or not workload.units:
        return
    mark_due(flavor_id=workload.flavor.pk, capacity_type=workload.capacity_type, now=now)
    _hint(workload)


def _hint(workload: Workload) -> None:
    if workload.flavor is not None:
        hint_of(workload.flavor, workload.capacity_type)


def hint_of(flavor: ResourceFlavor, capacity_type: str) -> None:
    """Trigger a pass over the pool soon after this transaction, which has made it due."""
    transaction.on_commit(partial(wakeups.send_pool, flavor_id=flavor.pk, capacity_type=capacity_type))


def _take_mutex(pool: Pool) -> None:
    """Take the mutex of the pool, and that of its card: slices and whole GPUs of one card are claimed in turn."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [MUTEX, pool.pk])
        cursor.execute(
            "SELECT pg_advisory_xact_lock(%s, hashtext(card)) FROM workloads_resourceflavor WHERE id = %s",
            [CARD_MUTEX, pool.flavor_id],
        )


@dataclass
class _Pass:
    """One pass over a pool, inside the transaction that holds its mutex."""

    pool: Pool
    flavor: ResourceFlavor
    now: datetime
    focus: Workload | None
    turn: int = 0
    telling: bool = False

    def run(self) -> CyclePlan:
        self.snapshot = snapshots.snapshot_of(
            flavor=self.flavor,
            capacity_type=self.pool.capacity_type,
            now=self.now,
            focus=self.focus,
            whole_line=self.focus is None and self.turn == 0,
            turn=self.turn,
            telling=self.telling,
        )
        snapshot = self.snapshot.pool
        plan = judge.plan(snapshot, is_read=self._may_be_news)
        self.waiters: dict[int, Waiter] = {waiter.sequence: waiter for waiter in snapshot.waiters}
        verdicts = {key: plan.verdicts[waiter.id] for key, waiter in self.waiters.items()}
        news = {key: verdict for key, verdict in verdicts.items() if self._is_new(self.waiters[key], verdict)}
        needy = {key for key, verdict in verdicts.items() if verdict.victims}
        # All other rows before the pool's row: a workload that leaves the queue also locks the pool's row last.
        held = self._hold(news.keys() | needy)
        workloads = [workload for workload in held if workload.pk in news]
        # A budget's row before those of quotas.
        starts = [workload for workload in workloads if news[workload.pk].admitted]
        try:
            promise_money(snapshot, starts, order=plan.order, now=self.now)
        except BudgetExceeded as error:
            raise QuotaExceeded(error.message) from error
        self._claim(workloads, news)
        self._keep(write_verdicts(workloads, news, focus=self.focus, now=self.now), news)
        for workload in held:
            if workload.pk in needy:
                preemption.ask_to_leave(
                    victims=verdicts[workload.pk].victims, preemptor=workload, now=self.now
                )
        return plan

    def _hold(self, keys: AbstractSet[int]) -> list[Workload]:
        """Lock the workloads that still wait; the caller's own object, whose row it holds, receives the changes."""
        own = [self.focus] if self.focus is not None else []
        others = keys - {workload.pk for workload in own}
        return own + (lock_queued(workload_ids=others) if others else [])

    def _may_be_news(self, waiter: Waiter, finding: Finding) -> bool:
        """Whether the verdict may differ from the stored one, so that its message is worth rendering."""
        if self.telling or finding.outcome is Outcome.ADMIT:
            return True
        if self.focus is not None and waiter.sequence == self.focus.pk:
            return True
        return self.snapshot.shown[waiter.id][0] != finding.reason.value

    def _is_new(self, waiter: Waiter, verdict: Verdict) -> bool:
        """Whether the verdict differs from the stored one and must be written."""
        shown = (verdict.reason.value, verdict.message)
        return bool(verdict.message) and not (self.telling and self.snapshot.shown[waiter.id] == shown)

    def _is_decided_anew(self, moved: Workload) -> bool:
        """Whether the verdict needs a receipt; not if only numbers in its message differ: there would be one for each
        waiting workload whenever another starts or ends.
        """
        if not self.telling or moved.phase == Phase.ADMITTED.value:
            return True
        reason, message = self.snapshot.shown[str(moved.public_id)]
        return moved.reason != reason or _NUMBER.sub("", moved.message) != _NUMBER.sub("", message)

    def _claim(self, workloads: Iterable[Workload], verdicts: Mapping[int, Verdict]) -> None:
        wanted = [
            Wanted(
                workload_id=workload.pk,
                quota_id=self.snapshot.quota_ids[workload.team.slug],
                units=workload.units,
                headroom=0
                if workload.keeps_headroom
                else max(0, workload.units - workload.units_each * workload.pod_count),
                lent=verdicts[workload.pk].lent,
            )
            for workload in workloads
            if verdicts[workload.pk].admitted
        ]
        if wanted:
            services.claim_many(wanted=wanted, now=self.now)

    def _keep(self, moved: list[Workload], verdicts: Mapping[int, Verdict]) -> None:
        receipts = [
            decisions.Receipt(workload, verdicts[workload.pk])
            for workload in moved
            if self._is_decided_anew(workload)
        ]
        decisions.record(receipts=receipts, snapshot=self.snapshot.pool, now=self.now)
        admitted = [workload for workload in moved if workload.phase == Phase.ADMITTED.value]
        if admitted:
            decisions.started(pool_id=self.pool.pk, workloads=admitted, now=self.now)
        for workload in admitted:
            if self.focus is None or workload.pk != self.focus.pk:
                transaction.on_commit(partial(wakeups.send, workload.public_id))
