"""Quotas where they meet the cluster: the second fence, nodes that come from zero, and nodes that only look whole."""

from __future__ import annotations

from contextlib import suppress
from uuid import uuid4

import pytest

from cluster import kinds
from cluster.errors import ClusterRejected, ObjectNotFound
from cluster.kinds import ObjectRef
from controller.fences import keep_in_step
from controller.tenancy import ensure_namespace
from foundation import clock
from quotas.limits import set_nominal
from quotas.models import Fence
from tests.factories.catalogue import SETUP, make_flavor, make_quota
from tests.waiting import until
from workloads.models import NodeRecord
from workloads.observations import record_node

pytestmark = pytest.mark.django_db(transaction=True)

REAL_ONLY = pytest.mark.parametrize(
    "client", [pytest.param("real", marks=pytest.mark.cluster)], indirect=True
)


def pod(namespace, units):
    resources = {"limits": {"nvidia.com/gpu": str(units), "cpu": "1", "memory": "1Gi"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"by-hand-{uuid4().hex[:6]}", "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 1000,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "main",
                    "image": "example.org/by-hand:1",
                    "resources": resources,
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }


def refuses(bench, units):
    """Whether the API server refuses such a pod; one that it takes is deleted again."""
    try:
        made = bench.client.create(pod(bench.team.namespace_name, units))
    except ClusterRejected as error:
        return "exceeded quota" in error.message
    bench.client.delete(
        ObjectRef("v1", "Pod", bench.team.namespace_name, made["metadata"]["name"]),
        uid=made["metadata"]["uid"],
    )
    return False


def test_a_pod_by_hand_beyond_the_fence_is_refused_by_the_cluster_itself(bench):
    ensure_namespace(bench.client, bench.team)
    keep_in_step(bench.client, now=clock.now())
    fence = Fence.objects.get(team=bench.team)
    assert fence.derived == fence.observed == {"nvidia.com/gpu": 8}
    until(lambda: refuses(bench, 9))
    set_nominal(
        team=bench.team,
        flavor=bench.flavor,
        capacity_type="on-demand",
        nominal=2,
        reason="less",
        actor=SETUP,
        now=clock.now(),
    )
    keep_in_step(bench.client, now=clock.now())
    # Admission reads the quota from a cache of the API server, which follows a moment later.
    until(lambda: refuses(bench, 3))
    assert not refuses(bench, 2)


@REAL_ONLY
def test_whole_gpus_are_never_placed_on_nodes_that_share_or_slice_theirs(bench):
    """A flavor without any label of its own: only the sharing rules keep it off the nodes that lie."""
    names = {node["metadata"]["name"] for node in bench.client.list(kinds.NODE).items}
    liars = {"t4-unrenamed-0", "a100-mig-single-0"}
    assert liars < names
    flavor = make_flavor("any-gpu", product=None)
    make_quota(bench.team, flavor, 40)
    runs = [
        bench.submit(name=f"any-{number}", flavor="any-gpu", gpus_per_replica=1, env={"BED_RUN_SECONDS": 30})
        for number in range(12)
    ]
    for run in runs:
        bench.until(run, lambda run: run.phase in {"Starting", "Running"})
        node = NodeRecord.objects.get(name=run.pods.get().node_name)
        assert node.name not in liars
        assert "SHARED" not in node.labels.get("nvidia.com/gpu.product", "")
        assert "-MIG-" not in node.labels.get("nvidia.com/gpu.product", "")
        assert node.labels.get("nvidia.com/gpu.sharing-strategy", "none") == "none"


@REAL_ONLY
def test_a_pool_without_nodes_gets_its_pod_and_the_pod_starts_when_a_node_appears(bench):
    label = f"pool-{uuid4().hex[:8]}"
    flavor = make_flavor(
        "from-zero",
        product=None,
        capacity={
            "spot": {
                "node_selector": {"example.org/pool": [label]},
                "provisionable": {"block": 8, "units": 8},
            }
        },
    )
    make_quota(bench.team, flavor, 8, "spot")
    run = bench.submit(flavor="from-zero", capacity="spot", gpus_per_replica=8, env={"BED_RUN_SECONDS": 2})
    bench.until(run, lambda run: run.reason == "Unschedulable")
    assert run.phase == "Admitted"
    assert run.pods.filter(node_name="").exists()
    template = next(
        node for node in bench.client.list(kinds.NODE).items if node["metadata"]["name"] == "a100-0"
    )
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": label,
            "labels": {
                **template["metadata"]["labels"],
                "kubernetes.io/hostname": label,
                "example.org/pool": label,
            },
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"taints": template["spec"].get("taints", [])},
        "status": {
            name: template["status"][name] for name in ("allocatable", "capacity", "nodeInfo", "phase")
        },
    }
    made = bench.client.create(node)
    ref = ObjectRef("v1", "Node", "", label)
    try:
        record_node(bench.client.get(ref), now=clock.now())
        bench.until(run, lambda run: run.is_final, seconds=120)
        assert run.phase == "Succeeded"
        assert run.pods.get().node_name == label
    finally:
        with suppress(ObjectNotFound):
            bench.client.delete(ref, uid=made["metadata"]["uid"])
