"""What others hold, what nodes do and what Karpenter may bring: seen, counted, and admission told."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import partial
from uuid import uuid4

import pytest

from cluster import kinds
from cluster.kinds import ObjectRef
from controller.watch import watcher as module
from controller.watch.capacity import ForeignPodSink, NodePoolSink, NodeSink
from controller.watch.watcher import EVERY, FOREIGN, WHERE_SERVED
from foundation import clock
from quotas.models import Pool
from tests.controller import clusters
from tests.controller.clusters import gone, own_namespace
from tests.controller.followers import Follower
from tests.factories.catalogue import make_flavor
from workloads.models import ForeignPod, NodePoolRecord, NodeRecord, WatchCursor
from workloads.nodes.capacity import rooms_of
from workloads.observations import record_node

pytestmark = pytest.mark.django_db(transaction=True)

until = partial(clusters.until, seconds=40)

TOLERATE = [{"operator": "Exists"}]


@pytest.fixture(autouse=True)
def short_watches(monkeypatch):
    monkeypatch.setattr(module, "WATCH_SECONDS", 1)
    monkeypatch.setattr(module, "UNSERVED_SECONDS", 0.2)


@contextmanager
def following(client, kind, sink, scope):
    stop = threading.Event()
    follower = Follower(kind=kind, sink=sink, client=lambda: client, stop=stop, scope=scope)
    follower.start()
    try:
        yield follower
    finally:
        stop.set()
        follower.join(30)
        assert not follower.is_alive()


@pytest.fixture
def flavor(client):
    """A flavor of the nodes that this test makes, so that others on the same cluster do not meddle."""
    return make_flavor("own", product=f"Own-{uuid4().hex[:8]}")


@pytest.fixture
def node(client, flavor):
    """A node of that product with four GPUs."""
    name = f"own-{uuid4().hex[:8]}"
    labels = {"nvidia.com/gpu.product": flavor.node_selector["nvidia.com/gpu.product"][0]}
    resources = {"nvidia.com/gpu": "4", "cpu": "8", "memory": "32Gi", "pods": "50"}
    metadata = {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    made = client.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {
        "capacity": resources, "allocatable": resources}})  # fmt: skip
    ref = ObjectRef("v1", "Node", "", name)
    # A real API server drops the status of a node that is made; a patch of it is taken.
    client.patch_merge(ref, {"status": {"capacity": resources, "allocatable": resources}}, sub="status")
    yield ref
    client.delete(ref, uid=made["metadata"]["uid"])


@pytest.fixture
def namespace(client):
    with own_namespace(client, "foreign") as name:
        yield name


def make_pod(client, namespace, node, name, *, gpus=1, init=(), labels=None, memory=None, **env):
    def container(name, units):
        limits = {"nvidia.com/gpu": str(units)} if units else {}
        limits |= {"memory": memory} if memory else {}
        variables = [{"name": key, "value": value} for key, value in env.items()]
        return {"name": name, "image": "x", "env": variables, "resources": {"limits": limits}}

    spec = {
        "restartPolicy": "Never",
        "tolerations": TOLERATE,
        "nodeSelector": {"kubernetes.io/hostname": node.name} if node else {"nowhere": "true"},
        "containers": [container("main", gpus)],
        "initContainers": [container(f"init-{index}", units) for index, units in enumerate(init)],
    }
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    made = client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return made["metadata"]["uid"]


def in_service(client, flavor, node):
    """Give it the kubelet's label, which nobody else sets here, and wait until pods may be bound to it."""
    client.patch_merge(node, {"metadata": {"labels": {"kubernetes.io/hostname": node.name}}})
    until(
        lambda: (
            record_node(client.get(node), cluster=client.cluster, now=clock.now()).ready
            and room(flavor, node)
        )
    )


def beat(client, node):
    """A change that says nothing of what the node offers; returns once it is in the row."""
    changed = client.patch_merge(node, {"metadata": {"annotations": {"beat": uuid4().hex}}})
    version = int(changed["metadata"]["resourceVersion"])
    until(lambda: int(NodeRecord.objects.get(name=node.name).resource_version) >= version)


def due(flavor):
    return Pool.objects.filter(flavor=flavor, due_at__isnull=False).exists()


def room(flavor, node):
    return next((room for room in rooms_of(flavor, "on-demand").rooms if room.node == node.name), None)


