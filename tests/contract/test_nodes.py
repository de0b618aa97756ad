from __future__ import annotations

from tests.waiting import until

from .kube import MERGE, condition, gone, holds, on_node, pod, refusal


def test_a_node_says_what_it_has_and_that_it_is_ready(kube, own_node):
    seen = kube.core.read_node(own_node)
    assert seen.status.allocatable["nvidia.com/gpu"] == "4"
    assert seen.status.capacity["cpu"] == "4"
    assert holds(seen, "Ready")
    ready = condition(seen, "Ready")
    assert (ready.reason, bool(ready.last_heartbeat_time)) == ("KubeletReady", True)
    assert {"type": "Hostname", "address": own_node} in [
        {"type": item.type, "address": item.address} for item in seen.status.addresses
    ]


def test_a_cordoned_node_takes_no_new_pod_and_keeps_the_old(kube, ns, spare_node):
    kube.core.create_namespaced_pod(ns, pod("old", **on_node(spare_node)))
    until(lambda: kube.core.read_namespaced_pod("old", ns).status.phase == "Running")
    cordon = {"spec": {"unschedulable": True}}
    assert kube.core.patch_node(spare_node, cordon, _content_type=MERGE).spec.unschedulable
    until(lambda: "node.kubernetes.io/unschedulable" in taints(kube, spare_node))
    kube.core.create_namespaced_pod(ns, pod("new", **on_node(spare_node)))

    def waiting():
        return condition(kube.core.read_namespaced_pod("new", ns), "PodScheduled")

    message = until(waiting).message
    assert "1 node(s) were unschedulable" in message
    assert kube.core.read_namespaced_pod("old", ns).status.phase == "Running"
    kube.core.patch_node(spare_node, {"spec": {"unschedulable": None}}, _content_type=MERGE)
    until(lambda: kube.core.read_namespaced_pod("new", ns).status.phase == "Running")
    assert "node.kubernetes.io/unschedulable" not in taints(kube, spare_node)


def test_a_no_execute_taint_takes_the_pods_that_do_not_tolerate_it(kube, ns, spare_node):
    tolerant = on_node(spare_node)
    tolerant["tolerations"].append({"key": "contract/spot", "operator": "Exists"})
    kube.core.create_namespaced_pod(ns, pod("stays", **tolerant))
    hold = pod("goes", **on_node(spare_node))
    hold["metadata"]["finalizers"] = ["contract.test/hold"]
    kube.core.create_namespaced_pod(ns, hold)
    until(lambda: kube.core.read_namespaced_pod("goes", ns).status.phase == "Running")
    until(lambda: kube.core.read_namespaced_pod("stays", ns).status.phase == "Running")
    own = {"key": "contract/own", "value": "true", "effect": "NoSchedule"}
    reclaim = {"key": "contract/spot", "value": "reclaim", "effect": "NoExecute"}
    kube.core.patch_node(spare_node, {"spec": {"taints": [own, reclaim]}}, _content_type=MERGE)
    until(lambda: kube.core.read_namespaced_pod("goes", ns).metadata.deletion_timestamp)
    disrupted = condition(kube.core.read_namespaced_pod("goes", ns), "DisruptionTarget")
    assert (disrupted.status, disrupted.reason) == ("True", "DeletionByTaintManager")
    assert disrupted.message == "Taint manager: deleting due to NoExecute taint"
    free = {"metadata": {"finalizers": None}}
    kube.core.patch_namespaced_pod("goes", ns, free, _content_type=MERGE)
    until(gone(kube.core.read_namespaced_pod, "goes", ns))
    assert kube.core.read_namespaced_pod("stays", ns).metadata.deletion_timestamp is None


def test_a_toleration_for_seconds_delays_the_taint(kube, ns, spare_node):
    body = pod("p", **on_node(spare_node))
    body["spec"]["tolerations"].append(
        {"key": "contract/spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2}
    )
    kube.core.create_namespaced_pod(ns, body)
    until(lambda: kube.core.read_namespaced_pod("p", ns).status.phase == "Running")
    reclaim = {"key": "contract/spot", "effect": "NoExecute"}
    tainted = kube.core.patch_node(
        spare_node,
        {"spec": {"taints": [{"key": "contract/own", "effect": "NoSchedule"}, reclaim]}},
        _content_type=MERGE,
    )
    assert tainted.spec.taints
    assert kube.core.read_namespaced_pod("p", ns).metadata.deletion_timestamp is None
    until(gone(kube.core.read_namespaced_pod, "p", ns))


def test_a_pod_tolerates_a_lost_node_for_five_minutes(kube, ns):
    made = kube.core.create_namespaced_pod(ns, pod("p"))
    added = {(item.key, item.effect, item.toleration_seconds) for item in made.spec.tolerations}
    assert added == {
        ("node.kubernetes.io/not-ready", "NoExecute", 300),
        ("node.kubernetes.io/unreachable", "NoExecute", 300),
    }


def test_labels_of_a_node_are_patched(kube, spare_node):
    seen = kube.core.patch_node(spare_node, {"metadata": {"labels": {"contract/extra": "1"}}})
    assert seen.metadata.labels["contract/extra"] == "1"
    found = kube.core.list_node(label_selector=f"contract/extra=1,contract/node={spare_node}").items
    assert [item.metadata.name for item in found] == [spare_node]


def test_an_absent_node_is_not_found(kube):
    status = refusal(kube.core.read_node, "contract-absent")
    assert status["message"] == 'nodes "contract-absent" not found'


def taints(kube, name):
    return {item.key for item in kube.core.read_node(name).spec.taints or []}
