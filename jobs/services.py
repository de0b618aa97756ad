"""Commands on training runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import transaction

from controller import services
from controller.hints import hints_of
from controller.services import Submission
from controller.waiting_card import Card
from foundation.errors import Conflict, FieldProblem, Invalid
from foundation.http.etag import Versions
from foundation.models import PlatformSettings
from jobs import presets
from jobs.adapter import KIND
from jobs.copies import claim_around
from jobs.models import TrainingRun
from jobs.offers import object_kind
from jobs.queries import template_named
from jobs.specs import SMALL_CPU, SMALL_MEMORY, TrainingRunSpec
from teams.actors import Actor
from teams.models import Team, User
from teams.permissions import check_can_submit
from workloads.models import Checkpoint
from workloads.nodes.sizing import with_host_share
from workloads.placement import ON_DEMAND
from workloads.podspec.specs import SPOT_FIRST
from workloads.reports import bring_checkpoint
from workloads.states import Priority


def submit_training_run(
    *,
    spec: TrainingRunSpec,
    team: Team,
    actor: Actor,
    now: datetime,
    replaces: str | None = None,
    origin: TrainingRun | None = None,
    from_checkpoint: bool = False,
) -> TrainingRun:
    """The queued run, in the place of a waiting run where `replaces` is its id.

    `origin` is the run that it repeats; with `from_checkpoint` it goes on where the origin left off. Invalid names the
    field of what can never start, and of a kind that is not offered; NameTaken while a live workload has the name;
    Conflict where what it replaces waits no longer, and where the origin has left nothing to go on from.
    """
    spec = with_defaults(spec)
    kind = object_kind(spec.kind)
    with transaction.atomic():
        saved = _saved(origin, spec, team) if origin is not None and from_checkpoint else None
        submission = submission_of(spec, replaces, origin=origin, saved=saved)
        workload = services.submit(submission=submission, team=team, actor=actor, now=now)
        if saved is not None:
            bring_checkpoint(workload=workload, saved=saved)
        parent = origin.workload if origin is not None else None
        return TrainingRun.objects.create(
            workload=workload, spec=spec.to_json(), origin=parent, object_kind=kind
        )


def _saved(origin: TrainingRun, spec: TrainingRunSpec, team: Team) -> Checkpoint:
    """The newest checkpoint of the origin, if a run with this spec finds it where it lies."""
    field, earlier = "from_checkpoint", origin.workload
    if not earlier.is_final:
        message = f"{earlier.name} has not ended: it may still write checkpoints."
        raise Conflict.of_field(field, message, code="not_ended")
    saved = earlier.checkpoints.first()
    if saved is None:
        raise Conflict.of_field(field, f"{earlier.name} has reported no checkpoint.", code="no_checkpoint")
    claim = claim_around(origin.parsed, saved.path)
    if claim is not None and (earlier.team_id != team.pk or claim_around(spec, saved.path) != claim):
        message = f"The checkpoint {saved.path} lies in claim {claim} of team {earlier.team.slug}, "
        raise Invalid.of_field(field, f"{message}which this run does not mount there.", code="not_mounted")
    return saved


def preview_training_run(
    *, spec: TrainingRunSpec, team: Team, user: User, now: datetime, replaces: str | None = None
) -> Card:
    """What submitting this now would do. Invalid for a kind that is not offered."""
    object_kind(spec.kind)
    sized = with_defaults(spec)
    card = services.preview(submission=submission_of(sized, replaces), team=team, user=user, now=now)
    return replace(card, hints=(*card.hints, *hints_of(spec, sized=sized)))


def with_defaults(spec: TrainingRunSpec) -> TrainingRunSpec:
    """Every run has a time limit: the platform's, unless it brings its own. So it is with its share of a node."""
    spec = with_host_share(_with_plain_roles(spec))
    if spec.time_limit_seconds is not None:
        return spec
    return replace(spec, time_limit_seconds=PlatformSettings.current().default_time_limit_seconds)


def _with_plain_roles(spec: TrainingRunSpec) -> TrainingRunSpec:
    """The share of a node is that of its GPUs: a role that has none of them gets the plain defaults instead."""
    cpu = SMALL_CPU if "cpu" in spec.left_out else None
    memory = SMALL_MEMORY if "memory" in spec.left_out else None
    roles = (
        role if role.gpus_per_replica else replace(role, cpu=role.cpu or cpu, memory=role.memory or memory)
        for role in spec.roles
    )
    return replace(spec, roles=tuple(roles))


def submission_of(
    spec: TrainingRunSpec,
    replaces: str | None,
    *,
    origin: TrainingRun | None = None,
    saved: Checkpoint | None = None,
) -> Submission:
    """The request as the controller takes it."""
    audited = {"origin": str(origin.workload.public_id)} if origin is not None else {}
    return Submission(
        kind=KIND,
        name=spec.name,
        container=spec,
        flavor=spec.flavor,
        capacity_type=spec.first_capacity,
        fallback_capacity=ON_DEMAND if spec.capacity == SPOT_FIRST else "",
        units_each=spec.gpus_per_replica,
        replicas=spec.pods_with_gpus,
        pods=spec.pods_with_gpus,
        preemptible=True,
        trains=True,
        priority=Priority(spec.priority),
        time_limit_seconds=spec.time_limit_seconds,
        max_retries=spec.max_retries,
        labels=dict(spec.labels),
        replaces=replaces,
        audited=audited | ({"resume_from": saved.path} if saved is not None else {}),
    )


def _check_template(name: str | None, changes: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
    """Raises Invalid for a change that the template's locks or limits forbid now. A template that is gone forbids nothing."""
    template = template_named(name) if name else None
    if template is None:
        return
    _, refused = presets.fill(template.preset, changes)
    outside = [problem for problem in presets.outside(template.preset, spec) if problem[0] in changes]
    problems = [
        FieldProblem(field=field, code=fault.code, message=fault.message)
        for field, fault in (*refused, *outside)
    ]
    if problems:
        raise Invalid.of_problems(problems)


def update_training_run(
    *,
    run: TrainingRun,
    priority: Priority | None,
    time_limit_seconds: int | None,
    labels: Mapping[str, str] | None = None,
    actor: Actor,
    now: datetime,
    expected_versions: Versions | None = None,
) -> TrainingRun:
    """Change what may be changed of a run: its place in the queue while it waits, its time limit, and the labels by
    which it is found, all of them at once.

    Conflict names the field that cannot be changed any more; NotAllowed for a priority that the role may not use;
    Invalid for what the run's template does not allow.
    """
    workload = run.workload
    check_can_submit(actor.user, workload.team)
    with transaction.atomic():
        if labels is not None:
            services.relabel(
                workload=workload, labels=labels, actor=actor, now=now, expected_versions=expected_versions
            )
            expected_versions = None
        if priority is None and time_limit_seconds is None:
            return run
        services.change(
            workload=workload,
            priority=priority,
            time_limit_seconds=time_limit_seconds,
            actor=actor,
            now=now,
            expected_versions=expected_versions,
        )
        # Read under the workload's row lock, so that of two changes at once neither undoes the other.
        run.refresh_from_db(fields=["spec"])
        spec = run.parsed
        changed = {"priority": priority and priority.value, "time_limit_seconds": time_limit_seconds}
        values = {name: value for name, value in changed.items() if value is not None}
        run.spec = {**spec.to_json(), **values}
        _check_template(spec.template, values, run.spec)
        run.save(update_fields=["spec"])
    return run