def test_what_pods_of_others_hold_is_not_free_until_they_end(client, flavor, node, namespace):
    in_service(client, flavor, node)
    assert room(flavor, node).free == 4
    with following(client, kinds.POD, ForeignPodSink(), FOREIGN):
        until(lambda: WatchCursor.objects.filter(kind="ForeignPod"))
        make_pod(client, namespace, node, "short", gpus=1, init=(3,), BED_RUN_SECONDS="2")
        until(lambda: ForeignPod.objects.filter(name="short", node_name=node.name))
        assert (room(flavor, node).free, room(flavor, node).foreign) == (1, 3), "an init container counts too"
        assert due(flavor)
        Pool.objects.update(due_at=None)
        until(lambda: not ForeignPod.objects.filter(name="short"))
        assert not gone(client, ObjectRef("v1", "Pod", namespace, "short")), (
            "it has ended, and is still there"
        )
        assert room(flavor, node).free == 4
        until(lambda: due(flavor))


def test_of_other_pods_those_count_that_are_on_a_node(client, flavor, node, namespace):
    in_service(client, flavor, node)
    own = {"app.kubernetes.io/managed-by": "ml-portal", "mlportal.dev/workload-id": "x"}
    part = {"mlportal.dev/workload-id": "x"}
    make_pod(client, namespace, node, "cpu-only", gpus=0, memory="3Gi")
    make_pod(client, namespace, None, "unbound")
    make_pod(client, namespace, node, "own", labels=own)
    make_pod(client, namespace, node, "half-marked", labels=part)
    with following(client, kinds.POD, ForeignPodSink(), FOREIGN):
        until(lambda: ForeignPod.objects.filter(name="half-marked"))
        until(lambda: WatchCursor.objects.filter(kind="ForeignPod"))
        found = ForeignPod.objects.filter(namespace=namespace)
        gpu = {"nvidia.com/gpu": 1}
        assert {pod.name: pod.requests for pod in found} == {"half-marked": gpu, "cpu-only": {}}


def test_memory_that_others_take_beside_the_gpus_of_a_node_makes_its_pools_due(
    client, flavor, node, namespace
):
    in_service(client, flavor, node)
    whole = room(flavor, node).left
    with following(client, kinds.POD, ForeignPodSink(), FOREIGN):
        until(lambda: WatchCursor.objects.filter(kind="ForeignPod"))
        Pool.objects.all().delete()
        agent = make_pod(client, namespace, node, "agent", gpus=0, memory="3Gi")
        until(lambda: due(flavor))
        left = room(flavor, node).left
        assert (left[1], left[3]) == (whole[1] - 3 * 1024**3, whole[3] - 1)
        Pool.objects.all().delete()
        client.delete(ObjectRef("v1", "Pod", namespace, "agent"), uid=agent, grace_seconds=0)
        until(lambda: due(flavor))
        assert room(flavor, node).left == whole


def test_what_ended_or_went_while_nobody_looked_is_forgotten_and_nothing_else(
    client, flavor, node, namespace
):
    in_service(client, flavor, node)
    with following(client, kinds.POD, ForeignPodSink(), FOREIGN):
        ended = make_pod(client, namespace, node, "ended", BED_RUN_SECONDS="3")
        gone = make_pod(client, namespace, node, "gone")
        make_pod(client, namespace, node, "stays")
        until(lambda: ForeignPod.objects.filter(namespace=namespace).count() == 3)
    client.delete(ObjectRef("v1", "Pod", namespace, "gone"), uid=gone, grace_seconds=0)
    ended_ref = ObjectRef("v1", "Pod", namespace, "ended")
    until(lambda: client.get(ended_ref)["status"]["phase"] == "Succeeded")
    assert ForeignPod.objects.filter(uid__in=[ended, gone]).count() == 2
    Pool.objects.all().delete()
    # A list that lies, as an etcd that lost its memory would have it.
    ForeignPodSink().forget_absent(client, set(), now=clock.now())
    assert [pod.name for pod in ForeignPod.objects.filter(namespace=namespace)] == ["stays"]
    assert due(flavor)


