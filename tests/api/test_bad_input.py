"""Whatever is wrong with a request: 4xx with the field named, nothing created, never a 5xx."""

from __future__ import annotations

import json

import pytest

from tests.api.bench import ENDPOINTS, RUNS, Unchanged, problem
from tests.factories.catalogue import make_flavor
from tests.factories.submitted import endpoint_body, run_body

WHEREVER = pytest.mark.parametrize("url", [RUNS, ENDPOINTS, f"{RUNS}preview/", f"{ENDPOINTS}preview/"])


@WHEREVER
def test_what_is_wrong_with_a_request_is_named_and_nothing_is_made(bench, url):
    """What all is wrong: tests/api/test_request_rules.py and the tests of the two serializers."""
    body = run_body("vision") if "training" in url else endpoint_body("vision")
    unknown = dict.fromkeys(("id", "phase", "cost", "owner", "Flavor", "gpus", "", "name ", "наме"), "x")
    wrong = {"name": "Run", "image": None, "cpu": "lots", "env": [{"name": "A=B", "value": "x"}]}
    with Unchanged():
        problem(bench.client.post(url, body | unknown), 422, *unknown, code="unknown_field")
        problem(bench.client.post(url, body | wrong), 422, "name", "image", "cpu", "env.0.name")
        problem(bench.client.post(url, body | {"gpus_per_replica": 1}), 422, "flavor")


def test_more_gpus_than_any_node_holds_can_never_start(bench):
    with Unchanged():
        body = run_body("vision", flavor="a100-40gb", gpus_per_replica=9)
        problem(bench.client.post(RUNS, body), 422, "gpus_per_replica", code="never_fits")


def test_no_gpus_is_a_run_on_the_processor(bench):
    assert bench.run(gpus_per_replica=0)["quantity"] == 0
    assert bench.run(flavor="a100-40gb", gpus_per_replica=0)["flavor"] is None


def test_a_flavor_without_quota_and_one_that_is_not_there_are_refused(bench):
    make_flavor("h100", product=None)
    with Unchanged():
        for flavor in ("h100", "no-such-flavor"):
            problem(bench.client.post(RUNS, run_body("vision", flavor=flavor)), 422, "flavor")
        spot = run_body("vision", flavor="a100-40gb", capacity="spot")
        assert bench.client.post(RUNS, spot).json()["errors"][0]["field"] in {"capacity", "flavor"}


def test_a_second_live_run_of_the_same_name_is_a_conflict_and_one_after_it_is_not(bench):
    from tests.factories.submitted import move
    from workloads.models import Workload
    from workloads.states import Phase

    run = bench.run(name="same")
    bench.endpoint(name="same")
    with Unchanged():
        problem(bench.client.post(RUNS, run_body("vision", name="same")), 409, "name", code="name_taken")
    move(Workload.objects.get(public_id=run["id"]), Phase.SUCCEEDED)
    bench.run(name="same")


def test_a_team_that_is_not_ones_own_is_not_found_and_named(bench):
    from tests.factories.teams import make_team

    make_team("audio")
    with Unchanged():
        for team in ("audio", "no-such-team", "Vision", "vision "):
            problem(bench.client.post(RUNS, run_body(team)), 404, "team")
            problem(bench.client.post(f"{RUNS}preview/", run_body(team)), 404, "team")


# --- bodies that are none


@pytest.mark.parametrize("url", [RUNS, ENDPOINTS, f"{RUNS}preview/", "/api/v1/tokens/"])
def test_a_body_that_is_no_object_is_refused(bench, url):
    """What else is no JSON that can be kept: tests/foundation/test_strict_json.py."""
    with Unchanged():
        for raw, status, code in (
            (b"{", 400, "not_json"),
            (b'{"name": 9223372036854775808}', 400, "number_too_large"),
            (b"a: &a [*a, *a]", 400, "not_json"),
            (b"", 422, "required"),
            (b"null", 422, "null"),
            (b"[]", 422, "invalid"),
            (b'"text"', 422, "invalid"),
            (b"5", 422, "invalid"),
        ):
            response = bench.client.generic("POST", url, raw, content_type="application/json")
            problem(response, status, code=code)


@pytest.mark.parametrize("url", [RUNS, ENDPOINTS, f"{RUNS}preview/", "/api/v1/tokens/", "/sign-in/"])
def test_ten_megabytes_are_too_large(bench, url):
    with Unchanged():
        response = bench.client.generic("POST", url, b" " * 10 * 2**20, content_type="application/json")
    assert response.status_code == 413
    assert not url.startswith("/api/") or problem(response, 413)["code"] == "too_large"


def test_another_content_type_is_refused(bench):
    with Unchanged():
        for kind in (
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "",
            "x",
        ):
            response = bench.client.generic("POST", RUNS, json.dumps(run_body("vision")), content_type=kind)
            problem(response, 415)


def test_another_accept_is_refused_with_a_problem(bench):
    problem(bench.client.get(RUNS, headers={"Accept": "application/xml"}), 406)
