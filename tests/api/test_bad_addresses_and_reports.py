"""Addresses, times, reports of runs and what managers send: what will not do is refused, and named."""

from __future__ import annotations

import pytest

from tests.api.bench import RUNS, Unchanged, problem
from tests.factories.submitted import make_attempt, run_body
from tests.factories.teams import api_client, make_token
from workloads.models import Workload

HUGE = 2**63


# --- addresses


def test_a_query_parameter_that_will_not_do_is_named(bench):
    """Of pages, orders and cursors: tests/foundation/test_cursor_pages.py."""
    for query in (
        "phas=Queued",
        "phase=queued",
        "phase=",
        "limit=0",
        "limit=1&limit=2",
        "cursor=x",
        "ordering=team__slug",
        "ordering=owner__password",
        "id=5",
        "name=" + "x" * 300,
        "priority=urgent",
        "team__slug=vision",
        "owner__password__startswith=a",
    ):
        problem(bench.client.get(f"{RUNS}?{query}"), 400, query.partition("=")[0])


def test_nul_in_an_address_is_malformed(bench):
    for url in (f"{RUNS}?name=%00", "/api/v1/teams/%00/", "/api/v1/flavors/a%00b/"):
        problem(bench.client.get(url), 400, code="null_character")


def test_what_is_not_there_is_a_problem(bench):
    for url in (
        "/api/v1/nothing/",
        "/api/v2/me/",
        f"{RUNS}5/",
        f"{RUNS}not-a-uuid/",
        f"{RUNS}../../admin/",
        "/api/v1/teams/vision/members/nobody/",
        "/api/v1/teams/%FF/",
        "/api/v1/flavors/no-such-flavor/",
        "/api/v1/tokens/00000000-0000-7000-8000-000000000000/",
    ):
        problem(bench.client.get(url), 404)


def test_a_wrong_host_is_malformed(bench):
    response = bench.client.get("/api/v1/me/", headers={"Host": "evil.example"})
    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"


def test_times_that_are_none_are_named(bench):
    run = bench.run()
    for header in (
        "2026-01-01T00:00:00",
        "yesterday",
        "0000-00-00T00:00:00Z",
        "5",
        "9999-12-31T23:59:59-14:00",
    ):
        problem(bench.client.get("/api/v1/audit/", {"from": header}), 400, "from")
        problem(bench.client.get(f"{RUNS}{run['id']}/logs/", {"since": header}), 400, "since")


def test_any_offset_of_a_time_is_understood(bench):
    run = bench.run()
    for offset in ("+19:01", "-23:59", "+00:00", "+14:00"):
        at = f"2026-01-01T00:00:00{offset}"
        for url, name in (
            ("/api/v1/ledger/", "from"),
            ("/api/v1/ledger/", "to"),
            (f"{RUNS}{run['id']}/logs/", "since"),
        ):
            assert bench.client.get(url, {name: at}).status_code == 200, (name, offset)


# --- what a run reports of itself


def reporter(bench):
    run = bench.run()
    _, token = make_attempt(Workload.objects.get(public_id=run["id"]))
    client = api_client()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client, f"{RUNS}{run['id']}/"


def test_progress_that_cannot_be_kept_is_refused(bench):
    client, url = reporter(bench)
    with Unchanged():
        for body, field in (
            ({"progress_percentage": "NaN"}, "progress_percentage"),
            ({"progress_percentage": "50"}, "progress_percentage"),
            ({"progress_percentage": True}, "progress_percentage"),
            ({"progress_percentage": -0.1}, "progress_percentage"),
            ({"progress_percentage": 100.1}, "progress_percentage"),
            ({"estimated_remaining_seconds": 2**31}, "estimated_remaining_seconds"),
            ({"estimated_remaining_seconds": 1.5}, "estimated_remaining_seconds"),
            ({"metrics": {"loss": "nan"}}, "metrics.loss"),
            ({"metrics": {"loss": "-inf"}}, "metrics.loss"),
            ({"metrics": {"loss": {}}}, "metrics.loss"),
            ({"metrics": {str(index): 1 for index in range(65)}}, "metrics"),
            ({"metrics": {"x" * 101: 1}}, "metrics"),
            ({"metrics": []}, "metrics"),
            ({"attempt": 2}, "attempt"),
        ):
            problem(client.post(f"{url}progress/", body), 422, field)
    assert bench.client.get(f"{url}progress/").json()["results"] == []


def test_a_checkpoint_that_cannot_be_kept_is_refused(bench):
    client, url = reporter(bench)
    with Unchanged():
        for body, field in (
            ({"path": "/c"}, "step"),
            ({"step": 1}, "path"),
            ({"step": -1, "path": "/c"}, "step"),
            ({"step": "1", "path": "/c"}, "step"),
            ({"step": 1, "path": 5}, "path"),
            ({"step": 1, "path": ""}, "path"),
            ({"step": 1, "path": "x" * 4097}, "path"),
            ({"step": 1, "path": "/c", "at": "2026-01-01T00:00:00Z"}, "at"),
        ):
            problem(client.post(f"{url}checkpoints/", body), 422, field)


