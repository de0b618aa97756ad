"""Writers of one workload's state; `bulk.transitions` does what `transition` does for many queued ones. Every move of a
phase is one event row, in the same transaction.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, connection, transaction
from django.db.models import Count, F, OuterRef, Q, Subquery

from foundation.models import PlatformSettings
from teams.models import Team, User
from teams.permissions import check_open
from workloads import signals
from workloads.errors import InvalidTransition, NameTaken, StaleWorkload, TooManyWorkloads
from workloads.models import Attempt, ResourceFlavor, Workload, WorkloadEvent
from workloads.podrequests import PodGroup, together
from workloads.states import FINAL, REASONS, Desired, Phase, Priority, Reason, can_move

logger = logging.getLogger(__name__)

BACKOFF_SECONDS_MAX = 300
NOTIFY_CHANNEL = "portal_events"
DRIFT = "drift"
"""The source of a note about what others changed of a workload's objects."""
# Many may call a sleeping workload at once: one write is enough.
CALL_NOTED_EVERY = timedelta(seconds=3)


def beside_columns(beside: tuple[int, int, int]) -> dict[str, int]:
    """Each pod's requests besides GPUs, by the workload's columns."""
    return dict(zip(("cpu_each", "memory_each", "storage_each"), beside, strict=True))


def most_columns(groups: Iterable[PodGroup]) -> dict[str, int]:
    """What all these pods ask for together, by the workload's columns."""
    return dict(zip(("cpu_most", "memory_most", "storage_most", "pods_most"), together(groups), strict=True))


def create_workload(
    *,
    kind: str,
    team: Team,
    owner: User,
    name: str,
    priority: Priority,
    flavor: ResourceFlavor | None,
    capacity_type: str,
    fallback_capacity: str = "",
    units: int,
    units_each: int,
    pod_count: int,
    beside: tuple[int, int, int] = (0, 0, 0),
    groups: Sequence[PodGroup] = (),
    preemptible: bool,
    keeps_headroom: bool = False,
    time_limit_seconds: int | None,
    image_pull_deadline_seconds: int | None = None,
    max_retries: int,
    labels: dict[str, str],
    actor: str,
    simulated: bool,
    now: datetime,
) -> Workload:
    """A queued workload, due at once; NameTaken while a live one of the same team and kind has the name. `groups` are all
    its pods. In the caller's transaction: the row of the run or endpoint lands with it or not at all; NameTaken rolls that back.
    """
    try:
        # Without a savepoint: a caller whose name is taken has nothing else to keep in this transaction.
        with transaction.atomic(savepoint=False):
            workload = Workload.objects.create(
                kind=kind,
                team=team,
                owner=owner,
                name=name,
                priority=priority.value,
                flavor=flavor,
                capacity_type=capacity_type,
                fallback_capacity=fallback_capacity,
                units=units,
                units_each=units_each,
                pod_count=pod_count,
                **(beside_columns(beside) | most_columns(groups)),
                preemptible=preemptible,
                keeps_headroom=keeps_headroom,
                time_limit_seconds=time_limit_seconds,
                image_pull_deadline_seconds=image_pull_deadline_seconds,
                max_retries=max_retries,
                labels=labels,
                **dict.fromkeys(("since", "created_at", "queued_at", "next_reconcile_at"), now),
                simulated=simulated,
            )
    except IntegrityError as error:
        if "workload_name_unique_while_live" not in str(error):
            raise
        raise _taken(team, kind, name) from error
    _record_event(workload, from_phase="", actor=actor, source="", now=now)
    return workload


BATCH = 200
"""Rows in one statement: a thousand copies are five of each, and none of them is very long."""


def copy_workload(
    workload: Workload, *, names: Sequence[str], held_from: int, held: str, actor: str, now: datetime
) -> list[Workload]:
    """As many workloads like a queued one as there are names, in the caller's transaction, in a few statements.

    From the index `held_from` on they are suspended as members of a sweep that may not run yet, with the message
    `held`. NameTaken, naming one, while a live workload of the same team and kind has a name; TooManyWorkloads for more than
    the team may have.
    """
    copies = [
        _copied(workload, name, held=held if index >= held_from else None) for index, name in enumerate(names)
    ]
    check_open_workloads(workload.team, more=len(copies))
    check_names(kind=workload.kind, team=workload.team, names=names)
    try:
        with transaction.atomic(savepoint=False):
            Workload.objects.bulk_create(copies, batch_size=BATCH)
    except IntegrityError as error:
        if "workload_name_unique_while_live" not in str(error):
            raise
        raise NameTaken.of_field("name", "A name of these has just been taken.", code="name_taken") from error
    events = [
        WorkloadEvent(
            workload=copy, at=now, to_phase=copy.phase, reason=copy.reason, message=copy.message, actor=actor
        )
        for copy in copies
    ]
    WorkloadEvent.objects.bulk_create(events, batch_size=BATCH)
    with connection.cursor() as cursor:
        notes = [note_of(copy) for copy in copies]
        cursor.execute("SELECT pg_notify(%s, note) FROM unnest(%s::text[]) AS note", [NOTIFY_CHANNEL, notes])
    return copies


