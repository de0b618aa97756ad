"""Quotas where they meet the cluster: nodes that come from zero, and nodes that only look whole."""

from __future__ import annotations

from contextlib import suppress
from uuid import uuid4

import pytest

from cluster import kinds
from cluster.errors import ObjectNotFound
from cluster.kinds import ObjectRef
from foundation import clock
from tests.factories.catalogue import make_flavor, make_quota
from workloads.models import NodeRecord
from workloads.observations import record_node

pytestmark = pytest.mark.django_db(transaction=True)

REAL_ONLY = pytest.mark.parametrize(
    "client", [pytest.param("real", marks=pytest.mark.cluster)], indirect=True
)


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
        record_node(bench.client.get(ref), cluster=bench.client.cluster, now=clock.now())
        bench.until(run, lambda run: run.is_final, seconds=120)
        assert run.phase == "Succeeded"
        assert run.pods.get().node_name == label
    finally:
        with suppress(ObjectNotFound):
            bench.client.delete(ref, uid=made["metadata"]["uid"])
