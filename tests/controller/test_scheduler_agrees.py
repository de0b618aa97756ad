"""What admission judges by and what the scheduler is told come to the same nodes, on the scheduler itself."""

from __future__ import annotations

from functools import partial
from uuid import uuid4

import pytest

from cluster import kinds
from cluster.errors import ObjectNotFound
from cluster.kinds import ObjectRef
from foundation import clock
from tests.controller import clusters
from tests.quotas import node_sets as sets
from workloads.observations import record_node
from workloads.placement import matches, node_terms, tolerations

pytestmark = pytest.mark.django_db(transaction=True)

until = partial(clusters.until, seconds=60)


def add_node(client, facts):
    resources = {"cpu": "64", "memory": "256Gi", "pods": "100"}
    resources |= {name: str(units) for name, units in facts.allocatable.items()}
    name = f"{facts.name}-{uuid4().hex[:6]}"
    metadata = {"name": name, "labels": dict(facts.labels), "annotations": {"kwok.x-k8s.io/node": "fake"}}
    status = {"capacity": resources, "allocatable": resources}
    made = client.create(
        {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": list(facts.taints)}}
    )
    ref = ObjectRef("v1", "Node", "", name)
    client.patch_merge(ref, {"status": status}, sub="status")
    return ref, made["metadata"]["uid"]


def observed(client):
    """Every node, once the API server shows it ready and free of the taints of a new one."""

    def settled():
        items = client.list(kinds.NODE).items
        new = [
            item["metadata"]["name"]
            for item in items
            if any(
                taint["key"].startswith("node.kubernetes.io/") for taint in item["spec"].get("taints") or []
            )
        ]
        found = [record_node(item, now=clock.now()).facts for item in items]
        return found if not new and all(node.ready for node in found) else None

    return until(settled)


@pytest.fixture
def namespace(client):
    name = f"scheduler-{uuid4().hex[:8]}"
    made = client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    account = ObjectRef("v1", "ServiceAccount", name, "default")

    def there():
        try:
            return client.get(account)
        except ObjectNotFound:
            return None

    until(there)
    yield name
    client.delete(ObjectRef("v1", "Namespace", "", name), uid=made["metadata"]["uid"])


def pinned_pod(namespace, flavor, terms, node):
    """A pod of one unit that may go to one node alone, if the terms let it."""
    pinned = {"key": "metadata.name", "operator": "In", "values": [node.name]}
    term = {"matchFields": [pinned]} | ({"matchExpressions": terms} if terms else {})
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }
    limits = {flavor.resource: "1"}
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "affinity": affinity,
        "tolerations": tolerations(flavor, "on-demand"),
        "containers": [{"name": "main", "image": "x", "resources": {"limits": limits}}],
    }
    metadata = {"name": f"{flavor.name}-{node.name}"[:60].rstrip("-."), "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def decided(pod):
    """The node that the scheduler chose, "" if it found none, None while it has not looked."""
    if pod["spec"].get("nodeName"):
        return pod["spec"]["nodeName"]
    conditions = pod.get("status", {}).get("conditions") or []
    return (
        ""
        if any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)
        else None
    )


def taken(client, namespace, flavor, terms, nodes):
    """Names of the nodes to which the scheduler binds a pod of the flavor, each asked with a pod of its own."""
    for node in nodes:
        client.create(pinned_pod(namespace, flavor, terms, node))

    def all_decided():
        pods = client.list(kinds.POD, namespace=namespace).items
        return pods if all(decided(pod) is not None for pod in pods) else None

    pods = until(all_decided)
    for pod in pods:
        client.delete(kinds.ref_of(pod), uid=pod["metadata"]["uid"], grace_seconds=0)
    until(lambda: not client.list(kinds.POD, namespace=namespace).items)
    return {decided(pod) for pod in pods} - {""}


def test_the_scheduler_binds_each_flavors_pods_where_the_rule_says_and_nowhere_else(client, namespace):
    before = observed(client)
    told = {flavor.name: node_terms(flavor, "on-demand", before) for flavor in sets.FLAVORS}
    late = [add_node(client, facts) for facts in sets.LATE]
    try:
        nodes = observed(client)
        assert len(nodes) == len(before) + len(late)
        bound = 0
        for flavor in sets.FLAVORS:
            expected = {node.name for node in nodes if matches(flavor, "on-demand", node)}
            # The terms are those of before the late nodes came.
            assert taken(client, namespace, flavor, told[flavor.name], nodes) == expected, flavor.name
            bound += len(expected)
        assert bound > len(sets.FLAVORS)
    finally:
        for ref, uid in late:
            client.delete(ref, uid=uid)
