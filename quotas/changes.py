"""Changes of many quotas together: what they would do, doing them all or none, and taking them back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db import transaction
from django.db.models import Q, Sum

from foundation.errors import Conflict, Invalid, PortalError
from policy.judge import plan
from policy.pool_snapshot import PoolSnapshot
from policy.preemption import evictions_after_cut
from policy.verdicts import CyclePlan, Victim
from quotas.checks import check_manager, check_reason
from quotas.cohort_trees import PoolKey, lock_tree, one_at_a_time
from quotas.counters import lock_pools, pool_changed
from quotas.evictions import ask_to_leave, workload_of
from quotas.limits import remove_quota, set_limits
from quotas.models import Quota, QuotaChange, QuotaChangeSet, QuotaRequest
from quotas.queries import QuotaFigures, team_quotas
from quotas.snapshots import pool_snapshot_of
from teams.actors import Actor
from teams.models import Team
from workloads.models import ResourceFlavor, Workload
from workloads.services import wake

QUOTA_CUT_MESSAGE = "A quota was cut, and this run uses more than its team may still hold (QuotaReduced)."


@dataclass(frozen=True)
class LimitChange:
    """Some limits of a team's quota, by the names in `quotas.limits.LIMITS`; the others stay."""

    team: Team
    flavor: ResourceFlavor
    capacity_type: str
    limits: Mapping[str, int | None]

    @property
    def pool(self) -> PoolKey:
        return self.flavor.pk, self.capacity_type


@dataclass(frozen=True)
class ChangedQuota:
    """A quota before and after, with what follows from its cohort; `before` is None for a new one."""

    change: LimitChange
    before: QuotaFigures | None
    after: QuotaFigures


@dataclass(frozen=True)
class Waits:
    """A workload whose turn the change moves, with the reason and message that it would get."""

    workload: Workload
    reason: str
    message: str


@dataclass(frozen=True)
class Evicted:
    workload: Workload
    lost_seconds: int


@dataclass(frozen=True)
class Promised:
    """What all teams together are promised of a pool, beside the units that nodes offer or may still bring."""

    flavor: ResourceFlavor
    capacity_type: str
    before: int
    after: int
    exist: int
    revision: int
    """The pool's revision when this was looked up: another one means that the picture is old."""

    @property
    def over(self) -> bool:
        return self.after > self.exist


@dataclass(frozen=True)
class ChangePreview:
    """What applying the changes would do now. `waits` would be admitted now but not after, `starts` the other way
    round. `evicted` is empty unless it was asked for.
    """

    rows: tuple[ChangedQuota, ...]
    waits: tuple[Waits, ...]
    starts: tuple[Waits, ...]
    evicted: tuple[Evicted, ...]
    promised: tuple[Promised, ...]


@dataclass(frozen=True)
class _Picture:
    """The quotas and pools that some changes touch, at one moment."""

    figures: Mapping[int, QuotaFigures]
    supplies: Mapping[PoolKey, PoolSnapshot]
    promised: Mapping[PoolKey, int]


def preview_changes(*, changes: Sequence[LimitChange], evicts: bool, now: datetime) -> ChangePreview:
    """What `apply_changes` would do, by doing it and taking it back. Raises Invalid as that does."""
    with transaction.atomic():
        _hold(changes)
        before = _picture(changes, now)
        _set_all(changes, "preview", None, Actor.system("preview"), now)
        after = _picture(changes, now)
        transaction.set_rollback(True)
    victims = _victims(changes, after.supplies) if evicts else []
    old, new = _plans(before), _plans(after)
    workloads = _workloads(
        [
            *(victim.id for victim in victims),
            *(key for one in (*old.values(), *new.values()) for key in one.order),
        ]
    )
    return ChangePreview(
        rows=_rows(changes, before, after),
        waits=_moved(old, new, judged_by=new, workloads=workloads),
        starts=_moved(new, old, judged_by=new, workloads=workloads),
        evicted=tuple(
            Evicted(workloads[victim.id], victim.lost_seconds) for victim in victims if victim.id in workloads
        ),
        promised=_promised(changes, before, after),
    )


def apply_changes(
    *, changes: Sequence[LimitChange], reason: str, evicts: bool, actor: Actor, now: datetime
) -> QuotaChangeSet:
    """Apply all of it, or nothing. With `evicts`, runs above what their teams may then hold are asked to leave.

    Raises Invalid with the field, such as `changes.2.nominal`, NotAllowed for a user who is no quota manager.
    """
    check_manager(actor)
    check_reason(reason)
    with transaction.atomic():
        _hold(changes)
        made = QuotaChangeSet.objects.create(actor=actor.label, reason=reason, at=now, evicts=evicts)
        _set_all(changes, reason, made, actor, now)
        if not made.changes.exists():
            raise Invalid.of_field("changes", "Nothing would change.", code="no_change")
        if evicts:
            supplies = {
                change.pool: pool_snapshot_of(
                    flavor=change.flavor, capacity_type=change.capacity_type, now=now
                )
                for change in changes
            }
            _ask_to_leave(_victims(changes, supplies), now)
    return made


