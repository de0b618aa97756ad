"""Endpoints as a program uses them."""

from __future__ import annotations

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from inference.models import EndpointRevision
from tests.api.bench import ENDPOINTS, Unchanged, ids, problem
from tests.factories.submitted import endpoint_body, make_attempt, make_pod, move
from tests.factories.teams import api_client, make_member
from workloads.models import Workload
from workloads.states import Phase


def row(endpoint) -> Workload:
    return Workload.objects.get(public_id=endpoint["id"])


def test_an_endpoint_is_made_and_read_back(bench):
    response = bench.client.post(
        ENDPOINTS, endpoint_body("vision", name="digits", flavor="a100-40gb", min_replicas=2, max_replicas=2)
    )
    assert response.status_code == 201
    endpoint = response.json()
    assert endpoint.pop("warnings")
    assert (endpoint["kind"], endpoint["name"], endpoint["quantity"]) == ("endpoint", "digits", 2)
    assert endpoint["cost"]["at_time_limit"] is None
    assert bench.client.get("/api/" + response["Location"].partition("/api/")[2]).json() == endpoint
    for link in endpoint["links"].values():
        assert bench.client.get("/api/" + link.partition("/api/")[2]).status_code == 200, link


def test_a_change_is_a_new_revision_and_the_rest_stays(bench):
    endpoint = bench.endpoint(args=["--port", "8080"])
    url = f"{ENDPOINTS}{endpoint['id']}/"
    changed = bench.client.patch(url, {"image": "example.org/serve:2"})
    assert changed.status_code == 200
    assert changed.json()["spec"] == endpoint["spec"] | {"image": "example.org/serve:2"}
    revisions = bench.client.get(f"{url}revisions/").json()["results"]
    assert [each["number"] for each in revisions] == [2, 1]
    assert revisions[1]["spec"]["image"] == "example.org/serve:1"


def test_a_change_of_nothing_makes_no_revision(bench):
    endpoint = bench.endpoint()
    with Unchanged():
        for body in ({}, {"image": "example.org/serve:1"}, {"team": "vision"}):
            assert bench.client.patch(f"{ENDPOINTS}{endpoint['id']}/", body).status_code == 200


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"team": "audio"}, "team"),
        ({"name": "other"}, "name"),
        ({"flavor": "a100-40gb"}, "flavor"),
        ({"min_replicas": 2, "max_replicas": 1}, "max_replicas"),
        ({"phase": "Running"}, "phase"),
        ({"revision": 9}, "revision"),
        ({"owner": "lea"}, "owner"),
        ({"image": None}, "image"),
        ({"image": 5}, "image"),
        ({"ports": {"http": "8080"}}, "ports.http"),
        ({"ports": {"http": 0}}, "ports.http"),
        ({"ports": {"http": 8080, "grpc": 8080}}, "ports.grpc"),
        ({"probes": {"readiness": {"path": "x"}}}, "probes.readiness.path"),
    ],
)
def test_a_change_that_will_not_do_is_refused(bench, body, field):
    endpoint = bench.endpoint()
    with Unchanged():
        found = problem(bench.client.patch(f"{ENDPOINTS}{endpoint['id']}/", body), 422)
    assert field in {each["field"] for each in found["errors"]}


@pytest.mark.parametrize("body", [[], None, "text", 5, [{"image": "x"}]])
def test_a_change_that_is_no_object_is_refused(bench, body):
    endpoint = bench.endpoint()
    with Unchanged():
        response = bench.client.generic(
            "PATCH", f"{ENDPOINTS}{endpoint['id']}/", json.dumps(body), content_type="application/json"
        )
        problem(response, 422)


def test_nobody_overwrites_what_they_have_not_seen(bench):
    endpoint = bench.endpoint()
    url = f"{ENDPOINTS}{endpoint['id']}/"
    tag = bench.client.get(url)["ETag"]
    assert bench.client.patch(url, {"image": "example.org/a:1"}, headers={"If-Match": tag}).status_code == 200
    with Unchanged():
        problem(bench.client.patch(url, {"image": "example.org/b:1"}, headers={"If-Match": tag}), 412)
    assert EndpointRevision.objects.count() == 2


def test_a_viewer_is_refused_before_the_body_is_read(bench):
    endpoint = bench.endpoint()
    viewer = api_client(make_member("viewer", team=bench.team).user)
    with Unchanged():
        problem(viewer.patch(f"{ENDPOINTS}{endpoint['id']}/", {"image": 5}), 403)


def test_an_endpoint_is_stopped_started_and_deleted(bench):
    endpoint = bench.endpoint()
    url = f"{ENDPOINTS}{endpoint['id']}/"
    assert bench.client.post(f"{url}stop/").status_code == 202
    assert row(endpoint).desired == "suspend"
    assert bench.client.post(f"{url}start/").status_code == 202
    assert row(endpoint).desired == "run"
    assert bench.client.delete(url).status_code == 204
    with Unchanged():
        problem(bench.client.post(f"{url}start/"), 409)


def test_lists_keep_runs_and_endpoints_apart(bench):
    run, endpoint = bench.run(name="same"), bench.endpoint(name="same")
    assert ids(bench.client.get(ENDPOINTS).json()["results"]) == [endpoint["id"]]
    problem(bench.client.get(f"{ENDPOINTS}{run['id']}/"), 404)
    problem(bench.client.get(f"/api/v1/training-runs/{endpoint['id']}/"), 404)
    with Unchanged():
        problem(bench.client.post(f"/api/v1/training-runs/{endpoint['id']}/cancel/"), 404)


def test_fifty_endpoints_are_listed_in_six_queries(bench):
    for index in range(50):
        endpoint = row(bench.endpoint())
        if index % 10 == 0:
            make_attempt(endpoint)
            make_pod(endpoint)
    with CaptureQueriesContext(connection) as queries:
        assert len(bench.client.get(ENDPOINTS, {"limit": 50}).json()["results"]) == 50
    own = [each["sql"] for each in queries if "teams_apitoken" not in each["sql"]]
    assert len(own) <= 6, own


def test_trying_an_endpoint_that_cannot_answer_says_why(bench):
    endpoint = bench.endpoint()
    url = f"{ENDPOINTS}{endpoint['id']}/invoke/v1/predict"
    found = problem(bench.client.post(url, {}), 503, "phase", "reason")
    assert found["code"] == "endpoint_not_live"
    make_attempt(row(endpoint))
    move(row(endpoint), Phase.RUNNING)
    problem(bench.client.post(url, {}), 503)


def test_the_same_key_and_body_make_one_endpoint(bench):
    body = endpoint_body("vision")
    answers = [bench.client.post(ENDPOINTS, body, headers={"Idempotency-Key": "k"}).json() for _ in range(2)]
    assert answers[0] == answers[1]
    assert Workload.objects.count() == 1
