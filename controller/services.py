"""Commands that runs and endpoints share: submit, preview, cancel, suspend, resume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from uuid import UUID

from django.conf import settings
from django.db import transaction

from controller import wakeups
from controller.references import check_references
from controller.waiting_card import Card, CardRequest, card_for, judge_new
from foundation.crashpoints import crash_point
from foundation.errors import Conflict, Invalid, NotAllowed
from foundation.http.etag import Versions, check_version
from policy.verdicts import Outcome, Verdict
from quotas.counters import mark_due
from quotas.models import Quota, TeamPolicy
from quotas.queries import nameable_teams, policy_of
from quotas.waiters import new_waiter
from teams.actors import Actor
from teams.audit import audit_event, record_audit, record_audits
from teams.models import AuditEvent, Membership, Team, User
from teams.permissions import check_can_submit, check_open, has_global_role, role_in
from workloads.bulk.commands import change_labels, lock_rows, set_desired_many
from workloads.kinds import kind_of
from workloads.models import ResourceFlavor, Workload
from workloads.placement import MIG_PREFIX, Sharing
from workloads.podrequests import PodGroup, together
from workloads.podspec.specs import ContainerSpec
from workloads.services import (
    change_generation,
    check_name,
    check_open_workloads,
    clear_up,
    create_workload,
    note_call,
    set_desired,
)
from workloads.states import Desired, Phase, Priority


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A request to submit a workload, as a kind's app passes it to the controller."""

    kind: str
    name: str
    container: ContainerSpec
    flavor: str | None
    capacity_type: str
    fallback_capacity: str
    """The capacity type to fall back to when the first is not available in time or ever; empty for no fallback."""
    units_each: int
    replicas: int
    pods: int
    """Pods that must be placed for it to start: for an endpoint, its minimum."""
    preemptible: bool
    keeps_headroom: bool = False
    """Whether what it claims for pods that do not run yet is never lent."""
    trains: bool
    """Whether its pods work on one thing together, so that the slowest sets the pace."""
    priority: Priority
    time_limit_seconds: int | None
    max_retries: int
    labels: dict[str, str]
    replaces: str | None = None
    """Public id of a waiting one of the same kind and team, which is cancelled when this is submitted."""
    audited: Mapping[str, str] = field(default_factory=dict)
    """Details for the audit trail besides its name."""

    @property
    def all_pods(self) -> tuple[PodGroup, ...]:
        """All its pods, at the most replicas."""
        return self.container.pod_groups(max(self.replicas, self.pods))


def preview(*, submission: Submission, team: Team, user: User, now: datetime) -> Card:
    """The card of the submission as admission would judge it now; creates nothing.

    Raises NotFound, NotAllowed, TeamClosed and NameTaken like a real submission.
    """
    return previewed(submission=submission, team=team, user=user, now=now)[0]


def previewed(*, submission: Submission, team: Team, user: User, now: datetime) -> tuple[Card, CardRequest]:
    """As `preview`, with the request that was judged."""
    check_can_submit(user, team)
    check_open(team)
    check_priority(submission.priority, team, user)
    check_headroom(submission, team)
    check_references(submission.container, team, now=now)
    if submission.fallback_capacity:
        _, asked, _ = _judged(submission, team, user, now)
    else:
        asked = _asked(submission, team, user, now)
    card = card_for(asked, named=nameable_teams(user), now=now)
    if card.verdict.outcome is not Outcome.NEVER:
        check_name(kind=submission.kind, team=team, name=submission.name)
    return card, asked