def undo_changes(*, change_set: QuotaChangeSet, reason: str, actor: Actor, now: datetime) -> QuotaChangeSet:
    """Set every limit back to what it was; a quota that the set made is removed, or 0 where it has had claims.

    Raises Conflict where a quota was changed since, or the set was taken back already.
    """
    check_manager(actor)
    check_reason(reason)
    with transaction.atomic():
        one_at_a_time()
        if QuotaChangeSet.objects.filter(undoes=change_set).exists():
            raise Conflict("This change set was taken back already.", code="undone_already")
        done = list(change_set.changes.order_by("-pk"))
        _check_unchanged(done, change_set)
        restored = [(row, _restored(row)) for row in done]
        _hold([change for _, change in restored])
        made = QuotaChangeSet.objects.create(actor=actor.label, reason=reason, at=now, undoes=change_set)
        for row, change in restored:
            _restore(row, change, made, reason, actor, now)
        # What a request was given is gone already when its date comes.
        given = QuotaRequest.objects.filter(change_set=change_set, state=QuotaRequest.State.APPROVED)
        given.update(state=QuotaRequest.State.RETURNED, returned_at=now)
    return made


def pools_changed(*, team: Team, now: datetime) -> None:
    """Let the pools in which the team has a quota be passed over anew, in the caller's transaction."""
    pools = Quota.objects.filter(team=team).values_list("flavor", "capacity_type")
    for flavor_id, capacity_type in sorted(pools):
        pool_changed(flavor_id=flavor_id, capacity_type=capacity_type, now=now)


def give_back(*, team: Team, actor: Actor, now: datetime) -> QuotaChangeSet | None:
    """Set every quota of a team that is being closed to 0, to be taken back as one change; None where all are 0.

    What others of its cohort have borrowed of it they keep until it ends, as after any cut: nothing more is lent to them.
    """
    with transaction.atomic():
        held = Team.objects.select_for_update(no_key=True).get(pk=team.pk)
        own = Quota.objects.filter(team=held).exclude(Q(nominal=0) & Q(borrowing_limit=0))
        changes = [
            LimitChange(held, quota.flavor, quota.capacity_type, {"nominal": 0, "borrowing_limit": 0})
            for quota in own.select_related("flavor").order_by("pk")
        ]
        if held.closing_since is None or not changes:
            return None
        reason = f"Team {held.slug} was closed: {held.closing_reason}"
        return apply_changes(changes=changes, reason=reason, evicts=False, actor=actor, now=now)


def _hold(changes: Sequence[LimitChange]) -> None:
    """Lock every quota and cohort that the changes touch, in the order in which all transactions lock."""
    keys = [(change.team.pk, *change.pool) for change in changes]
    for place, key in enumerate(keys):
        if key in keys[:place]:
            raise Invalid.of_field(f"changes.{place}", "This quota is changed twice.", code="duplicate")
    one_at_a_time()
    pools = sorted({change.pool for change in changes})
    lock_tree(team_ids={change.team.pk for change in changes}, pools=set(pools))
    lock_pools(pools)


def _set_all(
    changes: Sequence[LimitChange], reason: str, made: QuotaChangeSet | None, actor: Actor, now: datetime
) -> None:
    for place, change in enumerate(changes):
        try:
            set_limits(
                team=change.team,
                flavor=change.flavor,
                capacity_type=change.capacity_type,
                limits=change.limits,
                reason=reason,
                actor=actor,
                now=now,
                change_set=made,
            )
        except PortalError as error:
            error.errors = tuple(
                replace(problem, field=f"changes.{place}.{problem.field}") for problem in error.errors
            )
            raise


def _picture(changes: Sequence[LimitChange], now: datetime) -> _Picture:
    teams = {change.team.pk: change.team for change in changes}
    pools = {change.pool: change.flavor for change in changes}
    sums = Quota.objects.values_list("flavor", "capacity_type").annotate(units=Sum("nominal")).order_by()
    return _Picture(
        figures={quota.quota.pk: quota for team in teams.values() for quota in team_quotas(team)},
        supplies={
            pool: pool_snapshot_of(flavor=flavor, capacity_type=pool[1], now=now, whole_line=True)
            for pool, flavor in pools.items()
        },
        promised={(flavor_id, capacity_type): units for flavor_id, capacity_type, units in sums},
    )


