"""Commands on endpoints."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from django.db import transaction

from controller import services, wakeups
from controller.references import check_references
from controller.services import Submission
from controller.sizing import with_host_share
from controller.specs import ON_DEMAND, SPOT_FIRST
from controller.waiting import Card
from foundation.errors import Conflict, FieldProblem, Invalid
from foundation.http.etag import check_version
from inference.adapter import KIND, NOUN
from inference.hints import hints_of
from inference.models import Endpoint, EndpointRevision
from inference.scaling_checks import check_scaling, scaling_hints
from inference.specs import RESERVED, EndpointSpec
from teams.actors import Actor
from teams.audit import record_audit
from teams.models import Team, User
from teams.permissions import check_can_submit
from workloads.models import Workload
from workloads.services import change_generation
from workloads.states import Priority

CLAIMED_FIELDS = (
    "flavor",
    "capacity",
    "gpus_per_replica",
    "min_replicas",
    "max_replicas",
    "name",
    "priority",
)


def deploy_endpoint(
    *, spec: EndpointSpec, team: Team, actor: Actor, now: datetime, replaces: str | None = None
) -> Endpoint:
    """The queued endpoint with its first revision, in the place of a waiting one where `replaces` is the id of one."""
    check_can_submit(actor.user, team)
    check_scaling(spec)
    spec = with_host_share(spec)
    with transaction.atomic():
        workload = services.submit(submission=_submission(spec, replaces), team=team, actor=actor, now=now)
        endpoint = Endpoint.objects.create(workload=workload)
        _add_revision(endpoint, spec, actor, now)
    return endpoint


def preview_endpoint(
    *, spec: EndpointSpec, team: Team, user: User, now: datetime, replaces: str | None = None
) -> Card:
    """What deploying this now would do."""
    check_can_submit(user, team)
    check_scaling(spec)
    sized = with_host_share(spec)
    card = services.preview(submission=_submission(sized, replaces), team=team, user=user, now=now)
    return replace(card, hints=(*hints_of(spec, team, sized=sized), *scaling_hints(spec)))


@transaction.atomic
def update_endpoint(
    *,
    endpoint: Endpoint,
    spec: EndpointSpec,
    actor: Actor,
    now: datetime,
    expected_versions: frozenset[int] | None = None,
) -> Endpoint:
    """A new revision, rolled out by its strategy. What is claimed cannot change yet: it would need a second claim.

    PreconditionFailed unless the workload's generation is among `expected_versions`.
    """
    spec = with_host_share(spec)
    workload = endpoint.workload
    check_can_submit(actor.user, workload.team)
    fresh = Workload.objects.select_for_update(no_key=True).get(pk=workload.pk)
    check_version(expected=expected_versions, current=fresh.generation)
    if fresh.is_final:
        raise Conflict(f"{workload.name} has ended.", code="ended")
    endpoint.refresh_from_db(fields=["revision"])
    old = endpoint.parsed
    changed = [name for name in CLAIMED_FIELDS if getattr(old, name) != getattr(spec, name)]
    if changed:
        problems = [
            FieldProblem(field=name, code="not_yet_supported", message="Cannot be changed in place yet.")
            for name in changed
        ]
        raise Invalid(f"Deploy a new endpoint to change: {', '.join(changed)}.", errors=problems)
    if old == spec:
        return endpoint
    check_references(spec, workload.team, now=now)
    endpoint.revision += 1
    endpoint.save(update_fields=["revision"])
    _add_revision(endpoint, spec, actor, now)
    change_generation(workload, now=now)
    record_audit(
        actor=actor,
        action="endpoint.updated",
        target_kind=KIND,
        target_id=str(workload.public_id),
        team=workload.team,
        before={"revision": endpoint.revision - 1},
        after={"revision": endpoint.revision},
        now=now,
    )
    wakeups.wake_workload(workload, now=now)
    return endpoint


def _add_revision(endpoint: Endpoint, spec: EndpointSpec, actor: Actor, now: datetime) -> None:
    EndpointRevision.objects.create(
        endpoint=endpoint,
        number=endpoint.revision,
        spec=spec.to_json(),
        actor=actor.label,
        created_at=now,
        pods_of=endpoint.revision,
        strategy=spec.strategy,
    )


def _submission(spec: EndpointSpec, replaces: str | None) -> Submission:
    return Submission(
        kind=KIND,
        noun=NOUN,
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