def _copied(workload: Workload, name: str, *, held: str | None) -> Workload:
    """A row like the workload's that is not saved yet; suspended where it is held back."""
    columns = (field.attname for field in Workload._meta.concrete_fields if not field.generated)  # noqa: SLF001 - documented
    own = {"id", "public_id", "name"}
    copy = Workload(
        name=name, **{column: getattr(workload, column) for column in columns if column not in own}
    )
    copy.team = workload.team
    if held is not None:
        copy.phase, copy.reason, copy.message = Phase.SUSPENDED.value, Reason.WAITING_FOR_SWEEP.value, held
        copy.desired, copy.desired_reason = Desired.SUSPEND.value, Reason.WAITING_FOR_SWEEP.value
        copy.desired_message = held
        copy.next_reconcile_at = None
    return copy


def check_open_workloads(team: Team, *, more: int = 1) -> None:
    """Raise TooManyWorkloads where the team may not have so many more that have not ended: a pass looks at all that wait.
    TeamClosed where it takes nothing new, whatever `team` was read with. One statement.
    """
    live = Workload.objects.filter(team=OuterRef("pk")).exclude(phase__in=Workload.FINAL_PHASES)
    count = live.order_by().values("team").annotate(count=Count("pk")).values("count")
    fresh = Team.objects.annotate(platform=PlatformSettings.as_json(), there=Subquery(count)).get(pk=team.pk)
    check_open(fresh)
    most = PlatformSettings.of_json(fresh.platform).open_workloads
    if most is not None and (fresh.there or 0) + more > most:
        raise TooManyWorkloads(
            f"Team {team.slug} may have {most:,} runs and endpoints that have not ended (open_workloads); {more:,} more would "
            "be too many. Wait until some have ended, or cancel them."
        )


def check_name(*, kind: str, team: Team, name: str) -> None:
    """Raise NameTaken while a live workload of the same team and kind has the name, as submitting it would."""
    check_names(kind=kind, team=team, names=[name])


def check_names(*, kind: str, team: Team, names: Sequence[str]) -> None:
    """The same for several; it names one that is taken."""
    same = Workload.objects.filter(team=team, kind=kind, name__in=names)
    if taken := same.exclude(phase__in=Workload.FINAL_PHASES).order_by("pk").first():
        raise _taken(team, kind, taken.name)


def _taken(team: Team, kind: str, name: str) -> NameTaken:
    return NameTaken.of_field(
        "name", f"{team.slug} already has a live {kind} named {name}.", code="name_taken"
    )


def transition(
    workload: Workload,
    *,
    to: Phase,
    reason: Reason,
    message: str,
    actor: str,
    now: datetime,
    source: str = "",
    stopping_to: Phase | None = None,
    started_at: datetime | None = None,
    finished_at: datetime | None = None,
) -> bool:
    """Move the phase, or refresh its reason and message; True if anything visible to users has changed.

    `now` is the time of the event; `started_at` and `finished_at` are when the cluster says that it ran and ended.
    Updates only if the row still has the phase that `workload` was read with, else raises StaleWorkload.
    """
    old, old_reason = Phase(workload.phase), workload.reason
    if not can_move(old, to):
        raise InvalidTransition(f"A workload that is {old} cannot become {to}.")
    if reason not in REASONS[to]:
        raise InvalidTransition(f"{reason} is no reason to be {to}.")
    if (old, workload.reason, workload.message) == (to, reason, message):
        return False
    changes: dict[str, object] = {"phase": to.value, "reason": reason.value, "message": message}
    if (old, workload.reason) != (to, reason):
        changes["since"] = now
    changes |= _milestones(workload, to, now, started_at, finished_at)
    if to is Phase.STOPPING:
        changes["stopping_to"] = (stopping_to or Phase(workload.stopping_to)).value
    elif workload.stopping_to:
        changes["stopping_to"] = ""
    # A wake-up from before its end no longer counts: its objects are kept for a while after that.
    asleep = {"next_reconcile_at": F("lock_expires_at")} if to in FINAL else {}
    if Workload.objects.filter(pk=workload.pk, phase=old.value).update(**changes, **asleep) != 1:
        raise StaleWorkload(f"Workload {workload.public_id} is no longer {old}.")
    event_needed = (old, workload.reason) != (to, reason)
    for field, value in changes.items():
        setattr(workload, field, value)
    if event_needed:
        _record_event(workload, from_phase=old.value, actor=actor, source=source, now=now)
        moves = [signals.PhaseMove(workload, old.value, old_reason)]
        signals.moved.send(sender=Workload, moves=moves, now=now)
    else:
        notify(workload)
    _tell_if_stopped(workload, old)
    return True