def submit(*, submission: Submission, team: Team, actor: Actor, now: datetime) -> Workload:
    """Create the queued workload in the caller's transaction; it is woken when that commits.

    Raises Invalid, naming the field, if it can never start: no quota row, a flavor that does not exist, more in one
    pod than any node holds, a secret that the team does not have. More than the quota's maximum is accepted and waits. Conflict where what it replaces
    waits no longer, or the team has as many as it may that have not ended; TeamClosed where it takes nothing new.
    """
    user = actor.user
    if user is None:
        raise NotAllowed("Only a user can submit.")
    check_can_submit(user, team)
    check_open(team)
    check_priority(submission.priority, team, user)
    check_headroom(submission, team)
    check_references(submission.container, team, now=now)
    submission, asked, verdict = _judged(submission, team, user, now)
    if verdict.outcome is Outcome.NEVER:
        raise Invalid.of_field(verdict.field, verdict.message, code="never_fits")
    with transaction.atomic(savepoint=False):
        if asked.replaces is not None:
            _cancel_waiting(asked.replaces, actor, now)
        check_open_workloads(team)
        workload = create_workload(
            kind=submission.kind,
            team=team,
            owner=user,
            name=submission.name,
            priority=submission.priority,
            flavor=asked.flavor,
            capacity_type=submission.capacity_type,
            fallback_capacity=submission.fallback_capacity,
            units=asked.waiter.units,
            units_each=submission.units_each,
            pod_count=submission.pods,
            beside=submission.container.beside,
            groups=submission.all_pods,
            preemptible=submission.preemptible,
            keeps_headroom=submission.keeps_headroom,
            time_limit_seconds=submission.time_limit_seconds,
            image_pull_deadline_seconds=submission.container.image_pull_deadline_seconds,
            max_retries=submission.max_retries,
            labels=submission.labels,
            actor=actor.label,
            simulated=settings.EMBEDDED_CLUSTER,
            now=now,
        )
        _audit(workload, "submitted", actor, now, **submission.audited)
        transaction.on_commit(partial(crash_point, "submit-committed"))
        # It was made due; only the message is missing.
        transaction.on_commit(partial(wakeups.send, workload.public_id))
    return workload


def _cancel_waiting(workload: Workload, actor: Actor, now: datetime) -> None:
    rows = Workload.objects.select_for_update(no_key=True, of=("self",)).select_related("team")
    fresh = rows.get(pk=workload.pk)
    if not fresh.waits:
        message = f"{fresh.name} waits no longer: it is {fresh.phase}. Nothing was submitted."
        raise Conflict.of_field("replaces", message, code="not_waiting")
    cancel(workload=fresh, actor=actor, now=now)


def cancel(*, workload: Workload, actor: Actor, now: datetime) -> None:
    """Request the end of the workload."""
    _steer(workload, Desired.CANCEL, "cancelled", actor, now)


def cancel_many(*, workloads: Sequence[Workload], message: str = "", actor: Actor, now: datetime) -> None:
    """Request the end of live workloads whose rows the caller holds and whose teams it has checked, in its transaction."""
    set_desired_many(workloads=workloads, desired=Desired.CANCEL, message=message, now=now)
    record_audits([event_of(workload, "cancelled", actor, now) for workload in workloads])
    wakeups.wake_workloads(workloads, now=now)


def delete(
    *, workload: Workload, actor: Actor, now: datetime, expected_versions: Versions | None = None
) -> None:
    """Request the end of the workload; if it has ended already, delete its remaining objects at once.

    Raises PreconditionFailed unless its generation is among `expected_versions`.
    """
    check_can_submit(actor.user, workload.team)
    with transaction.atomic():
        fresh = Workload.objects.select_for_update(no_key=True).get(pk=workload.pk)
        check_version(expected=expected_versions, current=fresh.generation)
        if not fresh.is_final:
            cancel(workload=workload, actor=actor, now=now)
            return
        clear_up(workload, now=now)
        _audit(workload, "cleared", actor, now)
        transaction.on_commit(partial(wakeups.send, workload.public_id))


def suspend(*, workload: Workload, actor: Actor, now: datetime) -> None:
    """Request to release the workload's GPUs and keep it; `resume` queues it again."""
    _steer(workload, Desired.SUSPEND, "suspended", actor, now)


def resume(*, workload: Workload, actor: Actor, now: datetime) -> None:
    """Request to run again; no effect on a workload that is wanted to run. TeamClosed where the team takes nothing new."""
    check_can_submit(actor.user, workload.team)
    if workload.desired == Desired.RUN.value and not workload.is_final:
        return
    check_open(workload.team)
    _steer(workload, Desired.RUN, "resumed", actor, now)


def call_for(*, public_id: UUID, now: datetime) -> None:
    """Record that a caller waits for a workload scaled to zero, and wake its row at once.

    May be called for every request; a call within three seconds of the last is not written again.
    """
    with transaction.atomic():
        workload = note_call(public_id=public_id, now=now)
        if workload is not None:
            wakeups.wake_workload(workload, now=now)


