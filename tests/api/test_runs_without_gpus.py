"""What asks for no GPU has no queue: what no node could ever hold is refused, what lacks room is told which node has how much."""

from __future__ import annotations

import pytest

from cluster import kinds
from foundation import clock
from foundation.models import PlatformSettings
from tests.api.bench import ENDPOINTS, RUNS, Unchanged, problem
from tests.factories.catalogue import make_flavor
from tests.factories.submitted import endpoint_body, make_pod, run_body
from tests.factories.workloads import put_in
from workloads.models import ForeignPod, NodePoolRecord, NodeRecord, WatchCursor, Workload
from workloads.states import Phase

GIB = 1024**3
SMALL = {"cpu": "3920m", "memory": "14Gi", "ephemeral-storage": "100G", "pods": "110"}
LARGE = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1T", "pods": "110"}
NOT_FOR_ALL = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def add_node(name, others=SMALL, **values):
    facts = {"uid": f"uid-{name}", "resource_version": "1", "ready": True, "created_at": clock.now()}
    return NodeRecord.objects.create(name=name, others=others, **(facts | values))


@pytest.fixture
def nodes(bench):
    """A small node for everybody, and a large one for pods with GPUs alone."""
    NodeRecord.objects.all().delete()
    large = add_node("gpu-0", LARGE, allocatable={"nvidia.com/gpu": 8}, taints=[NOT_FOR_ALL])
    return {"cpu-0": add_node("cpu-0"), "gpu-0": large}


def taken(node, memory=9 * GIB, **values):
    ForeignPod.objects.create(
        uid=f"pod-{node}", namespace="x", name="d", node_name=node, seen_at=clock.now(), memory_bytes=memory, **values
    )  # fmt: skip


def preview(bench, path=RUNS, **values):
    body = run_body if path == RUNS else endpoint_body
    with Unchanged():
        answer = bench.client.post(f"{path}preview/", body("vision", **values))
    assert answer.status_code == 200, answer.content
    return answer.json()


@pytest.mark.parametrize(
    ("values", "field", "said"),
    [
        ({"memory": "64Gi"}, "memory", "No node can hold 64Gi of memory without GPUs in one pod; the most is 14Gi."),
        ({"cpu": "8", "memory": "64Gi"}, "cpu", "No node can hold 8 cores without GPUs in one pod; the most is 3.9."),
        ({"ephemeral_storage": "2T"}, "ephemeral_storage", "the most is 93.1Gi."),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("path", "body"), [(RUNS, run_body), (ENDPOINTS, endpoint_body)])
def test_what_no_node_could_ever_hold_is_refused_by_its_field(bench, nodes, path, body, values, field, said):
    with Unchanged():
        answer = bench.client.post(path, body("vision", **values))
    (error,) = problem(answer, 422, field, code="never_fits")["errors"]
    assert said in error["message"]
    card = preview(bench, path, **values)
    assert (card["verdict"], card["message"]) == ("never", error["message"])
    (lever,) = card["levers"]
    assert lever["verdict"] == "admit"
    bench.client.post(path, body("vision", **(values | lever["change"]))).json()
    assert Workload.objects.count() == 1


def test_a_role_is_refused_by_its_own_field(bench, nodes):
    WatchCursor.objects.create(kind=kinds.TF_JOB.address)
    PlatformSettings.objects.update_or_create(pk=1, defaults={"optional_kinds": ["tfjob"]})
    roles = [{"name": "Chief"}, {"name": "PS", "memory": "64Gi"}]
    answer = bench.client.post(RUNS, run_body("vision", kind="tfjob", roles=roles))
    problem(answer, 422, "roles.1.memory", code="never_fits")
    roles[1] = {"name": "PS", "memory": "13Gi", "cpu": "500m"}
    bench.run(kind="tfjob", cpu="3", memory="1Gi", roles=roles)


def test_what_lacks_room_now_is_told_which_node_has_how_much_and_is_made_all_the_same(bench, nodes):
    taken("cpu-0")
    card = preview(bench, memory="8Gi")
    assert (card["verdict"], card["reason"], card["rule"]) == ("wait", "Unschedulable", "blocks")
    assert card["message"] == (
        "This run needs 8Gi of memory on one node; cpu-0 has 5Gi left. "
        "Its pods are made, and wait in the cluster for a node."
    )
    assert [lever["change"] for lever in card["levers"]] == [{"memory": "5Gi"}]
    assert card["start"]["unknown_because"] == (
        "Nobody knows when a node has room: what asks for no GPU has no queue."
    )
    assert card["cost"]["at_time_limit"]["amount_micro_usd"] == 0
    assert (card["position"], card["quota"]) == (None, {"before": {}, "after": {}})
    assert preview(bench, memory="5Gi")["verdict"] == "admit"
    assert bench.run(memory="8Gi")["phase"] == "Queued"


def test_pods_that_have_to_start_together_need_room_at_once(bench, nodes):
    for name in ("cpu-1", "cpu-2"):
        add_node(name)
    taken("cpu-1")
    card = preview(bench, memory="8Gi", replicas=3)
    assert "8Gi of memory on one node for each of 3 pods at once; there is room for 2." in card["message"]
    assert preview(bench, memory="8Gi", replicas=2)["verdict"] == "admit"


@pytest.mark.parametrize(
    "known",
    [
        lambda: NodeRecord.objects.all().delete(),
        lambda: NodeRecord.objects.update(others={}),
        lambda: NodeRecord.objects.filter(name="gpu-0").update(taints=[]),
        lambda: add_node("cpu-1", LARGE, ready=False, taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]),
        lambda: add_node("cpu-1", LARGE, ready=True, unschedulable=True),
        lambda: add_node("cpu-1", LARGE, ready=False, gone_at=clock.now()),
        lambda: add_pool([]),
        lambda: declare([]),
    ],
    ids=["no node", "unknown size", "no taint", "not ready", "cordoned", "gone", "node pool", "declared"],
)  # fmt: skip
def test_what_some_node_may_hold_is_not_refused(bench, nodes, known):
    known()
    bench.run(memory="64Gi")


