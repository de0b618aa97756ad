"""Revisions of endpoints as a program uses them."""

from __future__ import annotations

import pytest

from foundation import clock
from inference.models import Endpoint
from tests.api.bench import ENDPOINTS, PROBLEM_KEYS, Unchanged, problem
from tests.factories.submitted import make_attempt, make_pod, move
from tests.factories.teams import api_client, make_member
from workloads.models import ClaimRecord, NodeRecord, WatchCursor, Workload
from workloads.states import Phase


def url_of(endpoint):
    return f"{ENDPOINTS}{endpoint['id']}/"


def running(bench, **fields):
    """An endpoint of which the first revision is live, with its pod."""
    endpoint = bench.endpoint(flavor="a100-40gb", **fields)
    workload = Workload.objects.get(public_id=endpoint["id"])
    attempt, _ = make_attempt(workload)
    move(workload, Phase.RUNNING)
    make_pod(
        workload, units=workload.units_each, attempt=attempt.number, node_name=NodeRecord.objects.get().name
    )
    Endpoint.objects.filter(workload=workload).update(stable_revision=1)
    Endpoint.objects.get(workload=workload).revisions.update(
        state="live", live_at=workload.since, load_seconds=20, updated=1, ready=1, total=1
    )
    return endpoint


def fill_the_quota(bench):
    bench.endpoint(name="other", flavor="a100-40gb")
    type(bench.quota).objects.filter(pk=bench.quota.pk).update(used=8)


def test_a_revision_says_how_far_it_came(bench):
    endpoint = running(bench)
    (found,) = bench.client.get(f"{url_of(endpoint)}revisions/").json()["results"]
    assert found["progress"] == {"updated": 1, "ready": 1, "total": 1}
    assert (found["state"], found["cause"], found["strategy"]) == ("live", "change", "surge")
    assert (found["current"], found["stable"], found["load_seconds"]) == (True, True, 20)
    assert bench.client.get(f"{url_of(endpoint)}revisions/1/").json() == found
    problem(bench.client.get(f"{url_of(endpoint)}revisions/2/"), 404)


def test_an_endpoint_tells_which_revision_is_wanted_and_which_serves(bench):
    def revisions():
        one = bench.client.get(url_of(endpoint)).json()
        (row,) = bench.client.get(ENDPOINTS, {"fields": "serving_revision,revision,id"}).json()["results"]
        assert row == {name: one[name] for name in row}
        return one["revision"], one["serving_revision"]

    endpoint = running(bench)
    assert (endpoint["revision"], endpoint["serving_revision"]) == (1, None)
    assert revisions() == (1, 1)
    changed = bench.client.patch(url_of(endpoint), {"image": "example.org/serve:2"}).json()
    assert (changed["revision"], changed["serving_revision"]) == (2, 1)
    assert revisions() == (2, 1)
    Endpoint.objects.update(stable_revision=2)
    assert revisions() == (2, 2)
    assert not {"revision", "serving_revision"} & set(bench.run())


def test_a_diff_names_the_fields_and_their_effect(bench):
    endpoint = running(bench)
    bench.client.patch(url_of(endpoint), {"image": "example.org/serve:2", "args": ["-v"]})
    found = bench.client.get(f"{url_of(endpoint)}revisions/2/diff/").json()
    assert (found["revision"], found["against"]) == (2, 1)
    assert [(each["field"], each["before"], each["after"], each["effect"]) for each in found["changes"]] == [
        ("args", [], ["-v"], "rollout"),
        ("image", "example.org/serve:1", "example.org/serve:2", "rollout"),
    ]
    back = bench.client.get(f"{url_of(endpoint)}revisions/1/diff/?against=2").json()
    assert [each["after"] for each in back["changes"]] == [[], "example.org/serve:1"]
    for bad in ("9", "x", "-1", "99999999999"):
        problem(bench.client.get(f"{url_of(endpoint)}revisions/2/diff/?against={bad}"), 404)


def test_a_preview_changes_nothing_and_says_money_quota_and_room(bench):
    endpoint = running(bench)
    with Unchanged():
        found = bench.client.post(
            f"{url_of(endpoint)}revisions/preview/", {"image": "example.org/serve:2"}
        ).json()
    assert [each["field"] for each in found["changes"]] == ["image"]
    assert found["rate_per_hour"]["before"] == found["rate_per_hour"]["after"]
    assert found["rate_per_hour"]["after"]["at_max"]["usd"] == "3600.000000"
    assert found["units"] == {"before": 1, "after": 1, "surge": 1}
    assert found["quota"]["before"]["limit"] == 8
    assert (found["rollout"]["verdict"], found["rollout"]["options"]) == ("go", [])


