"""What a preview and a submission say beside the verdict, and what is filled in for who leaves it out."""

from __future__ import annotations

from fractions import Fraction

import pytest

from controller.hints import hints_of
from costs.models import Price
from foundation import clock
from jobs.models import TrainingRun
from jobs.specs import TrainingRunSpec
from tests.api.bench import ENDPOINTS, RUNS, problem
from tests.costs.budget_world import budget_for
from tests.factories.catalogue import make_flavor, make_node, make_quota
from tests.factories.submitted import endpoint_body, make_pod, move, run_body
from tests.factories.teams import api_client
from tests.factories.workloads import put_in
from workloads.models import ForeignPod, NodeRecord, Workload
from workloads.nodes.sizing import knows_nodes, with_host_share
from workloads.states import Phase

PREVIEW = f"{RUNS}preview/"
OF_A_NODE = {"cpu": "96", "memory": "1000Gi", "vpc.amazonaws.com/efa": "4", "pods": "110"}
QUIET = {"flavor": "a100-40gb", "cpu": "1", "memory": "1Gi"}


def hinted(bench, path=PREVIEW, make=run_body, **body):
    response = bench.client.post(path, make("vision", **body))
    assert response.status_code in {200, 201}, response.content
    return [(hint["field"], hint["code"]) for hint in response.json()["warnings"]]


def sized(bench, **body):
    made = bench.run(flavor="a100-40gb", **body)
    return made["spec"]["cpu"], made["spec"]["memory"], made["warnings"]


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ({"image": "train"}, ("image", "image_tag_latest")),
        ({"image": "localhost:5000/train"}, ("image", "image_tag_latest")),
        ({"image": "train:latest"}, ("image", "image_tag_latest")),
        ({"env": [{"name": "CUDA_VISIBLE_DEVICES", "value": "0"}]}, ("env.0.name", "visible_devices_set")),
        ({"gpus_per_replica": 2}, ("shm", "small_shm")),
    ],
)
def test_what_is_seldom_meant_is_told_and_not_refused(bench, body, hint):
    assert hinted(bench, **QUIET, **body) == [hint]
    assert hinted(bench, RUNS, **QUIET, **body) == [hint]
    assert hinted(bench, f"{ENDPOINTS}preview/", endpoint_body, **QUIET, **body) == [hint]


def test_a_team_with_a_budget_is_told_that_what_it_asks_for_has_no_price(bench):
    assert hinted(bench, **QUIET) == []
    budget_for(bench.team)
    assert hinted(bench, **QUIET) == [], "a price is set"
    Price.objects.all().delete()
    runs, endpoints = ((PREVIEW, RUNS), run_body), ((f"{ENDPOINTS}preview/", ENDPOINTS), endpoint_body)
    for path, make in ((path, make) for paths, make in (runs, endpoints) for path in paths):
        response = bench.client.post(path, make("vision", **QUIET)).json()
        assert [(hint["field"], hint["code"]) for hint in response["warnings"]] == [("flavor", "no_price")]
        assert response["warnings"][0]["message"] == (
            "No price is set for a100-40gb (on-demand), so nothing of it counts in the budget of team vision: ask a quota "
            "manager for one."
        )
    assert hinted(bench, cpu="1", memory="1Gi") == [], "without a GPU nothing costs money"


@pytest.mark.parametrize("image", ["train:1", "train:latest@sha256:" + "0" * 64, "localhost:5000/train:1"])
def test_nothing_is_told_of_what_is_in_order(bench, image):
    assert hinted(bench, **QUIET, image=image) == []


def test_spot_without_checkpoints_is_told_of_runs_alone(bench):
    spot = make_flavor("a100-spot", capacity={"spot": {}})
    make_quota(bench.team, spot, capacity_type="spot")
    body = {**QUIET, "flavor": spot.name, "capacity": "spot"}
    assert hinted(bench, **body) == [("checkpoint", "spot_without_checkpoint")]
    assert hinted(bench, **body, checkpoint={"path": "/c", "claim": "c"}) == []
    assert hinted(bench, f"{ENDPOINTS}preview/", endpoint_body, **body) == [
        ("min_replicas", "one_replica_on_spot")
    ]