def declare(tolerations):
    """A flavor whose nodes come from zero, and nobody knows how large they are."""
    flavor = make_flavor("l4", capacity={"on-demand": {"provisionable": {"block": 1, "units": 8}}})
    flavor.tolerations = tolerations
    flavor.save()


def add_pool(taints):
    NodePoolRecord.objects.create(uid="pool", name="pool", taints=taints, observed_at=clock.now())


@pytest.mark.parametrize(
    "known",
    [
        lambda: add_node("cpu-1", LARGE, gone_at=clock.now(), taints=[NOT_FOR_ALL]),
        lambda: add_pool([NOT_FOR_ALL]),
        lambda: declare([{"key": "nvidia.com/gpu", "operator": "Exists"}]),
    ],
    ids=["gone and tainted", "tainted node pool", "declared for those who tolerate"],
)
def test_nodes_that_such_pods_never_get_promise_nothing(bench, nodes, known):
    known()
    answer = bench.client.post(RUNS, run_body("vision", memory="64Gi"))
    problem(answer, 422, "memory", code="never_fits")


def test_the_card_of_one_that_no_node_has_taken_says_what_lacks_where(bench, nodes):
    run = bench.run(memory="8Gi")
    workload = Workload.objects.get(public_id=run["id"])
    said = "0/2 nodes are available: 1 Insufficient memory."
    put_in(workload, Phase.ADMITTED, reason="Unschedulable", message=said)
    path = f"{RUNS}{run['id']}/waiting/"
    card = bench.client.get(path).json()
    assert (card["verdict"], card["message"]) == ("admit", said), "the scheduler has reasons of its own"
    taken("cpu-0")
    card = bench.client.get(path).json()
    assert (card["verdict"], card["reason"]) == ("wait", "Unschedulable")
    assert "cpu-0 has 5Gi left" in card["message"]
    assert [lever["change"] for lever in card["levers"]] == [{"memory": "5Gi"}]
    assert {(each["fact"], each["value"]) for each in card["evidence"]} == {
        ("requested_memory", 8 * GIB),
        ("largest_free_memory", 5 * GIB),
    }


def test_pods_that_have_a_node_are_not_counted_as_lacking_one(bench, nodes):
    workload = Workload.objects.get(public_id=bench.run(memory="8Gi", replicas=2)["id"])
    make_pod(workload, units=0, node_name="cpu-0", memory_bytes=8 * GIB)
    put_in(workload, Phase.ADMITTED, reason="Unschedulable", message="no")
    card = bench.client.get(f"{RUNS}{workload.public_id}/waiting/").json()
    assert "needs 8Gi of memory on one node; cpu-0 has 6Gi left" in card["message"]


def test_a_change_of_an_endpoint_is_refused_where_no_node_could_ever_hold_its_pods(bench, nodes):
    path = f"{ENDPOINTS}{bench.endpoint(memory='8Gi')['id']}/"
    answer = bench.client.patch(path, {"memory": "64Gi"})
    problem(answer, 422, "memory", code="never_fits")
    NodeRecord.objects.filter(name="cpu-0").update(others=SMALL | {"memory": "4Gi"})
    assert bench.client.patch(path, {"labels": {"a": "b"}}).status_code == 200, (
        "it asks for no more than before"
    )


@pytest.mark.parametrize("change", [{"cpu": "1"}, {"memory": "8Gi"}, {"cpu": "3", "memory": "8Gi"}])
def test_an_endpoint_may_shrink_and_grow_in_what_its_nodes_have_whatever_they_lack_by_now(
    bench, nodes, change
):
    path = f"{ENDPOINTS}{bench.endpoint(cpu='2', memory='12Gi')['id']}/"
    NodeRecord.objects.filter(name="cpu-0").update(others=SMALL | {"memory": "4Gi"})
    assert bench.client.patch(path, change).status_code == 200
    problem(bench.client.patch(path, {"memory": "13Gi"}), 422, "memory", code="never_fits")
    problem(bench.client.patch(path, {"cpu": "8"}), 422, "cpu", code="never_fits")
