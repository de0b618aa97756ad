"""Endpoints of the bench's team: asked for, changed, and looked at on the cluster."""

from __future__ import annotations

from typing import Any

from cluster import kinds
from cluster.errors import ObjectNotFound
from cluster.kinds import ObjectRef, ResourceKind
from foundation import clock
from foundation.models import PlatformSettings
from inference.autoscaling.services import scale_endpoint
from inference.models import Endpoint
from inference.services import deploy_endpoint, update_endpoint
from inference.specs import EndpointSpec
from quotas.models import Quota
from teams.actors import Actor
from tests.controller.conftest import Bench
from workloads.models import WatchCursor

BAD_IMAGE = "example.com/does-not-exist:1"
BY_CPU = {"min_replicas": 1, "max_replicas": 4, "scaling": {"trigger": "cpu"}}
TWO = {"min_replicas": 2, "max_replicas": 2}


def spec(bench: Bench, **fields: Any) -> EndpointSpec:
    """Of one replica with one GPU unless told otherwise."""
    body = {
        "name": "digits",
        "image": "example.org/serve:1",
        "command": ["python", "serve.py"],
        "flavor": bench.flavor.name,
        "gpus_per_replica": 1,
        "cpu": "1",
        "memory": "1Gi",
        **fields,
    }
    return EndpointSpec.from_json(body)


def deploy(bench: Bench, **fields: Any) -> Endpoint:
    """One at which nobody has looked yet."""
    actor = Actor.of_user(bench.member)
    return deploy_endpoint(spec=spec(bench, **fields), team=bench.team, actor=actor, now=clock.now())


def ready(bench: Bench, **fields: Any) -> Endpoint:
    """One whose pods serve. An autoscaler that nothing measures for says so as soon as it has looked."""
    endpoint = deploy(bench, **fields)
    serves = {"Ready", "ScalerFailed"} if fields.get("scaling") == BY_CPU["scaling"] else {"Ready"}
    bench.until(endpoint.workload, lambda row: row.reason in serves and states(endpoint)[-1] == "live")
    return endpoint


def change(bench: Bench, endpoint: Endpoint, **fields: Any) -> Endpoint:
    endpoint.refresh_from_db()
    endpoint.workload.refresh_from_db()
    wanted = EndpointSpec.from_json({**endpoint.current.spec, **fields})
    actor = Actor.of_user(bench.member)
    return update_endpoint(endpoint=endpoint, spec=wanted, actor=actor, now=clock.now())


def scale(bench: Bench, endpoint: Endpoint, least: int, most: int) -> None:
    actor = Actor.of_user(bench.member)
    endpoint.refresh_from_db()
    endpoint.workload.refresh_from_db()
    scale_endpoint(endpoint=endpoint, min_replicas=least, max_replicas=most, actor=actor, now=clock.now())


def states(endpoint: Endpoint) -> list[str]:
    """Of all revisions, the first one first."""
    return list(endpoint.revisions.order_by("number").values_list("state", flat=True))


def history(endpoint: Endpoint, number: int | None = None) -> list[str]:
    """The steps of rollouts, oldest first; of one revision where it is named."""
    found = endpoint.workload.events.filter(source__startswith="revision ").order_by("id")
    if number is not None:
        found = found.filter(source=f"revision {number}")
    return list(found.values_list("reason", flat=True))


def pods(bench: Bench, endpoint: Endpoint) -> list[dict[str, Any]]:
    """Without those that are being deleted."""
    found = bench.own(endpoint.workload, kinds.POD)
    return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]


def uids(bench: Bench, endpoint: Endpoint) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods(bench, endpoint)}


def images(bench: Bench, endpoint: Endpoint) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in pods(bench, endpoint)}


def beside(bench: Bench, endpoint: Endpoint, kind: ResourceKind) -> dict[str, Any] | None:
    """The object of the kind that has the Deployment's name, or the Deployment; None where there is none."""
    name = endpoint.workload.attempts.get(ended_at=None).object_name
    try:
        return bench.client.get(ObjectRef(kind.api_version, kind.kind, bench.team.namespace_name, name))
    except ObjectNotFound:
        return None


def offer(kind: ResourceKind) -> WatchCursor:
    """The cluster serves the kind, as the watcher has found; what it is taken away with."""
    now = clock.now()
    return WatchCursor.objects.create(kind=kind.address, resource_version="1", listed_at=now, seen_at=now)


def used() -> int:
    return Quota.objects.get().used


def impatient(**seconds: int) -> None:
    """Deadlines of the platform: `image_pull_deadline=1`."""
    values = {f"{name}_seconds": value for name, value in seconds.items()}
    PlatformSettings.objects.update_or_create(pk=1, defaults=values)