def test_who_leaves_cpu_and_memory_out_gets_the_share_of_the_gpus(bench):
    NodeRecord.objects.update(others=OF_A_NODE)
    # Nine tenths of 96 cores and 1000 GiB, an eighth of that for each of eight cards.
    cpu, memory, hints = sized(bench)
    assert (cpu, memory) == ("10800m", "112Gi")
    assert [(hint["field"], hint["code"]) for hint in hints] == [
        ("cpu", "filled_in"),
        ("memory", "filled_in"),
    ]
    assert "10.8 cores (the share of its GPUs" in hints[0]["message"]
    assert sized(bench, gpus_per_replica=8, shm="64Gi")[:2] == ("86400m", "900Gi")
    assert sized(bench, cpu="4")[:2] == ("4", "112Gi")
    assert TrainingRun.objects.latest("pk").spec["memory"] == "112Gi"


def test_a_share_that_is_as_small_as_the_defaults_is_told_as_a_share(bench):
    # Nine tenths of it, an eighth for each card: one core and two GiB, as without any node.
    NodeRecord.objects.update(others={"cpu": "9", "memory": "18Gi"})
    cpu, memory, hints = sized(bench)
    assert (cpu, memory) == ("1", "2Gi")
    assert "(the share of its GPUs in a node)" in hints[0]["message"]


def test_a_share_is_told_without_asking_the_nodes_a_second_time(bench, django_assert_num_queries):
    NodeRecord.objects.update(others=OF_A_NODE)
    spec = TrainingRunSpec.from_json(run_body(flavor="a100-40gb", gpus_per_replica=1))
    sized = with_host_share(spec)
    with django_assert_num_queries(0):
        assert len(hints_of(spec, sized=sized)) == 2


def test_whether_any_node_is_known_is_asked_once_for_all_capacity_types(bench, django_assert_num_queries):
    spec = TrainingRunSpec.from_json(run_body(flavor="a100-40gb", gpus_per_replica=1, capacity="spot-first"))
    with django_assert_num_queries(2):
        assert knows_nodes(spec)


@pytest.fixture
def shares(bench):
    """A team with quotas of whole cards and of shares of one, on nodes that have less beside those."""
    NodeRecord.objects.update(others=OF_A_NODE)
    node = make_node("t4-shared-0", units=4, product="Tesla-T4-SHARED", others={"cpu": "4", "memory": "16Gi"})
    node.labels |= {"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.count": "1"}
    node.save()
    flavor = make_flavor(
        "t4-shared", product="Tesla-T4-SHARED", sharing="time-slicing", fraction=Fraction(1, 4)
    )
    make_quota(bench.team, flavor, nominal=4)
    return flavor


def test_a_copy_takes_over_what_was_typed_and_never_what_was_filled_in(bench, shares):
    first = bench.run(flavor="a100-40gb", memory="3Gi")
    assert (first["spec"]["cpu"], first["spec"]["memory"]) == ("10800m", "3Gi")
    clone = f"{RUNS}{first['id']}/clone/"
    other = bench.client.post(clone, {"flavor": shares.name}).json()
    assert (other["spec"]["cpu"], other["spec"]["memory"]) == ("900m", "3Gi")
    given = bench.client.post(clone, {"flavor": shares.name, "cpu": "2"}).json()
    assert (given["spec"]["cpu"], "left_out" in given["spec"]) == ("2", False)
    again = bench.client.post(
        RUNS, {**first["spec"], "team": "vision", "name": "sent-back", "flavor": shares.name}
    )
    assert again.json()["spec"]["cpu"] == "900m", again.content
    NodeRecord.objects.filter(name="a100-0").update(others={"cpu": "48", "memory": "1000Gi"})
    put_in(Workload.objects.get(public_id=first["id"]), Phase.CANCELLED)
    retried = bench.client.post(f"{RUNS}{first['id']}/retry/", {}).json()
    assert retried["spec"]["cpu"] == "5400m", "the share of its GPUs as nodes are now"