def change(
    *,
    workload: Workload,
    priority: Priority | None,
    time_limit_seconds: int | None,
    actor: Actor,
    now: datetime,
    expected_versions: Versions | None = None,
) -> None:
    """Change the queue place or the time limit of a live workload, in the caller's transaction.

    Raises PreconditionFailed unless its generation is among `expected_versions`.
    """
    fresh = Workload.objects.select_for_update(no_key=True).get(pk=workload.pk)
    check_version(expected=expected_versions, current=fresh.generation)
    if fresh.is_final:
        raise Conflict(f"{workload.name} has ended.", code="ended")
    before = {"priority": fresh.priority, "time_limit_seconds": fresh.time_limit_seconds}
    if priority is not None and priority.value != fresh.priority:
        if fresh.phase not in {Phase.QUEUED.value, Phase.SUSPENDED.value}:
            message = "The priority decides who starts first; this has started."
            raise Conflict.of_field("priority", message, code="not_queued")
        if actor.user is not None:
            check_priority(priority, workload.team, actor.user)
        fresh.priority = priority.value
    if time_limit_seconds is not None:
        _check_time_limit(fresh, time_limit_seconds)
        fresh.time_limit_seconds = time_limit_seconds
    fresh.save(update_fields=["priority", "time_limit_seconds"])
    after = {"priority": fresh.priority, "time_limit_seconds": fresh.time_limit_seconds}
    if before == after:
        return
    record_audit(
        actor=actor,
        action=f"{workload.kind}.changed",
        target_kind=workload.kind,
        target_id=str(workload.public_id),
        target_name=workload.name,
        team=workload.team,
        before=before,
        after=after,
        now=now,
    )
    change_generation(workload, now=now)
    if fresh.flavor_id is not None:
        # Other workloads wait for the end of this one, or behind it in the queue.
        mark_due(flavor_id=fresh.flavor_id, capacity_type=fresh.capacity_type, now=now)
    wakeups.wake_workload(workload, now=now)


def relabel(
    *,
    workload: Workload,
    labels: Mapping[str, str],
    actor: Actor,
    now: datetime,
    expected_versions: Versions | None = None,
) -> None:
    """Replace the labels by which the workload is found, in the caller's transaction; its objects keep theirs.

    Raises PreconditionFailed unless its generation is among `expected_versions`.
    """
    (fresh,) = lock_rows(Workload.objects.filter(pk=workload.pk))
    check_version(expected=expected_versions, current=fresh.generation)
    if fresh.labels != labels:
        changes = {**dict.fromkeys(fresh.labels), **labels}
        change_labels(workloads=[fresh], changes=changes, actor=actor, now=now)


def longest_time_limit(workload: Workload) -> int | None:
    """The quota's longest time limit in seconds; None if it has none, or the workload needs no quota."""
    if workload.flavor_id is None:
        return None
    quota = Quota.objects.filter(
        team=workload.team_id, flavor=workload.flavor_id, capacity_type=workload.capacity_type
    ).first()
    return quota.max_time_limit_seconds if quota else None


def _check_time_limit(workload: Workload, seconds: int) -> None:
    """Raise Invalid if a workload that has left the queue asks for more than the quota's longest limit."""
    if workload.phase == Phase.QUEUED.value:
        return
    longest = longest_time_limit(workload)
    if longest is not None and seconds > max(longest, workload.time_limit_seconds or 0):
        message = f"The quota allows at most {longest} seconds."
        raise Invalid.of_field("time_limit_seconds", message, code="too_long")


def _steer(workload: Workload, desired: Desired, action: str, actor: Actor, now: datetime) -> None:
    check_can_submit(actor.user, workload.team)
    with transaction.atomic():
        set_desired(workload, desired=desired, now=now)
        _audit(workload, action, actor, now)
        wakeups.wake_workload(workload, now=now)


def _audit(workload: Workload, action: str, actor: Actor, now: datetime, **more: str) -> None:
    record_audits([event_of(workload, action, actor, now, **more)])


def event_of(workload: Workload, action: str, actor: Actor, now: datetime, **more: str) -> AuditEvent:
    """What the audit trail says of a command on a workload; not stored yet."""
    return audit_event(
        actor=actor,
        action=f"{workload.kind}.{action}",
        target_kind=workload.kind,
        target_id=str(workload.public_id),
        target_name=workload.name,
        team=workload.team,
        after={"name": workload.name, **more},
        now=now,
    )


def _flavor(submission: Submission) -> ResourceFlavor | None:
    if submission.flavor is None:
        if submission.units_each == 0:
            return None
        raise Invalid.of_field("flavor", "Say which flavor the GPUs should be.", code="required")
    flavor = ResourceFlavor.objects.filter(name=submission.flavor, enabled=True).first()
    if flavor is None:
        names = (
            ", ".join(ResourceFlavor.objects.filter(enabled=True).values_list("name", flat=True)) or "none"
        )
        raise Invalid.of_field(
            "flavor", f"There is no such flavor. There is: {names}.", code="unknown_flavor"
        )
    _check_parts_of_cards(flavor, submission)
    return flavor