def test_a_rollout_without_room_is_refused_with_the_ways_that_are_left(bench):
    endpoint = running(bench)
    fill_the_quota(bench)
    body = {"image": "example.org/serve:2"}
    previewed = bench.client.post(f"{url_of(endpoint)}revisions/preview/", body).json()["rollout"]
    assert previewed["verdict"] == "blocked"
    with Unchanged():
        response = bench.client.patch(url_of(endpoint), body)
    found = response.json()
    assert (response.status_code, found["code"]) == (409, "rollout_blocked")
    assert list(found) == [*PROBLEM_KEYS, "options"]
    assert "8 of 8 are in use" in found["detail"]
    replace, wait, quota = found["options"]
    assert replace["change"] == {"rollout": {"strategy": "replace", "max_downtime_seconds": 40}}
    assert replace["downtime_seconds"] == 25
    assert wait["change"] == {"rollout": {"when_blocked": "wait"}}
    assert quota["url"] == "/api/v1/quota-requests/"
    assert "limit of 9" in quota["message"]

    chosen = bench.client.patch(url_of(endpoint), {**body, **replace["change"]})
    assert chosen.status_code == 200
    revision = bench.client.get(f"{url_of(endpoint)}revisions/").json()["results"][0]
    assert (revision["number"], revision["strategy"], revision["state"]) == (2, "replace", "pending")


def test_a_downtime_that_cannot_be_kept_is_refused(bench):
    endpoint = running(bench)
    body = {"image": "b:2", "rollout": {"strategy": "replace", "max_downtime_seconds": 10}}
    with Unchanged():
        found = bench.client.patch(url_of(endpoint), body).json()
    assert found["code"] == "rollout_blocked"
    assert "about 25 seconds, as last measured; at most 10" in found["detail"]
    assert [option["option"] for option in found["options"]] == ["replace"]


@pytest.mark.parametrize("field", ["flavor", "gpus_per_replica", "capacity", "name"])
def test_what_is_fixed_names_the_way_out(bench, field):
    endpoint = running(bench)
    values = {"flavor": "t4", "gpus_per_replica": 2, "capacity": "spot", "name": "other"}
    with Unchanged():
        found = problem(
            bench.client.patch(url_of(endpoint), {field: values[field]}), 422, field, code="fixed"
        )
    assert "Deploy another endpoint" in found["detail"]


def test_a_priority_is_changed_by_a_rollout(bench):
    endpoint = running(bench)
    assert bench.client.patch(url_of(endpoint), {"priority": "low"}).json()["priority"] == "low"
    viewer = api_client(make_member("viewer", team=bench.team).user)
    with Unchanged():
        problem(viewer.patch(url_of(endpoint), {"priority": "high"}), 403)


def test_people_return_to_the_last_revision_that_was_ready(bench):
    endpoint = running(bench)
    with Unchanged():
        problem(bench.client.post(f"{url_of(endpoint)}rollback/", {}), 409, code="no_older_revision")
        problem(bench.client.post(f"{url_of(endpoint)}rollback/", {"revision": 1}), 409, code="is_current")
        problem(bench.client.post(f"{url_of(endpoint)}rollback/", {"revision": 7}), 422, "revision")
        problem(bench.client.post(f"{url_of(endpoint)}rollback/", {"revision": "1"}), 422, "revision")
        problem(bench.client.post(f"{url_of(endpoint)}rollback/", {"to": 1}), 422, "to")
    bench.client.patch(url_of(endpoint), {"image": "example.org/serve:2"})
    answer = bench.client.post(f"{url_of(endpoint)}rollback/", {})
    assert answer.status_code == 202
    assert answer.json()["spec"]["image"] == "example.org/serve:1"
    newest, second, first = bench.client.get(f"{url_of(endpoint)}revisions/").json()["results"]
    assert (newest["number"], newest["cause"], newest["returns_to"]) == (3, "rollback", 1)
    assert (second["state"], first["state"]) == ("superseded", "live")


def test_nobody_returns_to_what_was_never_ready(bench):
    endpoint = running(bench)
    for image in ("example.org/serve:2", "example.org/serve:3"):
        assert bench.client.patch(url_of(endpoint), {"image": image}).status_code == 200
    with Unchanged():
        refused = bench.client.post(f"{url_of(endpoint)}rollback/", {"revision": 2})
        problem(refused, 409, "revision", code="never_ready")


def test_a_revision_with_the_pods_of_one_that_was_ready_is_one_to_return_to(bench):
    endpoint = running(bench)
    for requests in (5, 6):
        limit = {"requests_per_second": requests, "burst": requests}
        assert bench.client.patch(url_of(endpoint), {"rate_limit": limit}).status_code == 200
    assert bench.client.post(f"{url_of(endpoint)}rollback/", {"revision": 2}).status_code == 202


def test_a_claim_of_one_node_blocks_the_surge(bench):
    ClaimRecord.objects.create(
        uid="c",
        namespace=bench.team.namespace_name,
        name="models",
        access_modes=["ReadWriteOnce"],
        phase="Bound",
        observed_at=clock.now(),
    )
    WatchCursor.objects.create(kind="PersistentVolumeClaim", seen_at=clock.now())
    endpoint = running(bench, volumes=[{"claim": "models", "path": "/models"}])
    found = bench.client.patch(url_of(endpoint), {"image": "b:2"}).json()
    assert found["code"] == "rollout_blocked"
    assert "Claim models is ReadWriteOnce" in found["detail"]
    assert [option["option"] for option in found["options"]] == ["replace"]