def test_a_lever_to_another_flavor_counts_with_what_is_filled_in_there(bench, shares):
    """Three quarters of the node are in use: a share of what is left is enough, the whole card's CPU would not be."""
    ForeignPod.objects.create(
        uid="d", namespace="x", name="d", node_name="t4-shared-0", seen_at=clock.now(), cpu_millicores=3000
    )
    bench.run(flavor="a100-40gb", name="holds-all", gpus_per_replica=8)
    card = bench.client.post(PREVIEW, run_body("vision", flavor="a100-40gb", gpus_per_replica=1)).json()
    levers = {lever["change"].get("flavor"): lever for lever in card["levers"]}
    assert card["verdict"] == "wait", card
    assert levers[shares.name]["verdict"] == "admit", levers


def test_a_change_of_an_endpoint_keeps_what_was_filled_in_for_the_same_gpus(bench):
    NodeRecord.objects.update(others=OF_A_NODE)
    made = bench.client.post(ENDPOINTS, endpoint_body("vision", flavor="a100-40gb")).json()
    assert made["spec"]["cpu"] == "10800m"
    NodeRecord.objects.update(others={"cpu": "48", "memory": "500Gi"})
    changed = bench.client.patch(f"{ENDPOINTS}{made['id']}/", {"image": "example.org/serve:2"}).json()
    assert (changed["spec"]["image"], changed["spec"]["cpu"]) == ("example.org/serve:2", "10800m")
    typed = bench.client.patch(f"{ENDPOINTS}{made['id']}/", {"cpu": "3"}).json()
    assert (typed["spec"]["cpu"], typed["spec"]["left_out"]) == ("3", ["memory"])
    assert Workload.objects.get(public_id=made["id"]).cpu_each == 3000


def test_of_unlike_nodes_the_smaller_share_counts_and_only_of_those_that_hold_the_pod(bench):
    NodeRecord.objects.update(others=OF_A_NODE)
    make_node("small", units=4, others={"cpu": "16", "memory": "64Gi"})
    assert sized(bench)[:2] == ("3600m", "14Gi")
    assert sized(bench, gpus_per_replica=8)[:2] == ("86400m", "900Gi")


def test_spot_first_is_sized_for_the_nodes_that_it_may_fall_back_to(bench):
    make_node("spot", kind="spot", others=OF_A_NODE)
    make_node("steady", kind="steady", others={"cpu": "32", "memory": "256Gi"})
    both = {
        "spot": {"node_selector": {"kind": ["spot"]}},
        "on-demand": {"node_selector": {"kind": ["steady"]}},
    }
    flavor = make_flavor("a100-both", capacity=both)
    for capacity_type in both:
        make_quota(bench.team, flavor, capacity_type=capacity_type)
    made = {
        capacity: bench.run(name=capacity, flavor=flavor.name, capacity=capacity)["spec"]["cpu"]
        for capacity in ("spot", "on-demand", "spot-first")
    }
    assert made == {"spot": "10800m", "on-demand": "3600m", "spot-first": "3600m"}


def test_without_known_nodes_or_gpus_the_plain_defaults_hold(bench):
    cpu, memory, hints = sized(bench)
    assert (cpu, memory) == ("1", "2Gi")
    assert "(no known node of the flavor holds 1 and says its CPU and memory)" in hints[0]["message"]
    NodeRecord.objects.all().delete()
    assert "(no node of the flavor is known)" in sized(bench, name="other")[2][0]["message"]
    made = bench.run()
    assert (made["spec"]["cpu"], made["warnings"]) == ("1", [])


