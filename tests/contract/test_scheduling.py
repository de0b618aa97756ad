from __future__ import annotations

import pytest

from tests.waiting import until

from .kube import GPU, TOLERATE_ALL, condition, deployment, on_node, pod, refusal, unique


@pytest.fixture
def verdict(kube, ns):
    """The scheduler's message about a pod that it cannot place."""

    def verdict(body):
        made = kube.core.create_namespaced_pod(ns, body)
        name = made.metadata.name

        def waiting():
            seen = condition(kube.core.read_namespaced_pod(name, ns), "PodScheduled")
            return seen is not None and seen.status == "False" and seen

        found = until(waiting)
        assert found.reason == "Unschedulable"
        return found.message

    return verdict


def reasons(message):
    """What the message counts, without the text on preemption; all nodes are counted once."""
    head, _, after = message.partition(". ")
    total, _, listed = head.partition(" nodes are available: ")
    counted = {}
    for item in listed.split(", "):
        count, _, reason = item.partition(" ")
        counted[reason] = int(count)
    assert total == f"0/{sum(counted.values())}"
    return counted, after


def everything_else_mismatches(counted):
    rest = dict(counted)
    assert rest.pop("node(s) didn't match Pod's node affinity/selector") >= 1
    return rest


def only(name, **more):
    """On the own node or nowhere; tolerating all, so that other nodes fail by their labels alone."""
    return {**on_node(name), "tolerations": TOLERATE_ALL, **more}


def test_a_pod_is_bound_to_the_node_it_selects_and_an_event_says_so(kube, ns, own_node):
    kube.core.create_namespaced_pod(ns, pod("p", **on_node(own_node)))
    seen = until(lambda: _running(kube, ns, "p"))
    assert seen.spec.node_name == own_node
    assert condition(seen, "PodScheduled").status == "True"
    selector = f"involvedObject.uid={seen.metadata.uid},reason=Scheduled"
    (event,) = until(lambda: kube.core.list_namespaced_event(ns, field_selector=selector).items)
    assert event.type == "Normal"
    assert event.message == f"Successfully assigned {ns}/p to {own_node}"


def test_too_many_gpus_is_insufficient_and_an_event_says_the_same(kube, ns, verdict, own_node):
    message = verdict(pod("p", limits={GPU: "5"}, **only(own_node)))
    counted, after = reasons(message)
    assert everything_else_mismatches(counted) == {f"Insufficient {GPU}": 1}
    assert "Preemption is not helpful for scheduling" in after
    uid = kube.core.read_namespaced_pod("p", ns).metadata.uid
    selector = f"involvedObject.uid={uid},reason=FailedScheduling"
    event = until(lambda: kube.core.list_namespaced_event(ns, field_selector=selector).items)[0]
    assert event.type == "Warning"
    assert message.partition(" nodes are available: ")[2][:60] in event.message


@pytest.mark.parametrize(
    ("asks", "reason"),
    [
        ({"requests": {"cpu": "5"}}, "Insufficient cpu"),
        ({"requests": {"memory": "9Gi"}}, "Insufficient memory"),
        ({"limits": {"nvidia.com/mig-7g.80gb": "1"}}, "Insufficient nvidia.com/mig-7g.80gb"),
    ],
    ids=["cpu", "memory", "what no node has"],
)
def test_too_much_of_a_node_is_insufficient(verdict, own_node, asks, reason):
    counted, _ = reasons(verdict(pod("p", **asks, **only(own_node))))
    assert everything_else_mismatches(counted) == {reason: 1}


def test_every_missing_resource_of_a_node_is_counted(verdict, own_node):
    body = pod("p", limits={GPU: "5"}, requests={"cpu": "5", "memory": "9Gi"}, **only(own_node))
    message = verdict(body)
    assert "1 Insufficient cpu, 1 Insufficient memory, 1 Insufficient nvidia.com/gpu" in message


def test_no_node_matches_the_selector(kube, verdict):
    body = pod("p", nodeSelector={"nvidia.com/gpu.product": "none-such"}, tolerations=TOLERATE_ALL)
    counted, after = reasons(verdict(body))
    assert set(counted) == {"node(s) didn't match Pod's node affinity/selector"}
    nodes = counted["node(s) didn't match Pod's node affinity/selector"]
    assert after == (
        "no new claims to deallocate, preemption: "
        f"0/{nodes} nodes are available: {nodes} Preemption is not helpful for scheduling."
    )


def test_an_absent_claim_is_named(verdict):
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "absent"}}
    message = verdict(pod("p", volumes=[volume]))
    assert message.startswith("0/")
    assert 'nodes are available: persistentvolumeclaim "absent" not found.' in message


def test_a_taint_that_is_not_tolerated_is_counted(verdict, own_node):
    message = verdict(pod("p", nodeSelector={"contract/node": own_node}))
    counted, _ = reasons(message)
    assert counted["node(s) had untolerated taint(s)"] >= 1
    assert set(counted) <= {
        "node(s) had untolerated taint(s)",
        "node(s) didn't match Pod's node affinity/selector",
        "node(s) were unschedulable",
    }