def _rows(changes: Iterable[LimitChange], before: _Picture, after: _Picture) -> tuple[ChangedQuota, ...]:
    figures = {
        (figure.quota.team_id, figure.quota.flavor_id, figure.quota.capacity_type): figure
        for figure in after.figures.values()
    }
    rows = [(change, figures[change.team.pk, *change.pool]) for change in changes]
    return tuple(ChangedQuota(change, before.figures.get(new.quota.pk), new) for change, new in rows)


def _plans(picture: _Picture) -> dict[PoolKey, CyclePlan]:
    return {pool: plan(snapshot) for pool, snapshot in picture.supplies.items()}


def _moved(
    first: Mapping[PoolKey, CyclePlan],
    second: Mapping[PoolKey, CyclePlan],
    *,
    judged_by: Mapping[PoolKey, CyclePlan],
    workloads: Mapping[str, Workload],
) -> tuple[Waits, ...]:
    """Workloads that the first plans admit and the second do not, with the verdicts of `judged_by`."""
    moved = []
    for pool, its in first.items():
        later = set(second[pool].admitted)
        for key in its.admitted:
            if key not in later and key in workloads:
                verdict = judged_by[pool].verdicts[key]
                moved.append(Waits(workloads[key], verdict.reason.value, verdict.message))
    return tuple(moved)


def _promised(changes: Iterable[LimitChange], before: _Picture, after: _Picture) -> tuple[Promised, ...]:
    pools = {change.pool: change.flavor for change in changes}
    promised = []
    for pool, flavor in pools.items():
        snapshot = before.supplies[pool]
        promised.append(
            Promised(
                flavor=flavor,
                capacity_type=pool[1],
                before=before.promised.get(pool, 0),
                after=after.promised.get(pool, 0),
                exist=sum(block.size for block in snapshot.blocks) + snapshot.provisionable.units,
                revision=snapshot.revision,
            )
        )
    return tuple(promised)


def _victims(changes: Iterable[LimitChange], supplies: Mapping[PoolKey, PoolSnapshot]) -> list[Victim]:
    """The runs that have to leave so that no team of these pools holds more than it may, changed teams first."""
    changed = {(change.pool, change.team.slug) for change in changes}
    leaving: list[Victim] = []
    for pool, snapshot in supplies.items():
        accounts = {account.name: account for account in snapshot.accounts}
        for facts in sorted(snapshot.teams, key=lambda team: ((pool, team.slug) not in changed, team.slug)):
            account = accounts[facts.account]
            if account.used <= min(account.guaranteed, account.ceiling):
                continue
            victims = evictions_after_cut(snapshot, facts.slug)
            gone = {victim.id for victim in victims}
            # The next team is looked at as if these had left already.
            holders = [
                replace(holder, leaving=True) if holder.id in gone else holder for holder in snapshot.holders
            ]
            snapshot = replace(snapshot, holders=tuple(holders))  # noqa: PLW2901
            leaving += [replace(victim, id=workload_of(victim)) for victim in victims]
    return leaving


def _ask_to_leave(victims: Sequence[Victim], now: datetime) -> None:
    asked = ask_to_leave(
        victims=victims, preemptor=None, message_of=lambda _row, _victim: QUOTA_CUT_MESSAGE, now=now
    )
    transaction.on_commit(lambda: wake(workload_ids=[workload.pk for workload in asked], now=now))


def _workloads(ids: Iterable[str]) -> dict[str, Workload]:
    rows = Workload.objects.filter(public_id__in=set(ids)).select_related("team", "owner", "flavor")
    return {str(row.public_id): row for row in rows}


def _check_unchanged(done: Iterable[QuotaChange], change_set: QuotaChangeSet) -> None:
    for row in done:
        since = QuotaChange.objects.filter(
            team_slug=row.team_slug,
            flavor_name=row.flavor_name,
            capacity_type=row.capacity_type,
            pk__gt=row.pk,
        )
        if since.exclude(change_set=change_set).exists():
            what = f"The quota of team {row.team_slug} for {row.flavor_name} ({row.capacity_type})"
            raise Conflict(f"{what} was changed since.", code="changed_since")


def _restored(row: QuotaChange) -> LimitChange:
    """The change that takes this one back."""
    team = Team.objects.filter(slug=row.team_slug).first()
    flavor = ResourceFlavor.objects.filter(name=row.flavor_name).first()
    if team is None or flavor is None:
        raise Conflict(f"Team {row.team_slug} or flavor {row.flavor_name} is gone.", code="changed_since")
    return LimitChange(team, flavor, row.capacity_type, row.before or {"nominal": 0})


def _restore(
    row: QuotaChange, change: LimitChange, made: QuotaChangeSet, reason: str, actor: Actor, now: datetime
) -> None:
    if row.before is None and row.quota is not None and not row.quota.claims.exists():
        remove_quota(quota=row.quota, reason=reason, actor=actor, now=now, change_set=made)
    else:
        _set_all([change], reason, made, actor, now)