def test_a_node_that_changes_for_admission_makes_its_pools_due_and_a_heartbeat_does_not(client, flavor, node):
    sibling = make_flavor("own-share", resource="nvidia.com/gpu.shared", product=None, sharing="time-slicing")
    type(sibling).objects.filter(pk=sibling.pk).update(card="own")
    other = make_flavor("other", product="Nobody-Has-It")

    def settled():
        Pool.objects.all().delete()

    with following(client, kinds.NODE, NodeSink(), EVERY):
        until(
            lambda: NodeRecord.objects.filter(name=node.name, ready=True, allocatable={"nvidia.com/gpu": 4})
        )
        until(lambda: due(flavor))
        assert due(sibling), "it is cut from the same card"
        # Whoever else looks after nodes has done with a new one when its taints are gone.
        until(lambda: NodeRecord.objects.get(name=node.name).taints == [])
        beat(client, node)
        settled()
        beat(client, node)
        # Events are worked off one after another: that one's work is done when the next is seen.
        beat(client, node)
        assert not due(flavor)
        for change in (
            {"spec": {"unschedulable": True}},
            {"spec": {"unschedulable": None}},
            {"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}},
            {"metadata": {"labels": {"zone": "b"}}},
            {"status": {"allocatable": {"memory": "30Gi"}}},
        ):
            settled()
            client.patch_merge(node, change, sub="status" if "status" in change else None)
            until(lambda: due(flavor), said=lambda change=change: change)
        settled()
        client.delete(node, uid=client.get(node)["metadata"]["uid"])
        until(lambda: due(flavor))
        until(lambda: rooms_of(flavor, "on-demand").largest == 0)
    assert not due(other)


def test_where_node_pools_are_not_served_nothing_is_known_and_nothing_is_wrong(client, flavor):
    if (kinds.NODE_POOL.api_version, kinds.NODE_POOL.kind) in client.served_kinds():
        pytest.skip("this cluster serves them")
    left = {"labels": {}, "requirements": [], "taints": [], "limits": {}, "in_use": {}}
    NodePoolRecord.objects.create(uid="old", name="old", observed_at=clock.now(), **left)
    WatchCursor.objects.create(kind="NodePool", seen_at=clock.now())
    with following(client, kinds.NODE_POOL, NodePoolSink(), WHERE_SERVED) as follower:
        until(lambda: not WatchCursor.objects.exists())
        assert not NodePoolRecord.objects.exists()
        assert follower.failures == 0


@pytest.fixture
def node_pools(client):
    """The collection's path, where the API serves NodePools; what the test made there is removed."""
    if (kinds.NODE_POOL.api_version, kinds.NODE_POOL.kind) not in client.served_kinds():
        pytest.skip("this cluster serves no NodePools")
    path, made = kinds.NODE_POOL.path(), []
    yield lambda body: made.append(client._json("POST", path, body=body)) or made[-1]["metadata"]["name"]
    for item in made:
        client.delete(kinds.ref_of(item), uid=item["metadata"]["uid"])


def node_pool(flavor, limit):
    product = flavor.node_selector["nvidia.com/gpu.product"][0]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    template = {
        "metadata": {"labels": {"nvidia.com/gpu.product": product}},
        "spec": {
            "nodeClassRef": reference,
            "requirements": [
                {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "In", "values": ["4", "8"]}
            ],
            "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}],
        },
    }
    spec = {"limits": {"cpu": "1000", "nvidia.com/gpu": str(limit)}, "template": template}
    metadata = {"name": f"gpus-{uuid4().hex[:8]}"}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": metadata, "spec": spec}


def test_what_node_pools_may_still_bring_is_followed(client, flavor, node_pools):
    def may_come():
        rooms = rooms_of(flavor, "on-demand")
        return rooms.provisionable_block, rooms.provisionable_units

    with following(client, kinds.NODE_POOL, NodePoolSink(), WHERE_SERVED):
        name = node_pools(node_pool(flavor, 32))
        until(lambda: may_come() == (8, 32))
        assert rooms_of(flavor, "on-demand").largest == 8
        until(lambda: due(flavor))
        Pool.objects.all().delete()
        pool = ObjectRef("karpenter.sh/v1", "NodePool", "", name)
        client.patch_merge(
            pool, {"status": {"resources": {"nvidia.com/gpu": "24", "cpu": "96"}}}, sub="status"
        )
        until(lambda: may_come() == (8, 8))
        until(lambda: due(flavor))
    client.delete(pool, uid=client.get(pool)["metadata"]["uid"])
    until(lambda: gone(client, pool))
    with following(client, kinds.NODE_POOL, NodePoolSink(), WHERE_SERVED):
        until(lambda: may_come() == (0, 0))
        assert not NodePoolRecord.objects.filter(name=name).exists()
