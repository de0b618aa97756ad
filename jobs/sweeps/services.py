"""Commands on sweeps: submit, change, cancel, and what moves their members on by themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction

from controller import wakeups
from controller.services import cancel_many, event_of
from foundation.errors import Conflict, NotAllowed
from foundation.http.etag import Versions, check_version
from jobs.early_stop import Standing
from jobs.matrix import Matrix, Parameters, member_name, member_spec
from jobs.models import Sweep, TrainingRun
from jobs.services import submit_training_run, with_defaults
from jobs.specs import TrainingRunSpec
from jobs.sweeps.queries import check_open_sweeps
from teams.actors import Actor
from teams.audit import record_audit, record_audits
from teams.models import Team
from teams.permissions import check_can_submit, hold_open
from workloads.bulk.commands import lock_rows, set_desired_many
from workloads.models import Workload
from workloads.services import BATCH, copy_workload
from workloads.states import FINAL, Desired, Phase, Reason

SWEEPER = Actor.system("sweep")
HINTS_MAX = 64
"""One pass admits all that fit, so that a message for each member is not needed; the periodic look finds the rest."""


def submit_sweep(
    *,
    spec: TrainingRunSpec,
    matrix: Matrix,
    asked: Mapping[str, object],
    team: Team,
    actor: Actor,
    now: datetime,
) -> Sweep:
    """The sweep with all its members, in one transaction; `asked` is its matrix as it was asked for.

    It raises what submitting one of the members does: all of them ask for the same, but for their values. Conflict where the
    team has as many open ones as it may, TeamClosed where it takes nothing new.
    """
    if actor.user is None:
        raise NotAllowed("Only a user can submit.")
    check_can_submit(actor.user, team)
    spec = with_defaults(spec)
    combinations = list(matrix.members())
    specs = [
        member_spec(spec, parameters, name=member_name(spec.name, number))
        for number, parameters in enumerate(combinations, start=1)
    ]
    with transaction.atomic():
        # Those of one team are counted and made one after the other.
        hold_open(team)
        check_open_sweeps(team)
        sweep = Sweep.objects.create(
            team=team,
            owner=actor.user,
            name=spec.name,
            matrix=asked,
            size=len(specs),
            max_parallel=matrix.max_parallel,
            labels=dict(spec.labels),
            created_at=now,
        )
        _audit(sweep, "submitted", actor, now, after={"name": sweep.name, "members": sweep.size})
        first = submit_training_run(spec=specs[0], team=team, actor=actor, now=now)
        first.sweep, first.number, first.parameters = sweep, 1, combinations[0]
        first.save(update_fields=["sweep", "number", "parameters"])
        _copy(sweep, first, specs[1:], combinations[1:], actor, now)
    return sweep


def _copy(
    sweep: Sweep,
    first: TrainingRun,
    specs: Sequence[TrainingRunSpec],
    combinations: Sequence[Parameters],
    actor: Actor,
    now: datetime,
) -> None:
    """The other members, as the first was judged and submitted."""
    workloads = copy_workload(
        first.workload,
        names=[spec.name for spec in specs],
        held_from=len(specs) if sweep.max_parallel is None else sweep.max_parallel - 1,
        held=held_message(sweep),
        actor=actor.label,
        now=now,
    )
    runs = [
        TrainingRun(
            workload=workload,
            spec=spec.to_json(),
            object_kind=first.object_kind,
            sweep=sweep,
            number=number,
            parameters=parameters,
        )
        for number, (workload, spec, parameters) in enumerate(
            zip(workloads, specs, combinations, strict=True), start=2
        )
    ]
    TrainingRun.objects.bulk_create(runs, batch_size=BATCH)
    record_audits([event_of(workload, "submitted", actor, now) for workload in workloads])
    wakeups.send_later([workload.public_id for workload in workloads[:HINTS_MAX] if workload.waits])


def held_message(sweep: Sweep) -> str:
    """What a member that may not run yet says of itself."""
    members = "member" if sweep.max_parallel == 1 else "members"
    return f"At most {sweep.max_parallel} {members} of the sweep {sweep.name} wait for GPUs or have them at once."


def change_sweep(
    *,
    sweep: Sweep,
    max_parallel: int | None,
    actor: Actor,
    now: datetime,
    expected_versions: Versions | None = None,
) -> Sweep:
    """Let more or fewer members run at once. Those beyond a smaller number go on; none is queued until they have ended.

    Conflict where it has ended; PreconditionFailed unless its version is among `expected_versions`.
    """
    check_can_submit(actor.user, sweep.team)
    with transaction.atomic():
        fresh = _locked(sweep.pk)
        check_version(expected=expected_versions, current=fresh.version)
        _check_goes_on(fresh)
        if fresh.max_parallel != max_parallel:
            # All that may be changed below, at once: in the order in which everybody locks several.
            _not_cancelled(fresh)
            before, fresh.max_parallel = {"max_parallel": fresh.max_parallel}, max_parallel
            fresh.version += 1
            fresh.save(update_fields=["max_parallel", "version"])
            _audit(fresh, "changed", actor, now, before=before, after={"max_parallel": max_parallel})
            _advance(fresh, now)
            _say_again(fresh)
    return fresh


def _say_again(sweep: Sweep) -> None:
    """Tell those that are held back still how many may run now."""
    held = Workload.objects.filter(training_run__sweep=sweep, desired=Desired.SUSPEND.value)
    held = held.filter(phase=Phase.SUSPENDED.value, desired_reason=Reason.WAITING_FOR_SWEEP.value)
    keys = list(held.values_list("pk", flat=True))
    Workload.objects.filter(pk__in=keys).update(
        message=held_message(sweep), desired_message=held_message(sweep)
    )


def cancel_sweep(*, sweep: Sweep, actor: Actor, now: datetime) -> Sweep:
    """Request the end of every member that has not ended. Conflict where all have."""
    check_can_submit(actor.user, sweep.team)
    with transaction.atomic():
        fresh = _locked(sweep.pk)
        _check_goes_on(fresh)
        live = _not_cancelled(fresh)
        if not live and not fresh.members.exclude(workload__phase__in=Workload.FINAL_PHASES).exists():
            raise _ended(fresh)
        fresh.cancelled_at, fresh.version = now, fresh.version + 1
        fresh.save(update_fields=["cancelled_at", "version"])
        _audit(fresh, "cancelled", actor, now, after={"name": fresh.name, "members": len(live)})
        message = f"The sweep {fresh.name} was cancelled."
        cancel_many(workloads=live, message=message, actor=actor, now=now)
    return fresh


def _not_cancelled(sweep: Sweep) -> list[Workload]:
    """Its members that are to end, locked in the order of their keys, as all take them who change several."""
    rows = Workload.objects.filter(training_run__sweep=sweep).exclude(phase__in=Workload.FINAL_PHASES)
    return lock_rows(rows.exclude(desired=Desired.CANCEL.value))


def _check_goes_on(sweep: Sweep) -> None:
    if sweep.finished_at is not None:
        raise _ended(sweep)
    if sweep.cancelled_at is not None:
        raise Conflict(f"The sweep {sweep.name} is being cancelled.", code="being_cancelled")


def _ended(sweep: Sweep) -> Conflict:
    return Conflict(f"The sweep {sweep.name} has ended.", code="ended")


def advance_sweep(*, sweep_id: UUID, now: datetime) -> None:
    """Stop the members that its rules stop, queue the next that may run, and note its end. No effect on one that ended."""
    with transaction.atomic():
        sweep = Sweep.objects.select_for_update(no_key=True).filter(public_id=sweep_id).first()
        if sweep is not None and sweep.finished_at is None:
            _advance(sweep, now)


@dataclass(frozen=True, slots=True)
class _Member:
    """What a sweep looks at of a member."""

    workload_id: int
    standing: Standing
    phase: Phase
    desired: Desired
    held: bool
    """Whether it may not run yet, and nobody but its sweep said so."""

    @property
    def goes_on(self) -> bool:
        return self.phase not in FINAL and self.desired is not Desired.CANCEL

    @property
    def takes_place(self) -> bool:
        """Whether it counts as one of those that run at once: until its pods are gone."""
        suspended = self.phase is Phase.SUSPENDED and self.desired is Desired.SUSPEND
        return self.phase not in FINAL and not suspended


def _advance(sweep: Sweep, now: datetime) -> None:
    members = _members(sweep)
    if all(member.phase in FINAL for member in members):
        sweep.finished_at = now
        sweep.save(update_fields=["finished_at"])
        return
    stopped = _stopped_early(sweep, members)
    queued: list[int] = []
    if sweep.cancelled_at is None:
        waiting = [
            member.workload_id for member in members if member.held and member.workload_id not in stopped
        ]
        taken = sum(member.takes_place for member in members)
        queued = waiting if sweep.max_parallel is None else waiting[: max(0, sweep.max_parallel - taken)]
    _steer(stopped, frozenset(queued), now)


def _members(sweep: Sweep) -> list[_Member]:
    rows = sweep.members.order_by("number").values_list(
        "workload_id",
        "milestones",
        "reached",
        "workload__phase",
        "workload__desired",
        "workload__desired_reason",
    )
    return [
        _Member(
            key, Standing(milestones, reached), Phase(phase), Desired(desired), held=_is_held(desired, why)
        )
        for key, milestones, reached, phase, desired, why in rows
    ]


def _is_held(desired: str, why: str) -> bool:
    return (desired, why) == (Desired.SUSPEND.value, Reason.WAITING_FOR_SWEEP.value)


def _stopped_early(sweep: Sweep, members: Sequence[_Member]) -> dict[int, str]:
    """The members that a rule stops now, each with the reason in words."""
    rules = sweep.early_stop
    if rules is None:
        return {}
    live = frozenset(member.workload_id for member in members if member.goes_on)
    return rules.stopped({member.workload_id: member.standing for member in members}, live=live)


def _steer(stopped: Mapping[int, str], queued: frozenset[int], now: datetime) -> None:
    """Carry out what the rules ask for: all rows are locked at once, in the order in which everybody locks several.

    What people have asked of a member meanwhile holds.
    """
    rows = Workload.objects.filter(pk__in=[*stopped, *queued]).exclude(phase__in=Workload.FINAL_PHASES)
    locked = lock_rows(rows.exclude(desired=Desired.CANCEL.value))
    by_message: dict[str, list[Workload]] = defaultdict(list)
    freed = []
    for workload in locked:
        if workload.pk in stopped:
            by_message[stopped[workload.pk]].append(workload)
        elif _is_held(workload.desired, workload.desired_reason):
            freed.append(workload)
    for message, workloads in by_message.items():
        set_desired_many(
            workloads=workloads, desired=Desired.CANCEL, reason=Reason.EARLY_STOPPED, message=message, now=now
        )
    if freed:
        set_desired_many(workloads=freed, desired=Desired.RUN, now=now)
    events = [event_of(workload, "queued", SWEEPER, now) for workload in freed]
    for message, workloads in by_message.items():
        events += [event_of(workload, "stopped_early", SWEEPER, now, why=message) for workload in workloads]
    record_audits(events)
    wakeups.send_later([workload.public_id for workload in locked[:HINTS_MAX]])


def _locked(sweep_id: int) -> Sweep:
    return Sweep.objects.select_for_update(no_key=True, of=("self",)).select_related("team").get(pk=sweep_id)


def _audit(
    sweep: Sweep,
    verb: str,
    actor: Actor,
    now: datetime,
    *,
    after: Mapping[str, object],
    before: Mapping[str, object] | None = None,
) -> None:
    record_audit(
        actor=actor,
        action=f"sweep.{verb}",
        target_kind="sweep",
        target_id=sweep.public_id,
        target_name=sweep.name,
        team=sweep.team,
        before=before,
        after=after,
        now=now,
    )
