"""Quotas, usage, flavors and nodes over REST."""

from __future__ import annotations

import pytest

from foundation import clock
from quotas import services
from quotas.api.request_serializers import (
    CohortLimitsWriteSerializer,
    PolicySerializer,
    QuotaRequestWriteSerializer,
    QuotaWriteSerializer,
)
from quotas.ceilings import COLUMNS
from quotas.models import Fence, Quota, QuotaChange
from tests.api.bench import Unchanged, problem
from tests.factories.catalogue import make_flavor
from tests.factories.teams import api_client, make_user
from workloads.models import ResourceFlavor, Workload

QUOTAS = "/api/v1/teams/vision/quotas/"


ANSWER = {
    "id", "team", "flavor", "capacity", "nominal", "borrowing_limit", "lending_limit", "user_limit",
    "max_time_limit_seconds", "used", "borrowed", "lent", "pending", "ceiling", "available", "over_use", "headroom",
    "lent_headroom", "cohort", "fence",
}  # fmt: skip
WRONG_NUMBERS = [-1, 1.5, 2.0, "1.5", "4", True, [], {}, 10**12]
LIMITS = ("nominal", "borrowing_limit", "lending_limit", "user_limit", "max_time_limit_seconds")


def claim(bench, units: int) -> Workload:
    run = Workload.objects.get(public_id=bench.run(flavor="a100-40gb", gpus_per_replica=units)["id"])
    services.claim(workload=run, quota=Quota.objects.get(), units=units, now=clock.now())
    return run


def test_a_quota_is_set_with_a_reason_that_is_kept(bench, manager):
    answer = manager.post(QUOTAS, {"flavor": "a100-40gb", "nominal": 16, "reason": "new nodes"})
    assert answer.status_code == 200
    assert answer.json()["nominal"] == 16
    (quota,) = bench.client.get(QUOTAS).json()["results"]
    assert set(quota) == ANSWER
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


@pytest.mark.parametrize("path", ["strays", "preflight"])
def test_who_has_no_global_role_is_told_who_may_ask_about_the_cluster(bench, path):
    told = problem(bench.client.get(f"/api/v1/cluster/{path}/"), 403, code="role_missing")
    assert told["detail"] == "Only quota managers and platform admins may do this."


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


def test_some_limits_are_set_and_the_others_stay(bench, manager):
    body = {"flavor": "a100-40gb", "borrowing_limit": 3, "max_time_limit_seconds": 3600, "reason": "x"}
    answer = manager.post(QUOTAS, body).json()
    assert [answer[name] for name in LIMITS] == [8, 3, None, None, 3600]
    answer = manager.post(
        QUOTAS, {"flavor": "a100-40gb", "borrowing_limit": None, "user_limit": 2, "reason": "y"}
    )
    assert [answer.json()[name] for name in LIMITS] == [8, None, None, 2, 3600]
    change = bench.client.get("/api/v1/quota-changes/").json()["results"][0]
    assert (change["before"]["borrowing_limit"], change["after"]["borrowing_limit"]) == (3, None)
    assert (change["before"]["user_limit"], change["after"]["user_limit"]) == (None, 2)


@pytest.mark.parametrize(
    ("serializer", "fields"),
    [
        (QuotaWriteSerializer, LIMITS),
        (CohortLimitsWriteSerializer, ("borrowing_limit", "lending_limit")),
        (PolicySerializer, ("weight",)),
        (QuotaRequestWriteSerializer, ("units",)),
    ],
)
def test_a_limit_that_is_no_small_whole_number_is_refused_by_name(serializer, fields):
    least = 0 if "limit" in fields[-1] else 1
    for wrong in (least - 1, *WRONG_NUMBERS):
        told = serializer(data=dict.fromkeys(fields, wrong))
        assert not told.is_valid()
        assert set(fields) <= set(told.errors), wrong


def test_what_does_not_exist_or_is_missing_is_refused_by_name(bench, manager):
    good = {"flavor": "a100-40gb", "nominal": 1, "reason": "x"}
    make_flavor("new")
    with Unchanged():
        problem(manager.post(QUOTAS, good | {"flavor": "nope"}), 422, "flavor", code="unknown_flavor")
        problem(manager.post(QUOTAS, good | {"capacity": "reserved"}), 422, "capacity")
        problem(manager.post(QUOTAS, good | {"capacity": "spot-first"}), 422, "capacity")
        problem(manager.post(QUOTAS, good | {"reason": " "}), 422, "reason")
        problem(manager.post(QUOTAS, good | {"user_limit": "4"}), 422, "user_limit")
        problem(manager.post(QUOTAS, good | {"nominal": None}), 422, "nominal")
        problem(manager.post(QUOTAS, {"flavor": "a100-40gb", "reason": "x"}), 422, "nominal", code="required")
        problem(manager.post(QUOTAS, {"flavor": "new", "user_limit": 1, "reason": "x"}), 422, "nominal")