def _tell_if_stopped(workload: Workload, old: Phase) -> None:
    new = Phase(workload.phase)
    if new is not old and (new in FINAL or new is Phase.SUSPENDED):
        signals.stopped.send(sender=Workload, workload=workload)


def _milestones(
    workload: Workload, to: Phase, now: datetime, started_at: datetime | None, finished_at: datetime | None
) -> dict[str, object]:
    if to is Phase.ADMITTED and workload.admitted_at is None:
        return {"admitted_at": now}
    if to is Phase.RUNNING and workload.started_at is None:
        return {"started_at": started_at or now}
    if to in FINAL:
        # One that ran and ended between two looks was never seen running.
        began = {"started_at": started_at} if workload.started_at is None and started_at else {}
        return {"finished_at": finished_at or now, **began}
    if to is Phase.QUEUED:
        # Only an interruption that is not the user's fault keeps the place in the queue.
        resumed = {"queued_at": now} if workload.phase == Phase.SUSPENDED.value else {}
        return {"admitted_at": None, **resumed}
    return {}


def note(workload: Workload, *, reason: str, message: str, actor: str, source: str, now: datetime) -> None:
    """Write into its history what moves no phase, such as a step of a rollout; `source` says of what it is one."""
    values = {"phase": workload.phase, "reason": reason, "message": message}
    _write_event(workload, values, from_phase=workload.phase, actor=actor, source=source, now=now)


_RECORD_AND_NOTIFY = """
WITH event AS (
    INSERT INTO workloads_workloadevent
        (workload_id, at, from_phase, to_phase, reason, message, actor, source, attempt)
    VALUES (%(workload)s, %(at)s, %(from)s, %(to)s, %(reason)s, %(message)s, %(actor)s, %(source)s, %(attempt)s)
    RETURNING id
)
SELECT pg_notify(%(channel)s, (%(note)s::jsonb || jsonb_build_object('event', id))::text) FROM event
"""


def _record_event(workload: Workload, *, from_phase: str, actor: str, source: str, now: datetime) -> None:
    values = {"phase": workload.phase, "reason": workload.reason, "message": workload.message}
    _write_event(workload, values, from_phase=from_phase, actor=actor, source=source, now=now)
    logger.info("workload.moved", extra={"workload_id": str(workload.public_id), "phase": workload.phase})


def _write_event(
    workload: Workload, move: Mapping[str, str], *, from_phase: str, actor: str, source: str, now: datetime
) -> None:
    values: dict[str, Any] = {
        "workload": workload.pk,
        "at": now,
        "from": from_phase,
        "to": move["phase"],
        "reason": move["reason"],
        "message": move["message"],
        "actor": actor,
        "source": source,
        "attempt": workload.attempt_number,
        "channel": NOTIFY_CHANNEL,
        "note": note_of(workload),
    }
    with connection.cursor() as cursor:
        cursor.execute(_RECORD_AND_NOTIFY, values)


def notify(workload: Workload) -> None:
    """Tell live listeners after commit; PostgreSQL drops the message if the transaction rolls back."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [NOTIFY_CHANNEL, note_of(workload)])


def note_of(workload: Workload) -> str:
    """The notification about the workload for live listeners; of what is in its history it gets the row's key as `event`."""
    payload = {
        "workload": str(workload.public_id),
        "kind": workload.kind,
        "team": workload.team.slug,
        "phase": workload.phase,
        "reason": workload.reason,
    }
    return json.dumps(payload)