def test_used_gpus_make_the_next_pod_wait_until_they_are_free(kube, ns, spare_node):
    kube.core.create_namespaced_pod(ns, pod("first", limits={GPU: "1"}, **on_node(spare_node)))
    until(lambda: _running(kube, ns, "first"))
    kube.core.create_namespaced_pod(ns, pod("second", limits={GPU: "1"}, **on_node(spare_node)))

    def message():
        seen = condition(kube.core.read_namespaced_pod("second", ns), "PodScheduled")
        return seen and seen.message

    assert f"1 Insufficient {GPU}" in until(message)
    assert "1 No preemption victims found for incoming pod" in message()
    kube.core.delete_namespaced_pod("first", ns)
    until(lambda: _running(kube, ns, "second"))


def test_an_ended_pod_frees_its_gpus(kube, ns, spare_node):
    body = pod("first", {"BED_RUN_SECONDS": "0"}, limits={GPU: "1"}, **on_node(spare_node))
    kube.core.create_namespaced_pod(ns, body)
    kube.core.create_namespaced_pod(ns, pod("second", limits={GPU: "1"}, **on_node(spare_node)))
    until(lambda: _running(kube, ns, "second"))


def affinity(*expressions):
    required = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def test_affinity_with_several_values_takes_any_of_them(kube, ns, own_node):
    term = {"key": "contract/node", "operator": "In", "values": ["none-such", own_node]}
    kube.core.create_namespaced_pod(ns, pod("p", affinity=affinity(term), tolerations=TOLERATE_ALL))
    assert until(lambda: _running(kube, ns, "p")).spec.node_name == own_node


@pytest.mark.parametrize(("operator", "values"), [("NotIn", [""]), ("Exists", None), ("In", ["none-such"])])
def test_affinity_operators(kube, ns, verdict, own_node, operator, values):
    """The own node matches two of them; what is asked for beside them fits nowhere."""
    term = {"key": "contract/node", "operator": operator, **({"values": values} if values else {})}
    here = {"key": "contract/node", "operator": "In", "values": [own_node]}
    body = pod("p", limits={GPU: "99"}, affinity=affinity(term, here), tolerations=TOLERATE_ALL)
    counted, _ = reasons(verdict(body))
    expected = {} if operator == "In" else {f"Insufficient {GPU}": 1}
    assert everything_else_mismatches(counted) == expected


def test_gpu_nodes_are_found_by_their_product_label(kube, ns):
    """Holds for the nodes that a cluster brings along: labels, taints and resources belong together."""
    brought = kube.core.list_node(label_selector="nvidia.com/gpu.product,!contract/node").items
    assert brought
    for item in brought:
        assert "nvidia.com/gpu" in {taint.key for taint in item.spec.taints}
        assert any(
            key.startswith("nvidia.com/") and int(count) > 0 for key, count in item.status.allocatable.items()
        )
    plain = kube.core.list_node(label_selector="!nvidia.com/gpu.product,!contract/node").items
    assert plain
    assert not any(key.startswith("nvidia.com/") for item in plain for key in item.status.allocatable)


def test_an_untolerating_pod_lands_on_a_node_without_gpus(kube, ns):
    kube.core.create_namespaced_pod(ns, pod("p"))
    landed = until(lambda: _running(kube, ns, "p")).spec.node_name
    assert "nvidia.com/gpu.product" not in kube.core.read_node(landed).metadata.labels


def test_a_scheduling_gate_holds_a_pod(kube, ns):
    kube.core.create_namespaced_pod(ns, pod("p", schedulingGates=[{"name": "contract.test/gate"}]))
    seen = until(lambda: condition(kube.core.read_namespaced_pod("p", ns), "PodScheduled"))
    assert (seen.status, seen.reason) == ("False", "SchedulingGated")


def test_an_unknown_priority_class_is_forbidden(kube, ns):
    status = refusal(kube.core.create_namespaced_pod, ns, pod("p", priorityClassName="none-such"))
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert "no PriorityClass with name none-such was found" in status["message"]


def test_a_priority_class_gives_its_value(kube, ns):
    name = unique("contract-priority")
    body = {"metadata": {"name": name}, "value": 77, "preemptionPolicy": "Never"}
    kept = kube.scheduling.create_priority_class(body)
    try:
        assert (kept.value, kept.preemption_policy) == (77, "Never")
        assert name in {item.metadata.name for item in kube.scheduling.list_priority_class().items}
        made = kube.core.create_namespaced_pod(ns, pod("p", priorityClassName=name))
        assert made.spec.priority == 77
    finally:
        kube.scheduling.delete_priority_class(name)


def test_replicas_spread_until_the_node_is_full(kube, ns, spare_node):
    template = {"limits": {GPU: "1"}, **on_node(spare_node)}
    kube.apps.create_namespaced_deployment(ns, deployment("served", template=template, replicas=2))

    def phases():
        return sorted(item.status.phase for item in kube.core.list_namespaced_pod(ns).items)

    until(lambda: phases() == ["Pending", "Running"])
    waiting = kube.core.list_namespaced_pod(ns, field_selector="status.phase=Pending").items[0]
    assert waiting.spec.node_name is None


def _running(kube, ns, name):
    seen = kube.core.read_namespaced_pod(name, ns)
    return seen.status.phase == "Running" and seen