def _check_parts_of_cards(flavor: ResourceFlavor, submission: Submission) -> None:
    """Raise Invalid for more shares of cards than one program can use together (docs/reference/flavors.md)."""
    sharing = Sharing(flavor.sharing)
    sliced = sharing is Sharing.MIG or flavor.resource.startswith(MIG_PREFIX)
    if submission.units_each > 1 and (sliced or sharing is not Sharing.NONE):
        why = (
            "a program sees one slice of a card and no more" if sliced else "two shares are no more than one"
        )
        message = f"A pod can have one {flavor.name}: {why}. Ask for 1, or for a larger flavor."
        raise Invalid.of_field("gpus_per_replica", message, code="one_part_only")
    if submission.trains and submission.replicas > 1 and sharing in {Sharing.TIME_SLICING, Sharing.MPS}:
        message = (
            f"{flavor.name} is shared with others: pods that train together would wait for strangers' work."
            " Ask for one pod, or for GPUs of its own."
        )
        raise Invalid.of_field("replicas", message, code="one_part_only")


def _replaced(submission: Submission, team: Team) -> Workload | None:
    if submission.replaces is None:
        return None
    try:
        wanted = UUID(submission.replaces)
    except ValueError:
        wanted = UUID(int=0)
    workload = Workload.objects.filter(
        public_id=wanted, team=team, kind=submission.kind, phase=Phase.QUEUED.value, desired=Desired.RUN.value
    ).first()
    if workload is None:
        message = f"No {kind_of(submission.kind).noun} of team {team.slug} with this id waits."
        raise Invalid.of_field("replaces", message, code="not_waiting")
    return workload


def _judged(
    submission: Submission, team: Team, user: User, now: datetime
) -> tuple[Submission, CardRequest, Verdict]:
    """The submission with its verdict; for the fallback capacity type if the first can never be admitted."""
    asked = _asked(submission, team, user, now)
    verdict = judge_new(asked, now=now)
    if verdict.outcome is Outcome.NEVER and submission.fallback_capacity:
        other = replace(submission, capacity_type=submission.fallback_capacity, fallback_capacity="")
        second = _asked(other, team, user, now)
        fallback_verdict = judge_new(second, now=now)
        if fallback_verdict.outcome is not Outcome.NEVER:
            return other, second, fallback_verdict
    return submission, asked, verdict


def _asked(submission: Submission, team: Team, user: User, now: datetime) -> CardRequest:
    units = submission.units_each * submission.replicas
    flavor = _flavor(submission)
    waiter = new_waiter(
        team=team.slug,
        owner_id=user.pk,
        noun=kind_of(submission.kind).noun,
        units=units,
        units_each=submission.units_each,
        pods=submission.pods,
        beside=submission.container.beside,
        most=together(submission.all_pods),
        priority=submission.priority,
        seconds=submission.time_limit_seconds,
        preemptible=submission.preemptible,
        now=now,
    )
    return CardRequest(
        kind=submission.kind,
        team=team,
        flavor=flavor if units else None,
        capacity_type=submission.capacity_type,
        waiter=waiter,
        time_limit_seconds=submission.time_limit_seconds,
        container=submission.container,
        groups=() if units else submission.container.pod_groups(submission.pods),
        replaces=_replaced(submission, team),
    )


def check_headroom(submission: Submission, team: Team) -> None:
    """Raise NotAllowed, naming the field, if the team's policy requires all headroom to be lent."""
    if submission.keeps_headroom and not policy_of(team).may_reserve_headroom:
        message = f"In team {team.slug} headroom is always lent to preemptible runs; a quota manager may change that."
        raise NotAllowed.of_field("headroom", message, code="must_lend")


def check_priority(priority: Priority, team: Team, user: User) -> None:
    """Raise NotAllowed, naming the field, for a priority that the team's policy denies this user."""
    if priority is not Priority.HIGH or has_global_role(user):
        return
    right = policy_of(team).high_priority
    if right == TeamPolicy.PriorityRight.QUOTA_MANAGERS:
        message = f"Only a quota manager may use priority high in team {team.slug}."
        raise NotAllowed.of_field("priority", message, code="managers_only")
    if right == TeamPolicy.PriorityRight.LEADS and role_in(user, team) != Membership.Role.LEAD:
        raise NotAllowed.of_field(
            "priority", f"Only a lead of team {team.slug} may use priority high.", code="lead_only"
        )
