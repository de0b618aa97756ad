from __future__ import annotations

import pytest

from cluster import kinds
from cluster.labels import selector
from controller import services
from foundation import clock
from inference.services import deploy_endpoint, update_endpoint
from inference.specs import EndpointSpec
from quotas.models import Quota
from teams.actors import Actor

pytestmark = pytest.mark.django_db(transaction=True)


def spec(bench, **fields):
    body = {
        "name": "digits",
        "image": "example.org/serve:1",
        "command": ["python", "serve.py"],
        "flavor": bench.flavor.name,
        "gpus_per_replica": 1,
        "cpu": "1",
        "memory": "1Gi",
        "min_replicas": 2,
        "max_replicas": 2,
        **fields,
    }
    return EndpointSpec.from_json(body)


def deploy(bench, **fields):
    actor = Actor.of_user(bench.member)
    return deploy_endpoint(spec=spec(bench, **fields), team=bench.team, actor=actor, now=clock.now())


def own(bench, workload, kind):
    label = selector(workload_id=str(workload.public_id))
    return bench.client.list(kind, namespace=bench.team.namespace_name, label_selector=label).items


def test_an_endpoint_becomes_ready_is_updated_and_leaves_nothing_when_deleted(bench):
    endpoint = deploy(bench)
    workload = endpoint.workload
    bench.until(workload, lambda row: row.reason == "Ready")
    assert workload.phase == "Running"
    assert Quota.objects.get().used == 2
    for kind in (kinds.DEPLOYMENT, kinds.SERVICE, kinds.DISRUPTION_BUDGET):
        assert len(own(bench, workload, kind)) == 1, kind

    actor = Actor.of_user(bench.member)
    update_endpoint(
        endpoint=endpoint, spec=spec(bench, image="example.org/serve:2"), actor=actor, now=clock.now()
    )
    bench.turn(workload)

    def rolled_out(row):
        pods = [
            pod for pod in own(bench, workload, kinds.POD) if not pod["metadata"].get("deletionTimestamp")
        ]
        images = {pod["spec"]["containers"][0]["image"] for pod in pods}
        return row.reason == "Ready" and images == {"example.org/serve:2"} and len(pods) == 2

    bench.until(workload, rolled_out)
    services.cancel(workload=workload, actor=actor, now=clock.now())
    bench.until(workload, lambda row: row.is_final, seconds=90)
    assert workload.phase == "Cancelled"
    assert Quota.objects.get().used == 0
    for kind in (kinds.DEPLOYMENT, kinds.POD):
        assert own(bench, workload, kind) == []


def test_a_stopped_endpoint_frees_its_gpus_and_starts_again(bench):
    workload = deploy(bench).workload
    bench.until(workload, lambda row: row.reason == "Ready")
    actor = Actor.of_user(bench.member)
    services.suspend(workload=workload, actor=actor, now=clock.now())
    bench.until(workload, lambda row: row.phase == "Suspended", seconds=90)
    assert Quota.objects.get().used == 0
    services.resume(workload=workload, actor=actor, now=clock.now())
    bench.until(workload, lambda row: row.reason == "Ready")
    assert workload.attempts.count() == 2


def test_a_deployment_that_somebody_else_deletes_is_made_again(bench):
    workload = deploy(bench).workload
    bench.until(workload, lambda row: row.reason == "Ready")
    (deployment,) = own(bench, workload, kinds.DEPLOYMENT)
    ref = kinds.ObjectRef("apps/v1", "Deployment", bench.team.namespace_name, deployment["metadata"]["name"])
    bench.client.delete(ref, uid=deployment["metadata"]["uid"])

    def again(row):
        found = own(bench, workload, kinds.DEPLOYMENT)
        return (
            row.reason == "Ready" and found and found[0]["metadata"]["uid"] != deployment["metadata"]["uid"]
        )

    bench.until(workload, again, seconds=90)


def test_a_rollout_takes_a_second_claim_for_its_surge_and_gives_it_back(bench):
    endpoint = deploy(bench, min_replicas=1, max_replicas=1)
    workload = endpoint.workload
    bench.until(workload, lambda row: row.reason == "Ready")
    actor = Actor.of_user(bench.member)
    new = spec(bench, image="example.org/serve:2", min_replicas=1, max_replicas=1)
    update_endpoint(endpoint=endpoint, spec=new, actor=actor, now=clock.now())
    bench.turn(workload)
    assert Quota.objects.get().used == 2
    bench.until(workload, lambda row: row.reason == "Ready" and Quota.objects.get().used == 1)
    assert row_images(bench, workload) == {"example.org/serve:2"}


def row_images(bench, workload):
    pods = [pod for pod in own(bench, workload, kinds.POD) if not pod["metadata"].get("deletionTimestamp")]
    return {pod["spec"]["containers"][0]["image"] for pod in pods}
