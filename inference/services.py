"""Commands on endpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from django.db import transaction

from controller import services, wakeups
from controller.hints import Hint, money_hints
from controller.references import check_references
from controller.services import Submission, check_priority
from controller.waiting_card import Card
from foundation.errors import Conflict
from foundation.http.etag import Versions, check_version
from inference.autoscaling.checks import check_scaling, scaling_hints
from inference.autoscaling.sizes import claim_size
from inference.changes import Effect
from inference.errors import RevisionMoved
from inference.hints import hints_of
from inference.models import Endpoint, RevisionCause
from inference.revisions.services import (
    Planned,
    add_revision,
    check_allowed,
    check_room,
    first_revision,
    plan_revision,
    spec_of_return,
)
from inference.specs import KIND, RESERVED, EndpointSpec
from quotas import cpu_admission
from teams.actors import Actor
from teams.audit import record_audit
from teams.models import Team, User
from teams.permissions import check_can_submit, check_open
from workloads.kinds import kind_of
from workloads.models import Workload
from workloads.nodes.sizing import with_host_share
from workloads.placement import ON_DEMAND
from workloads.podrequests import PodGroup
from workloads.podspec.specs import SPOT_FIRST
from workloads.services import beside_columns, change_generation
from workloads.states import Priority

MERGES_MAX: Final = 5


def deploy_endpoint(
    *, spec: EndpointSpec, team: Team, actor: Actor, now: datetime, replaces: str | None = None
) -> Endpoint:
    """The queued endpoint with its first revision, in the place of a waiting one where `replaces` is the id of one."""
    return deploy_with_hints(spec=spec, team=team, actor=actor, now=now, replaces=replaces)[0]


def deploy_with_hints(
    *, spec: EndpointSpec, team: Team, actor: Actor, now: datetime, replaces: str | None = None
) -> tuple[Endpoint, tuple[Hint, ...]]:
    """The same, and what is allowed in it and seldom meant."""
    check_can_submit(actor.user, team)
    doubt = check_scaling(spec, team, actor.user)
    sized = with_host_share(spec)
    with transaction.atomic():
        workload = services.submit(submission=_submission(sized, replaces), team=team, actor=actor, now=now)
        endpoint = Endpoint.objects.create(workload=workload)
        first_revision(endpoint, sized, actor=actor, now=now)
    told = money_hints(sized, team=team, now=now)
    return endpoint, (*told, *hints_of(spec, sized=endpoint.parsed), *scaling_hints(spec, doubt=doubt))


def preview_endpoint(
    *, spec: EndpointSpec, team: Team, user: User, now: datetime, replaces: str | None = None
) -> Card:
    """What deploying this now would do."""
    check_can_submit(user, team)
    doubt = check_scaling(spec, team, user)
    sized = with_host_share(spec)
    card = services.preview(submission=_submission(sized, replaces), team=team, user=user, now=now)
    hints = (*card.hints, *hints_of(spec, sized=sized), *scaling_hints(spec, doubt=doubt))
    return replace(card, hints=hints)


def preview_update(*, endpoint: Endpoint, spec: EndpointSpec, user: User, now: datetime) -> Planned:
    """What making this its next revision would do now, by the code that makes it; changes nothing.

    Raises Invalid and NotAllowed as the change would, but answers where that would be RolloutBlocked.
    """
    check_can_submit(user, endpoint.workload.team)
    check_open(endpoint.workload.team)
    check_scaling(spec, endpoint.workload.team, user, known=endpoint.parsed)
    sized = _sized(spec, endpoint)
    _check_held(sized, endpoint, now)
    planned = plan_revision(endpoint, sized, user=user, now=now)
    _check(planned, user, now)
    return planned


def update_endpoint(
    *,
    endpoint: Endpoint,
    spec: EndpointSpec,
    actor: Actor,
    now: datetime,
    made_from: int | None = None,
    expected_versions: Versions | None = None,
) -> Endpoint:
    """A new revision, rolled out by its strategy; nothing where nothing differs.

    RevisionMoved unless `made_from`, the revision that `spec` was made from, is the current one still.
    PreconditionFailed unless the workload's generation is among `expected_versions`. RolloutBlocked, with the ways
    that are left, where its pods have no room beside the old ones and it does not say what to do then. TeamClosed where
    the team takes nothing new.
    """
    check_can_submit(actor.user, endpoint.workload.team)
    check_open(endpoint.workload.team)
    check_scaling(spec, endpoint.workload.team, actor.user, known=endpoint.parsed)
    with transaction.atomic():
        _hold(endpoint, expected_versions)
        if made_from not in {None, endpoint.revision}:
            message = (
                f"{endpoint.workload.name} has revision {endpoint.revision} now, and this change was made from "
                f"revision {made_from}. Nothing was changed: look at it again and repeat the change."
            )
            raise RevisionMoved(message)
        sized = _sized(spec, endpoint)
        _check_held(sized, endpoint, now)
        planned = plan_revision(endpoint, sized, user=actor.user, now=now)
        if planned.changes:
            _change(planned, actor, "updated", now)
    return endpoint


def merge_update(
    *,
    endpoint: Endpoint,
    merged: Callable[[Mapping[str, Any]], EndpointSpec],
    actor: Actor,
    now: datetime,
    expected_versions: Versions | None = None,
) -> Endpoint:
    """`update_endpoint` with what `merged` makes of the current revision's spec.

    It is merged anew where another user, or a rollback by itself, came first: both changes stay. RevisionMoved only
    where that happens time and again.
    """
    tries_left = MERGES_MAX
    while True:
        current, tries_left = endpoint.current, tries_left - 1
        try:
            return update_endpoint(
                endpoint=endpoint,
                spec=merged(current.spec),
                actor=actor,
                now=now,
                made_from=current.number,
                expected_versions=expected_versions,
            )
        except RevisionMoved:
            if not tries_left:
                raise
            endpoint.workload.refresh_from_db(fields=["priority", "keeps_headroom"])


def preview_rollback(
    *, endpoint: Endpoint, number: int | None, rollout: Mapping[str, Any] | None, user: User, now: datetime
) -> Planned:
    """What `roll_back` would do now; changes nothing. Its errors but RolloutBlocked, which the answer tells."""
    check_can_submit(user, endpoint.workload.team)
    check_open(endpoint.workload.team)
    older, spec = spec_of_return(endpoint, number, rollout=rollout)
    planned = plan_revision(endpoint, spec, user=user, now=now, like=older)
    _check(planned, user, now)
    return planned


@transaction.atomic
def roll_back(
    *,
    endpoint: Endpoint,
    number: int | None,
    rollout: Mapping[str, Any] | None = None,
    actor: Actor,
    now: datetime,
    expected_versions: Versions | None = None,
) -> Endpoint:
    """A new revision with what revision `number` had, by default the last that was ready before the current one.

    Errors as of `update_endpoint`; Conflict where there is none to return to.
    """
    check_can_submit(actor.user, endpoint.workload.team)
    check_open(endpoint.workload.team)
    _hold(endpoint, expected_versions)
    older, spec = spec_of_return(endpoint, number, rollout=rollout)
    planned = plan_revision(endpoint, spec, user=actor.user, now=now, like=older)
    _change(planned, actor, "rolled_back", now, cause=RevisionCause.ROLLBACK, returns_to=older.number)
    return endpoint


def _hold(endpoint: Endpoint, expected_versions: Versions | None) -> None:
    """Lock its row until the transaction ends, if it is as the caller has seen it and can still be changed."""
    workload = endpoint.workload
    fresh = Workload.objects.select_for_update(no_key=True).get(pk=workload.pk)
    check_version(expected=expected_versions, current=fresh.generation)
    if fresh.is_final:
        raise Conflict(f"{workload.name} has ended.", code="ended")
    endpoint.refresh_from_db(fields=["revision", "target", "stable_revision"])


def _check(planned: Planned, user: User | None, now: datetime) -> None:
    check_allowed(planned)
    check_references(planned.spec, planned.endpoint.workload.team, now=now)
    workload = planned.endpoint.workload
    if planned.spec.headroom == RESERVED and not workload.keeps_headroom:
        services.check_headroom(_submission(planned.spec, None), workload.team)
    if user is not None and planned.spec.priority != workload.priority:
        check_priority(Priority(planned.spec.priority), workload.team, user)


def _change(
    planned: Planned,
    actor: Actor,
    action: str,
    now: datetime,
    *,
    cause: RevisionCause = RevisionCause.CHANGE,
    returns_to: int | None = None,
) -> None:
    _check(planned, actor.user, now)
    check_room(planned)
    endpoint, workload = planned.endpoint, planned.endpoint.workload
    if planned.changed(Effect.SIZE) or planned.spec.beside != workload.beside:
        locked = Workload.objects.select_related("team", "flavor").get(pk=workload.pk)
        claim_size(locked, planned.spec, now=now)
    before = endpoint.revision
    add_revision(planned, actor=actor, now=now, cause=cause, returns_to=returns_to)
    Workload.objects.filter(pk=workload.pk).update(
        priority=planned.spec.priority,
        labels=dict(planned.spec.labels),
        image_pull_deadline_seconds=planned.spec.image_pull_deadline_seconds,
        keeps_headroom=planned.spec.headroom == RESERVED,
        **beside_columns(planned.spec.beside),
    )
    change_generation(workload, now=now)
    record_audit(
        actor=actor,
        action=f"endpoint.{action}",
        target_kind=KIND,
        target_id=str(workload.public_id),
        target_name=workload.name,
        team=workload.team,
        before={"revision": before},
        after={"revision": endpoint.revision},
        now=now,
    )
    wakeups.wake_workload(workload, now=now)


def _sized(spec: EndpointSpec, endpoint: Endpoint) -> EndpointSpec:
    return with_host_share(spec, before=endpoint.parsed)


def _check_held(spec: EndpointSpec, endpoint: Endpoint, now: datetime) -> None:
    """Invalid, naming the field, where it asks for no GPU and for more than any node has; of what it asked for before it
    may ask for as much again, or less, whatever nodes have gone.
    """
    before = endpoint.parsed
    pairs = zip(spec.beside, before.beside, strict=True)
    more = tuple(new if new > old else 0 for new, old in pairs)
    grown = spec.beside if before.gpus_per_replica else more
    if not spec.gpus_per_replica and any(grown):
        cpu_admission.check_held(kind_of(KIND).noun, (PodGroup(1, grown),), now=now)


def _submission(spec: EndpointSpec, replaces: str | None) -> Submission:
    return Submission(
        kind=KIND,
        name=spec.name,
        container=spec,
        flavor=spec.flavor,
        capacity_type=spec.first_capacity,
        fallback_capacity=ON_DEMAND if spec.capacity == SPOT_FIRST else "",
        units_each=spec.gpus_per_replica,
        replicas=spec.max_replicas,
        pods=spec.min_replicas,
        preemptible=False,
        keeps_headroom=spec.headroom == RESERVED,
        trains=False,
        priority=Priority(spec.priority),
        time_limit_seconds=None,
        max_retries=0,
        labels=dict(spec.labels),
        replaces=replaces,
    )
