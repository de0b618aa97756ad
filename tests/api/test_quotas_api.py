"""Quotas, usage, flavors and nodes over REST."""

from __future__ import annotations

import pytest

from foundation import clock
from quotas import services
from quotas.models import Quota, QuotaChange
from tests.api.bench import Unchanged, problem
from tests.factories.catalogue import make_flavor
from tests.factories.teams import api_client, make_user
from workloads.models import ResourceFlavor, Workload

QUOTAS = "/api/v1/teams/vision/quotas/"


@pytest.fixture
def manager(bench):
    return api_client(make_user("manager", quota_manager=True))


def claim(bench, units: int) -> Workload:
    run = Workload.objects.get(public_id=bench.run(flavor="a100-40gb", gpus_per_replica=units)["id"])
    services.claim(workload=run, quota=Quota.objects.get(), units=units, now=clock.now())
    return run


def test_a_quota_is_set_with_a_reason_that_is_kept(bench, manager):
    answer = manager.post(QUOTAS, {"flavor": "a100-40gb", "nominal": 16, "reason": "new nodes"})
    assert answer.status_code == 200
    assert answer.json()["nominal"] == 16
    (quota,) = bench.client.get(QUOTAS).json()["results"]
    assert set(quota) == {"id", "team", "flavor", "capacity", "nominal", "used", "available"}
    assert (quota["nominal"], quota["used"], quota["available"]) == (16, 0, 16)
    change = bench.client.get("/api/v1/quota-changes/").json()["results"][0]
    assert (change["old_nominal"], change["new_nominal"]) == (8, 16)
    assert (change["reason"], change["team"]) == ("new nodes", "vision")
    assert "manager" in change["actor"]


def test_a_cut_below_use_is_shown_as_negative(bench, manager):
    claim(bench, 6)
    assert manager.post(QUOTAS, {"flavor": "a100-40gb", "nominal": 4, "reason": "cut"}).status_code == 200
    (quota,) = bench.client.get(QUOTAS).json()["results"]
    assert (quota["nominal"], quota["used"], quota["available"]) == (4, 6, -2)


def test_usage_names_who_holds_what(bench):
    run = claim(bench, 2)
    (held,) = bench.client.get("/api/v1/teams/vision/usage/").json()["results"]
    assert held["workload"] == str(run.public_id)
    assert (held["owner"], held["units"], held["flavor"], held["state"]) == (
        "ana",
        2,
        "a100-40gb",
        "reserved",
    )


def test_only_managers_set_quotas_and_nothing_that_is_counted_can_be_set(bench, manager):
    good = {"flavor": "a100-40gb", "nominal": 16, "reason": "x"}
    clients = [bench.client, api_client(bench.lead)]
    with Unchanged():
        for client in clients:
            problem(client.post(QUOTAS, good), 403, code="role_missing")
        for field in ("used", "available", "id", "team", "grandfathered"):
            problem(manager.post(QUOTAS, good | {field: 0}), 422, field, code="unknown_field")
        problem(manager.post("/api/v1/teams/no-such-team/quotas/", good), 404)


def test_a_read_only_token_of_a_manager_sets_nothing(bench):
    reads = api_client(make_user(quota_manager=True), scopes=("read", "submit"))
    with Unchanged():
        problem(reads.post(QUOTAS, {"flavor": "a100-40gb", "nominal": 1, "reason": "x"}), 403, "scopes")


def test_lists_are_filtered_and_paged(bench, manager):
    for index in range(5):
        make_flavor(f"f{index}", product=None)
        manager.post(QUOTAS, {"flavor": f"f{index}", "nominal": index, "reason": "x"})
    assert [each["flavor"] for each in bench.client.get(QUOTAS, {"flavor": "f3"}).json()["results"]] == ["f3"]
    page, seen = bench.client.get(QUOTAS, {"limit": 4}).json(), []
    while True:
        seen += [each["flavor"] for each in page["results"]]
        if page["next"] is None:
            break
        page = bench.client.get(page["next"]).json()
    assert seen == ["a100-40gb", "f0", "f1", "f2", "f3", "f4"]
    problem(bench.client.get(QUOTAS, {"nominal": 5}), 400, "nominal")
    assert QuotaChange.objects.count() == 6


def test_a_flavor_is_set_and_read(bench, manager):
    body = {
        "name": "h100-mig",
        "card": "h100",
        "gpu_fraction": "1/7",
        "sharing": "mig",
        "resource": "nvidia.com/mig-1g.10gb",
        "capacity": {"on-demand": {}},
    }
    assert manager.post("/api/v1/flavors/", body).json()["gpu_fraction"] == "1/7"
    with Unchanged():
        assert manager.post("/api/v1/flavors/", body).status_code == 200
    assert bench.client.get("/api/v1/flavors/h100-mig/").json()["card"] == "h100"
    assert ResourceFlavor.objects.count() == 2
    names = [
        each["name"] for each in bench.client.get("/api/v1/flavors/", {"ordering": "-name"}).json()["results"]
    ]
    assert names == ["h100-mig", "a100-40gb"]


def test_nodes_and_capacity_are_told(bench):
    (node,) = bench.client.get("/api/v1/cluster/nodes/").json()["results"]
    assert (node["name"], node["allocatable"]) == ("a100-0", {"nvidia.com/gpu": 8})
    (row,) = bench.client.get("/api/v1/cluster/capacity/").json()["results"]
    assert (row["flavor"], row["units"], row["claimed"], row["largest_block"]) == ("a100-40gb", 8, 0, 8)
    assert bench.client.get("/api/v1/cluster/nodes/", {"ready": "false"}).json()["results"] == []
    problem(bench.client.get("/api/v1/cluster/nodes/", {"ready": "yes"}), 400, "ready")


def test_what_needs_the_cluster_says_that_it_is_away(bench, manager):
    problem(bench.client.get("/api/v1/teams/vision/volumes/"), 503)
    with Unchanged():
        problem(bench.client.post("/api/v1/teams/vision/volumes/", {"name": "data", "size": "1Gi"}), 503)
        for body, field in (
            ({"name": "A", "size": "1Gi"}, "name"),
            ({"name": "a", "size": "lots"}, "size"),
            ({"name": "a"}, "size"),
        ):
            problem(bench.client.post("/api/v1/teams/vision/volumes/", body), 422, field)
