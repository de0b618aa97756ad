"""An endpoint with three revisions, for the tests of its pages."""

from __future__ import annotations

from datetime import timedelta

from foundation import clock
from inference.models import Endpoint, EndpointRevision
from inference.services import update_endpoint
from inference.specs import EndpointSpec
from quotas.models import Quota
from teams.actors import Actor
from workloads.services import note


def make_revised(workload):
    """Its live endpoint, with a revision that failed and the one that came back."""
    endpoint = Endpoint.objects.get(workload=workload)
    go_live(endpoint, 1)
    spec = EndpointSpec.from_json({**endpoint.current.spec, "image": "registry.example.org/serve:3.0"})
    actor = Actor.of_user(workload.owner)
    update_endpoint(endpoint=endpoint, spec=spec, actor=actor, now=clock.now())
    failed = endpoint.revisions.get(number=2)
    failed.state, failed.message, failed.failed_at = "failed", "Its image could not be pulled.", clock.now()
    failed.save()
    first = endpoint.revisions.get(number=1)
    EndpointRevision.objects.create(
        endpoint=endpoint,
        number=3,
        spec=first.spec,
        actor="rollout",
        created_at=clock.now(),
        cause="automatic-rollback",
        returns_to=1,
        pods_of=1,
    )
    Endpoint.objects.filter(pk=endpoint.pk).update(revision=3)
    for step in ("RolloutStarted", "RevisionFailed"):
        text = f"Revision 2: {step}."
        note(
            endpoint.workload,
            reason=step,
            message=text,
            actor="rollout",
            source="revision 2",
            now=clock.now(),
        )
    endpoint.refresh_from_db()
    go_live(endpoint, 3)
    return endpoint


def go_live(endpoint, number):
    at = clock.now() - timedelta(minutes=3)
    endpoint.revisions.filter(number=number).update(
        state="live", live_at=at, load_seconds=42, ready=1, updated=1, total=1
    )
    Endpoint.objects.filter(pk=endpoint.pk).update(stable_revision=number, target=number)
    endpoint.refresh_from_db()


def fill_the_quota(endpoint):
    quota = Quota.objects.get(team=endpoint.workload.team, flavor=endpoint.workload.flavor)
    Quota.objects.filter(pk=quota.pk).update(used=quota.ceiling)


def change_as(user, endpoint, spec):
    update_endpoint(
        endpoint=endpoint, spec=EndpointSpec.from_json(spec), actor=Actor.of_user(user), now=clock.now()
    )