# --- managers


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("flavor", [5, "", None, "no-such-flavor", "x" * 64]),
        ("capacity", ["reserved", 5, [], ""]),
        ("reason", ["", None, 5, "x" * 1001]),
    ],
)
def test_a_quota_that_cannot_be_set_is_refused(bench, manager, field, values):
    good = {"flavor": "a100-40gb", "capacity": "on-demand", "nominal": 4, "reason": "test"}
    with Unchanged():
        for value in values:
            problem(manager.post("/api/v1/teams/vision/quotas/", good | {field: value}), 422, field)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("micro_usd_per_card_hour", [-1, "5", 1.5, True, None, HUGE - 1]),
        ("card", [5, "", None, "x" * 64]),
        ("valid_from", ["yesterday", 5, "2026-13-01T00:00:00Z", "9999-12-31T23:59:59-14:00", True]),
        ("reason", ["", None, 5]),
    ],
)
def test_a_price_that_cannot_be_set_is_refused(bench, manager, field, values):
    good = {"card": "a100-40gb", "micro_usd_per_card_hour": 5, "reason": "test"}
    with Unchanged():
        for value in values:
            problem(manager.post("/api/v1/prices/", good | {field: value}), 422, field)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("name", ["A", "a b", "", "x" * 64, 5]),
        ("gpu_fraction", ["2", "0", "1/0", "-1/7", "1/7/7", "nan", "1e-9", "", 1]),
        ("memory_gib", [-1, "40", 10_001, True]),
        ("sharing", ["all", 5]),
        ("capacity", [{}, {"reserved": {}}, [], {"spot": {"provisionable": {"block": 0, "units": 1}}}]),
        ("resource", ["gpu", "nvidia.com/", 5]),
        ("enabled", ["yes", 1, "true"]),
        ("tolerations", [{}, [5], [{"operator": "Maybe"}]]),
        ("node_selector", [[], {"a": "b"}, {"a": []}]),
    ],
)
def test_a_flavor_that_cannot_be_set_is_refused(bench, manager, field, values):
    good = {"name": "h100", "card": "h100", "capacity": {"on-demand": {}}}
    with Unchanged():
        for value in values:
            body = problem(manager.post("/api/v1/flavors/", good | {field: value}), 422)
            assert {each["field"].split(".")[0] for each in body["errors"]} == {field}, (value, body)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("name", ["", " ", None, 5, "x" * 101]),
        ("scopes", [[], ["admin"], "read", {}, [5], ["read"] * 4, None]),
        ("expires_in_days", [0, -1, 366, "90", 1.5, True]),
        ("team", ["no-such-team", 5, "x" * 41]),
    ],
)
def test_a_token_that_cannot_be_made_is_refused(bench, field, values):
    with Unchanged():
        for value in values:
            body = problem(
                bench.client.post("/api/v1/tokens/", {"name": "x", "scopes": ["read"], field: value}), 422
            )
            assert {each["field"].split(".")[0] for each in body["errors"]} == {field}, (value, body)


def test_a_team_slug_that_no_namespace_can_have_is_refused(bench, admin):
    with Unchanged():
        for value in ("Upper", "-a", "a-", "a_b", "ä", "", "x" * 41, 5, None, "a\nb"):
            problem(admin.post("/api/v1/teams/", {"slug": value, "name": "x"}), 422, "slug")


def test_hostile_text_is_kept_as_text(bench):
    hostile = [
        "$(touch /tmp/x)",
        "`id`",
        "'; DROP TABLE teams_team; --",
        "<script>alert(1)</script>",
        "{{ 7*7 }}",
        "a\r\nSet-Cookie: x=y",
        "../../etc/passwd",
        "%s%n",
        "\u202e",
    ]
    run = bench.run(command=["echo", *hostile], args=hostile, env=[{"name": "A", "value": hostile[2]}])
    assert run["spec"]["args"] == hostile
    (job,) = [
        each
        for each in bench.client.get(f"{RUNS}{run['id']}/manifests/").json()["manifests"]
        if each["kind"] == "Job"
    ]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["echo", *hostile]
    assert container["args"] == hostile


def test_make_token_is_refused_beyond_its_own_scopes(bench):
    reads = api_client()
    reads.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(bench.user, scopes=('manage',))}")
    with Unchanged():
        problem(reads.post("/api/v1/tokens/", {"name": "x", "scopes": ["submit"]}), 403, code="scope_missing")


def test_an_address_without_its_slash_leads_to_the_one_with_it(bench):
    body = run_body("vision")
    answered = bench.client.post(f"{RUNS[:-1]}?x=1", body)
    assert (answered.status_code, answered["Location"]) == (308, f"{RUNS}?x=1")
    assert bench.client.post(RUNS[:-1], body, follow=True).status_code == 201
    for escaped in ("small%23x", "small%3Fx%3D1", "a%2520b"):
        led = bench.client.delete(f"/api/v1/templates/{escaped}")
        assert (led.status_code, led["Location"]) == (308, f"/api/v1/templates/{escaped}/")
    problem(bench.client.post("/api/v1/nothing", body), 404)
    problem(bench.client.get("/api/v1//training-runs"), 404)


@pytest.mark.parametrize(
    ("sent", "says"),
    [("", "without a Content-Type"), ("text/plain", "as text/plain")],
)
def test_a_body_that_is_not_called_json_is_refused_with_what_it_was(bench, sent, says):
    refused = bench.client.generic("POST", RUNS, "{}", content_type=sent)
    assert says in problem(refused, 415)["detail"]