def test_shared_memory_is_held_against_the_memory_that_is_filled_in(bench):
    NodeRecord.objects.update(others=OF_A_NODE)
    bench.run(flavor="a100-40gb", shm="100Gi")
    for path in (RUNS, PREVIEW):
        body = run_body("vision", flavor="a100-40gb", shm="113Gi")
        problem(bench.client.post(path, body), 422, "shm", code="shm_above_memory")


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({"vpc.amazonaws.com/efa": 4}, None),
        ({"vpc.amazonaws.com/efa": 5}, "never_fits"),
        ({"example.com/nic": 1}, "never_fits"),
    ],
)
def test_extra_resources_are_those_of_a_node_that_may_take_the_pod(bench, wanted, code):
    NodeRecord.objects.update(others=OF_A_NODE)
    make_node("other", product="Tesla-T4", others={"cpu": "1", "example.com/nic": "1"})
    for path in (RUNS, PREVIEW):
        response = bench.client.post(path, run_body("vision", **QUIET, extra_resources=wanted))
        if code is None:
            assert response.status_code in {200, 201}, response.content
        else:
            problem(response, 422, "extra_resources", code=code)


def test_extra_resources_of_nodes_that_come_from_zero_are_taken_at_their_word(bench):
    wanted = {"extra_resources": {"vpc.amazonaws.com/efa": 32}}
    NodeRecord.objects.update(others=OF_A_NODE)
    bench.flavor.capacity = {"on-demand": {"provisionable": {"block": 8, "units": 32}}}
    bench.flavor.save()
    bench.run(**QUIET, **wanted)
    NodeRecord.objects.update(others={})
    bench.flavor.capacity = {"on-demand": {}}
    bench.flavor.save()
    bench.run(**QUIET, **wanted)


def test_what_a_flavor_consists_of_is_no_extra_resource(bench):
    make_flavor("fpga", resource="xilinx.com/fpga")
    body = run_body("vision", **QUIET, extra_resources={"xilinx.com/fpga": 1})
    problem(bench.client.post(RUNS, body), 422, "extra_resources", code="reserved_name")


def test_a_lead_names_the_teams_mlflow_and_its_runs_link_to_it(bench):
    url = "/api/v1/teams/vision/"
    lead = api_client(bench.lead)
    problem(bench.client.patch(url, {"mlflow_tracking_uri": "https://mlflow.example.org"}), 403)
    for wrong in (
        "ftp://x",
        "https://me:pw@x",
        "https://x?a=b",
        "https://x y",
        "javascript:alert(1)",
        "x" * 501,
    ):
        problem(lead.patch(url, {"mlflow_tracking_uri": wrong}), 422, "mlflow_tracking_uri")
    changed = lead.patch(url, {"mlflow_tracking_uri": "https://mlflow.example.org:5000/a"})
    assert changed.json()["mlflow_tracking_uri"] == "https://mlflow.example.org:5000/a"
    assert bench.run()["links"]["mlflow"] == "https://mlflow.example.org:5000/a"
    assert "mlflow" not in bench.endpoint()["links"]
    lead.patch(url, {"mlflow_tracking_uri": ""})
    assert "mlflow" not in bench.run()["links"]


def test_the_image_that_really_ran_is_told_with_its_digest(bench):
    workload = Workload.objects.get(public_id=bench.run()["id"])
    url = f"{RUNS}{workload.public_id}/pods/"
    pod = make_pod(workload, image_id="docker.io/library/python@sha256:" + "a" * 64)
    make_pod(workload)
    digests = {each["uid"]: each["image_digest"] for each in bench.client.get(url).json()["results"]}
    assert digests.pop(pod.uid) == "sha256:" + "a" * 64
    assert list(digests.values()) == [None]


def test_what_waits_and_what_does_not_answer_the_same_shape(bench):
    workload = Workload.objects.get(public_id=bench.run(**QUIET)["id"])
    url = f"{RUNS}{workload.public_id}/waiting/"
    waits = bench.client.get(url).json()
    move(workload, Phase.RUNNING)
    runs = bench.client.get(url).json()
    assert set(waits) == set(runs)
    assert waits["warnings"] == runs["warnings"] == []