def test_what_waits_and_what_is_used_too_much_is_counted(bench, manager):
    claim(bench, 6)
    bench.run(flavor="a100-40gb", gpus_per_replica=3)
    manager.post(QUOTAS, {"flavor": "a100-40gb", "nominal": 4, "reason": "cut"})
    (quota,) = bench.client.get(QUOTAS).json()["results"]
    assert (quota["used"], quota["ceiling"], quota["available"], quota["over_use"]) == (6, 4, -2, 2)
    assert quota["pending"] >= 3
    assert quota["fence"] is None


def test_the_fence_in_the_cluster_is_shown_and_whether_it_is_in_step(bench):
    now = clock.now()
    Fence.objects.create(
        team=bench.team, derived={"nvidia.com/gpu": 8}, observed={"nvidia.com/gpu": 6}, checked_at=now
    )
    (quota,) = bench.client.get(QUOTAS).json()["results"]
    assert {name: quota["fence"][name] for name in ("derived", "observed", "in_step")} == {
        "derived": 8,
        "observed": 6,
        "in_step": False,
    }


POLICY = "/api/v1/teams/vision/policy/"


def test_a_team_has_the_default_rules_until_a_manager_changes_them(bench, manager):
    default = {
        "team": "vision",
        "weight": 1,
        "high_priority": "leads",
        "shows_name": False,
        "may_reserve_headroom": True,
        **dict.fromkeys(COLUMNS),
    }
    ceilings = bench.client.get(POLICY).json()["ceilings"]
    default["ceilings"] = ceilings
    assert [line["own"] for line in ceilings] == [False] * len(COLUMNS)
    assert bench.client.get(POLICY).json() == default
    changed = manager.patch(POLICY, {"weight": 3, "high_priority": "members"}).json()
    assert changed == default | {"weight": 3, "high_priority": "members"}
    assert bench.client.get(POLICY).json() == changed
    with Unchanged():
        assert manager.patch(POLICY, {"weight": 3}).json() == changed


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("weight", 0),
        ("high_priority", "everybody"),
        ("high_priority", True),
        ("shows_name", 1),
        ("shows_name", "yes"),
        ("queue_stopped_at", None),
    ],
)
def test_a_wrong_rule_is_refused_by_name(bench, manager, field, value):
    with Unchanged():
        problem(manager.patch(POLICY, {field: value}), 422, field)


QUEUE = "/api/v1/queues/vision/"


def test_a_lead_stops_and_starts_the_teams_queue(bench):
    lead = api_client(bench.lead)
    bench.run(flavor="a100-40gb", gpus_per_replica=2)
    bench.run(flavor="a100-40gb", gpus_per_replica=1)
    stopped = lead.post(f"{QUEUE}stop/", {"reason": "new data"}).json()
    assert (stopped["team"], stopped["stopped"], stopped["reason"]) == ("vision", True, "new data")
    assert stopped["by"] == bench.lead.username
    assert stopped["at"] is not None
    assert stopped["waiting"] == [
        {"flavor": "a100-40gb", "capacity": "on-demand", "workloads": 2, "units": 3}
    ]
    assert bench.client.get(QUEUE).json() == stopped
    started = lead.post(f"{QUEUE}start/").json()
    assert (started["stopped"], started["reason"], started["by"], started["at"]) == (False, "", None, None)


def test_a_manager_stops_the_queue_of_a_team_that_there_is_with_a_reason(bench, manager):
    with Unchanged():
        problem(manager.post(f"{QUEUE}stop/", {}), 422, "reason")
        problem(manager.post(f"{QUEUE}stop/", {"reason": ""}), 422, "reason")
        problem(manager.post("/api/v1/queues/nope/stop/", {"reason": "x"}), 404)
    assert manager.post(f"{QUEUE}stop/", {"reason": "x"}).json()["stopped"]


def test_a_flavor_keeps_what_a_patch_leaves_out(bench, manager):
    url = "/api/v1/flavors/a100-40gb/"
    before = bench.client.get(url).json()
    after = manager.patch(url, {"enabled": False, "capacity": {"spot": {}}}).json()
    assert after == before | {"enabled": False, "capacity": {"spot": {}}}
    assert bench.client.get(url).json() == after
    with Unchanged():
        problem(bench.client.patch(url, {"enabled": True}), 403, code="role_missing")
        problem(manager.patch(url, {"name": "other"}), 422, "name", code="read_only")
        problem(manager.patch(url, {"gpu_fraction": "3/2"}), 422, "gpu_fraction")
        problem(manager.patch("/api/v1/flavors/nope/", {"enabled": True}), 404)
