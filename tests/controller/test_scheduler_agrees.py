"""What admission judges by and what the scheduler is told come to the same nodes, on the scheduler itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from cluster import kinds
from cluster.kinds import ObjectRef
from cluster.names import DEFAULT_CLUSTER
from foundation import clock
from jobs.manifests import build_training_run
from jobs.specs import TrainingRunSpec
from policy.judge import judge
from policy.pool_snapshot import NEW
from quotas import snapshots
from quotas.waiters import new_waiter
from tests.controller import clusters
from tests.controller.clusters import own_namespace
from tests.factories.catalogue import make_flavor, make_quota
from tests.factories.teams import make_team
from tests.manifest_samples import placement
from tests.quotas import node_sets as sets
from workloads.observations import record_foreign_pod, record_node
from workloads.placement import PRODUCT_LABEL, WHOLE_GPU, NodeFacts, matches, node_terms, tolerations
from workloads.podrequests import quantity_of, requests_of_pod
from workloads.states import Priority

pytestmark = pytest.mark.django_db(transaction=True)

WISHES = 15
until = partial(clusters.until, seconds=60)


def add_node(client, facts, **offers):
    resources = offers or {"cpu": "64", "memory": "256Gi", "pods": "100"}
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
        found = [record_node(item, cluster=DEFAULT_CLUSTER, now=clock.now()).facts for item in items]
        return found if not new and all(node.ready for node in found) else None

    return until(settled)


@pytest.fixture
def namespace(client):
    with own_namespace(client, "scheduler") as name:
        yield name


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


# --- CPU, memory, storage and places


def random_amounts(chance):
    """What a container asks for: some of it, sometimes as a limit alone, which is a request too."""
    asked = {
        "cpu": chance.choice(["100m", "250m", "0.5", "1", "1500m"]),
        "memory": chance.choice(["128Mi", "1Gi", "1500M", "2Gi", "3Gi"]),
        "ephemeral-storage": chance.choice(["1G", "5Gi", "8G"]),
    }
    kept = {name: amount for name, amount in asked.items() if chance.random() < 0.6}
    return {chance.choice(["requests", "requests", "limits"]): kept} if kept else {}


def random_container(chance, name, **more):
    return {"name": name, "image": "x", "resources": random_amounts(chance), **more}


@dataclass(frozen=True)
class Foreign:
    """What other people's pods may be besides plain ones with init containers, as far as the cluster knows it."""

    whole: bool = False
    """Sidecars, and requests of a pod as a whole."""
    overhead: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a pod that bring one."""

    def pod(self, chance, namespace, number):
        spec = {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 0,
            "initContainers": [self.init(chance, each) for each in range(chance.choice([0, 1, 2, 3]))],
            "containers": [random_container(chance, f"main-{each}") for each in range(chance.choice([1, 2]))],
        }
        if self.whole and chance.random() < 0.3:
            # At least what its containers ask for together; the API server refuses less.
            total = requests_of_pod(spec)
            spec["resources"] = {
                "requests": {
                    name: quantity_of(name, total.get(name, 0) + more)
                    for name, more in (("cpu", 300), ("memory", 2**29))
                }
            }
        if chance.random() < 0.4:
            spec |= self.overhead
        metadata = {"name": f"foreign-{number}", "namespace": namespace}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def init(self, chance, number):
        sidecar = self.whole and chance.random() < 0.5
        return random_container(chance, f"init-{number}", **({"restartPolicy": "Always"} if sidecar else {}))


OVERHEAD = {"cpu": "250m", "memory": "120Mi"}


@pytest.fixture
def foreign(request, client):
    """devcluster knows no sidecars, and no classes that bring an overhead: there a pod names its own."""
    if "devcluster" in request.node.callspec.id:
        yield Foreign(overhead={"overhead": OVERHEAD})
        return
    name = f"heavy-{uuid4().hex[:8]}"
    made = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": "x",
    }
    path = "/apis/node.k8s.io/v1/runtimeclasses"
    client._json("POST", path, body=made | {"overhead": {"podFixed": OVERHEAD}})
    yield Foreign(whole=True, overhead={"runtimeClassName": name})
    client._json("DELETE", f"{path}/{name}")


def random_room(chance, name, marks):
    """A node with few units and little beside them, for this test alone."""
    offers = {
        "cpu": chance.choice(["2", "3920m", "6"]),
        "memory": chance.choice(["6Gi", "7900Mi", "14Gi"]),
        "ephemeral-storage": chance.choice(["20G", "30Gi", "100Gi"]),
        "pods": chance.choice(["3", "6", "110"]),
    }
    taints = [{"key": key, "value": value, "effect": "NoSchedule"} for key, value in marks.items()]
    units = {WHOLE_GPU: chance.choice([2, 4])}
    return NodeFacts(name, {PRODUCT_LABEL: "Tesla-T4", **marks}, units, taints=taints), offers


def random_wish(chance, number):
    """A request for GPUs whose code comes from git half of the time, which is an init container more."""
    body = {
        "name": f"wish-{number}",
        "image": "x",
        "command": ["train"],
        "flavor": "room",
        "gpus_per_replica": chance.choice([1, 1, 1, 2, 5]),
        "replicas": chance.choice([1, 1, 2, 3]),
        "cpu": chance.choice(["100m", "500m", "1", "1920m", "3", "7"]),
        "memory": chance.choice(["256Mi", "1Gi", "2000M", "3Gi", "6Gi", "7Gi", "20Gi"]),
        "ephemeral_storage": chance.choice([None, None, "1G", "9Gi", "25G"]),
    }
    if chance.random() < 0.5:
        body["source"] = {"git": {"url": "https://example.org/x.git"}}
    return TrainingRunSpec.from_json(body)


class Rooms:
    """A few small nodes with other people's pods, and a team that may use all of their GPUs."""

    def __init__(self, client, namespace, chance):
        self.client, self.namespace, self.chance = client, namespace, chance
        marks = {"room": f"r-{uuid4().hex[:8]}"}
        rooms = [random_room(chance, f"room-{number}", marks) for number in range(3)]
        self.made = [add_node(client, facts, **offers) for facts, offers in rooms]
        self.flavor = make_flavor("room", product=None)
        self.flavor.node_selector = {key: [value] for key, value in marks.items()}
        self.flavor.tolerations = [{"key": "room", "operator": "Exists"}]
        self.flavor.save()
        self.team = make_team()
        make_quota(self.team, self.flavor, 100)
        self.nodes = observed(client)

    def fill(self, foreign):
        """Other people's pods, of which some find no room either."""
        for number in range(self.chance.choice([2, 4, 6])):
            pod = foreign.pod(self.chance, self.namespace, number)
            self.create(pod, tolerations=self.flavor.tolerations, nodeSelector=self.selector)
        for pod in self.decided():
            record_foreign_pod(pod, cluster=DEFAULT_CLUSTER, now=clock.now())

    @property
    def selector(self):
        return {key: values[0] for key, values in self.flavor.node_selector.items()}

    def create(self, pod, **more):
        self.client.create({**pod, "spec": {**pod["spec"], **more}})

    def decided(self):
        def all_decided():
            pods = self.client.list(kinds.POD, namespace=self.namespace).items
            return pods if all(decided(pod) is not None for pod in pods) else None

        return until(all_decided)

    def verdict(self, spec):
        """What admission says of it as a newcomer."""
        waiter = new_waiter(
            team=self.team.slug,
            owner_id=1,
            noun="run",
            units=spec.gpus_per_replica * spec.replicas,
            units_each=spec.gpus_per_replica,
            pods=spec.replicas,
            beside=spec.beside,
            priority=Priority.NORMAL,
            seconds=3600,
            preemptible=False,
            now=clock.now(),
        )
        snapshot = snapshots.pool_snapshot_of(
            flavor=self.flavor, capacity_type="on-demand", now=clock.now(), extra=waiter
        )
        return judge(snapshot, NEW)

    def bound(self, spec):
        """How many of its pods, as they are really made, the scheduler finds a node for; then they are gone again."""
        facts = self.flavor.facts
        placed = placement(
            spec.name, "training-run",
            resource_name=facts.resource,
            node_terms=node_terms(facts, "on-demand", self.nodes),
            tolerations=tolerations(facts, "on-demand"),
            namespace=self.namespace, service_account="default",
        )  # fmt: skip
        template = build_training_run(spec, placed).primary["spec"]["template"]
        for number in range(spec.replicas):
            metadata = {"name": f"{spec.name}-{number}", "namespace": self.namespace}
            self.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
        own = [pod for pod in self.decided() if pod["metadata"]["name"].startswith("wish-")]
        for pod in own:
            self.client.delete(kinds.ref_of(pod), uid=pod["metadata"]["uid"], grace_seconds=0)
        until(lambda: not any(pod["metadata"]["name"].startswith("wish-") for pod in self.decided()))
        return sum(bool(decided(pod)) for pod in own)


@pytest.mark.parametrize("seed", range(4))
def test_whoever_is_admitted_is_bound_and_whoever_waits_is_not(client, namespace, foreign, seed):
    chance = Random(f"rooms-{seed}")
    rooms = Rooms(client, namespace, chance)
    try:
        rooms.fill(foreign)
        said = Counter()
        for number in range(WISHES):
            spec = random_wish(chance, number)
            verdict = rooms.verdict(spec)
            assert verdict.admitted == (rooms.bound(spec) == spec.replicas), (number, spec, verdict)
            said[verdict.rule] += 1
        assert len(said) > 2, said
    finally:
        for ref, uid in rooms.made:
            client.delete(ref, uid=uid)