def set_desired(workload: Workload, *, desired: Desired, now: datetime) -> None:
    """Set the state that a user wants; the reconciler does the rest. A final workload can no longer be changed."""
    changed = Workload.objects.filter(pk=workload.pk).exclude(phase__in=Workload.FINAL_PHASES)
    changed = changed.exclude(desired=Desired.CANCEL.value)
    if not changed.update(
        desired=desired.value,
        desired_reason=Reason.USER_REQUESTED.value,
        desired_message="",
        generation=F("generation") + 1,
        next_reconcile_at=now,
    ):
        raise InvalidTransition(f"{workload.name} is already {workload.phase} or being cancelled.")
    workload.desired = desired.value


def change_generation(workload: Workload, *, now: datetime) -> None:
    """Increase the generation after a change of the request: the reconciler applies the objects again."""
    Workload.objects.filter(pk=workload.pk).update(generation=F("generation") + 1, next_reconcile_at=now)


def note_call(*, public_id: UUID, now: datetime) -> Workload | None:
    """Note that a caller waits for its answer; None if that was noted a moment ago, or it has ended."""
    unnoted = Q(called_at__isnull=True) | Q(called_at__lte=now - CALL_NOTED_EVERY)
    rows = Workload.objects.filter(unnoted, public_id=public_id).exclude(phase__in=Workload.FINAL_PHASES)
    return Workload.objects.get(public_id=public_id) if rows.update(called_at=now) else None


def clear_up(workload: Workload, *, now: datetime) -> None:
    """Make an ended workload due once more, for what is left of it in the cluster."""
    Workload.objects.filter(pk=workload.pk, phase__in=Workload.FINAL_PHASES).update(next_reconcile_at=now)


def wake(*, workload_ids: list[int], now: datetime) -> None:
    """Make rows due. Final ones stay asleep."""
    rows = Workload.objects.filter(pk__in=workload_ids).exclude(phase__in=Workload.FINAL_PHASES)
    asleep = Q(next_reconcile_at__isnull=True) | Q(next_reconcile_at__gt=now)
    # A look that outlasts its lock leaves that time in the row, which `locks.unlock` takes for "not woken".
    locked = Q(next_reconcile_at=F("lock_expires_at"))
    due = rows.filter(asleep | locked)
    if len(workload_ids) == 1:
        due.update(next_reconcile_at=now)
        return
    with transaction.atomic(savepoint=False):
        # In the order of their keys, as passes take them: two transactions in different orders would deadlock.
        keys = due.order_by("pk").select_for_update(no_key=True).values("pk")
        Workload.objects.filter(pk__in=keys).update(next_reconcile_at=now)


def backoff_seconds(failures: int) -> int:
    """2, 4, 8 … 300 seconds."""
    return int(min(BACKOFF_SECONDS_MAX, 2 ** min(failures + 1, 9)))


def start_attempt(
    workload: Workload, *, object_name: str, token_digest: str, now: datetime, object_kind: str = ""
) -> Attempt:
    """Open the next attempt. A workload has at most one open attempt (a constraint keeps it so)."""
    number = workload.attempt_number + 1
    attempt = Attempt.objects.create(
        workload=workload,
        number=number,
        object_name=object_name,
        object_kind=object_kind,
        run_token_digest=token_digest,
        created_at=now,
    )
    Workload.objects.filter(pk=workload.pk).update(attempt_number=number)
    workload.attempt_number = number
    return attempt


def end_attempt(
    attempt: Attempt,
    *,
    phase: Phase,
    reason: str,
    message: str,
    exit_code: int | None,
    ended_at: datetime,
) -> None:
    """Close the attempt and add its seconds to the workload's use of its time limit.

    What was lost is what came after its newest checkpoint, or all of it, unless it ended well.
    """
    attempt.phase, attempt.reason, attempt.message = phase.value, reason, message
    attempt.exit_code, attempt.ended_at = exit_code, ended_at
    attempt.run_token_digest = ""
    if attempt.started_at is not None and phase is not Phase.SUCCEEDED:
        saved = attempt.workload.checkpoints.filter(attempt=attempt.number).first()
        kept = max(attempt.started_at, saved.at) if saved else attempt.started_at
        attempt.lost_seconds = max(0, round((ended_at - kept).total_seconds()))
    attempt.save()
    if attempt.started_at is not None:
        seconds = attempt.seconds(now=ended_at)
        Workload.objects.filter(pk=attempt.workload_id).update(used_seconds=F("used_seconds") + seconds)
