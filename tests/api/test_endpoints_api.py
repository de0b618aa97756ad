"""Endpoints as a program uses them."""

from __future__ import annotations

from inference.models import EndpointRevision
from tests.api.bench import ENDPOINTS, Unchanged, ids, problem, row
from tests.factories.submitted import endpoint_body
from tests.factories.teams import api_client, make_member


def test_an_endpoint_is_made_and_read_back(bench, settings):
    response = bench.client.post(
        ENDPOINTS, endpoint_body("vision", name="digits", flavor="a100-40gb", min_replicas=2, max_replicas=2)
    )
    assert response.status_code == 201
    endpoint = response.json()
    assert endpoint.pop("warnings")
    assert (endpoint["kind"], endpoint["name"], endpoint["quantity"]) == ("endpoint", "digits", 2)
    assert endpoint["cost"]["at_time_limit"] is None
    assert bench.client.get("/api/" + response["Location"].partition("/api/")[2]).json() == endpoint
    assert endpoint["links"].pop("gateway") == f"{settings.LIVE_URL}/vision/digits/"
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


def test_a_change_that_will_not_do_is_refused(bench):
    """What else is no request: tests/inference/test_endpoint_serializer.py."""
    url = f"{ENDPOINTS}{bench.endpoint()['id']}/"
    with Unchanged():
        for body, *fields in (
            ({"team": "audio"}, "team"),
            ({"flavor": "a100-40gb"}, "flavor"),
            ({"min_replicas": 2, "max_replicas": 1}, "max_replicas"),
            (
                {"phase": "Running", "revision": 9, "owner": "lea", "image": 5},
                "phase",
                "revision",
                "owner",
                "image",
            ),
            ({"ports": {"http": 0}}, "ports.http"),
        ):
            problem(bench.client.patch(url, body), 422, *fields)


def test_a_change_that_is_no_object_is_refused(bench):
    url = f"{ENDPOINTS}{bench.endpoint()['id']}/"
    with Unchanged():
        for raw in ("[]", "null", '"text"', "5", '[{"image": "x"}]'):
            problem(bench.client.generic("PATCH", url, raw, content_type="application/json"), 422)


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


def test_a_call_of_an_endpoint_is_at_the_live_process(bench):
    invoked = bench.client.post(f"{ENDPOINTS}{bench.endpoint()['id']}/invoke/v1/predict?a=%20b", {})
    assert invoked.status_code == 307
    assert "/-/invoke/" in invoked["Location"]
    assert invoked["Location"].endswith("/v1/predict?a=%20b")


def test_a_log_that_is_followed_is_at_the_live_process(bench):
    follow = bench.client.get(f"{ENDPOINTS}{bench.endpoint()['id']}/logs/", {"follow": "1"})
    assert follow.status_code == 307
    assert "ticket=" in follow["Location"]
