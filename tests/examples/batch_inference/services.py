"""Commands on batches."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from django.db import transaction

from controller import services
from controller.services import Submission
from controller.waiting_card import Card
from foundation.models import PlatformSettings
from teams.actors import Actor
from teams.models import Team, User
from tests.examples.batch_inference.models import BatchInference
from tests.examples.batch_inference.specs import KIND, BatchInferenceSpec
from workloads.nodes.sizing import with_host_share
from workloads.states import Priority


def submit_batch(
    *, spec: BatchInferenceSpec, team: Team, actor: Actor, now: datetime, replaces: str | None = None
) -> BatchInference:
    """The queued batch, in the place of a waiting one where `replaces` is the id of one. Refuses as `services.submit`."""
    spec = with_defaults(spec)
    with transaction.atomic():
        submission = _submission(spec, replaces)
        workload = services.submit(submission=submission, team=team, actor=actor, now=now)
        return BatchInference.objects.create(workload=workload, spec=spec.to_json())


def preview_batch(
    *, spec: BatchInferenceSpec, team: Team, user: User, now: datetime, replaces: str | None = None
) -> Card:
    """What submitting this now would do."""
    submission = _submission(with_defaults(spec), replaces)
    return services.preview(submission=submission, team=team, user=user, now=now)


def with_defaults(spec: BatchInferenceSpec) -> BatchInferenceSpec:
    """With the platform's time limit and its share of a node, where it brings none of its own."""
    limit = spec.time_limit_seconds or PlatformSettings.current().default_time_limit_seconds
    return replace(with_host_share(spec), time_limit_seconds=limit)


def _submission(spec: BatchInferenceSpec, replaces: str | None) -> Submission:
    return Submission(
        kind=KIND,
        name=spec.name,
        container=spec,
        flavor=spec.flavor,
        capacity_type=spec.first_capacity,
        fallback_capacity="",
        units_each=spec.gpus_per_replica,
        replicas=spec.replicas,
        pods=spec.replicas,
        preemptible=True,
        trains=False,
        priority=Priority(spec.priority),
        time_limit_seconds=spec.time_limit_seconds,
        max_retries=spec.max_retries,
        labels=dict(spec.labels),
        replaces=replaces,
    )
