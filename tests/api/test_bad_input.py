"""Whatever is wrong with a request: 4xx with the field named, nothing created, never a 5xx."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.bench import ENDPOINTS, RUNS, Unchanged, problem
from tests.factories.catalogue import make_flavor
from tests.factories.submitted import endpoint_body, run_body
from tests.factories.teams import api_client, make_token, make_user

HUGE = 2**63
WRONG: dict[str, list[Any]] = {
    "text": [5, 1.5, True, [], {}, ["x"], {"a": 1}],
    "whole": ["1", 1.5, 2.0, True, [], {}, -1, HUGE - 1, -HUGE],
    "list": ["x", 5, True, {"a": "b"}, [5], [None], [["x"]], [{"a": 1}]],
    "object": ["x", 5, True, ["x"]],
    "quantity": [
        True,
        1.5,
        [],
        "",
        "lots",
        "1 Gi",
        "1GiB",
        "-1",
        "1e400",
        "NaN",
        "Infinity",
        "٣",
        "0x10",
        "1" * 65,
    ],
    "choice": [5, True, [], {}, "no-such-thing", "", "JOB", " normal"],
}
RUN_FIELDS = {
    "team": "text",
    "name": "text",
    "image": "text",
    "command": "list",
    "args": "list",
    "env": "list",
    "volumes": "list",
    "config_maps": "list",
    "image_pull_secrets": "list",
    "working_dir": "text",
    "run_as_user": "whole",
    "flavor": "text",
    "gpus_per_replica": "whole",
    "replicas": "whole",
    "cpu": "quantity",
    "memory": "quantity",
    "shm": "quantity",
    "ephemeral_storage": "quantity",
    "time_limit_seconds": "whole",
    "max_retries": "whole",
    "kind": "choice",
    "capacity": "choice",
    "priority": "choice",
    "labels": "object",
    "source": "object",
    "checkpoint": "object",
}
ENDPOINT_FIELDS = {
    **{
        name: kind
        for name, kind in RUN_FIELDS.items()
        if name not in {"replicas", "time_limit_seconds", "max_retries", "kind", "checkpoint"}
    },
    "runtime": "choice",
    "model": "object",
    "ports": "object",
    "probes": "object",
    "min_replicas": "whole",
    "max_replicas": "whole",
    "rollout": "object",
    "request_timeout_seconds": "whole",
}
NAMES = [
    "",
    " ",
    "-run",
    "run-",
    "Run",
    "1run",
    "run_1",
    "run.1",
    "run 1",
    "run\n",
    "run\t1",
    "räder",
    "名前",
    "اسم",
    "שם",
    "имя",
    "नाम",
    "run\u200b",
    "run\u202e",
    "\ufeffrun",
    "\uff52\uff55\uff4e",
    "run🚀",
    "e\u0301",
    "run;ls",
    "$(ls)",
    "../run",
    "<script>",
    "' OR 1=1 --",
    "%00",
    "{{7*7}}",
    "r" * 41,
    "r" * 63,
    "r" * 64,
    "r" * 300,
    "名" * 300,
]


def named(response, field: str) -> None:
    body = problem(response, 422)
    assert any(each["field"].split(".")[0] == field for each in body["errors"]), body["errors"]


@pytest.mark.parametrize("field", sorted(RUN_FIELDS))
def test_a_run_with_a_wrong_type_is_refused_and_the_field_named(bench, field):
    for value in WRONG[RUN_FIELDS[field]]:
        if (field, value) == ("flavor", "") or (
            value in ([], {}) and RUN_FIELDS[field] in {"list", "object"}
        ):
            continue
        with Unchanged():
            named(
                bench.client.post(RUNS, run_body(**{"team": "vision", "flavor": "a100-40gb", field: value})),
                field,
            )


@pytest.mark.parametrize("field", sorted(ENDPOINT_FIELDS))
def test_an_endpoint_with_a_wrong_type_is_refused_and_the_field_named(bench, field):
    for value in WRONG[ENDPOINT_FIELDS[field]]:
        with Unchanged():
            named(
                bench.client.post(
                    ENDPOINTS, endpoint_body(**{"team": "vision", "flavor": "a100-40gb", field: value})
                ),
                field,
            )


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_no_object_can_have_is_refused(bench, name):
    with Unchanged():
        problem(bench.client.post(RUNS, run_body("vision", name=name)), 422, "name")
        problem(bench.client.post(ENDPOINTS, endpoint_body("vision", name=name)), 422, "name")


def test_names_of_any_length_and_script_are_refused_or_kept_as_they_are(bench):
    from workloads.models import Workload

    @settings(
        max_examples=60,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.text(min_size=1, max_size=300))
    def check(name):
        before = Workload.objects.count()
        response = bench.client.post(RUNS, run_body("vision", name=name))
        if response.status_code == 201:
            assert response.json()["name"] == name
            assert Workload.objects.count() == before + 1
        else:
            assert response.status_code in {400, 409, 422}
            assert {each["field"] for each in response.json()["errors"]} == {"name"}
            assert Workload.objects.count() == before

    check()


@pytest.mark.parametrize("count", [-1, -HUGE, 1025, 10**6, 2**31, HUGE - 1])
def test_gpu_counts_out_of_range_are_refused(bench, count):
    with Unchanged():
        body = run_body("vision", flavor="a100-40gb", gpus_per_replica=count)
        problem(bench.client.post(RUNS, body), 422, "gpus_per_replica")


def test_more_gpus_than_any_node_holds_can_never_start(bench):
    with Unchanged():
        body = run_body("vision", flavor="a100-40gb", gpus_per_replica=9)
        problem(bench.client.post(RUNS, body), 422, "gpus_per_replica", code="never_fits")


def test_no_gpus_is_a_run_on_the_processor(bench):
    assert bench.run(gpus_per_replica=0)["quantity"] == 0
    assert bench.run(flavor="a100-40gb", gpus_per_replica=0)["flavor"] is None


@pytest.mark.parametrize(
    "literal", ["9223372036854775808", "-9223372036854775809", "1" * 5000, "NaN", "Infinity", "1e999"]
)
def test_numbers_that_no_store_can_hold_are_malformed(bench, literal):
    raw = json.dumps(run_body("vision", gpus_per_replica="@")).replace('"@"', literal)
    with Unchanged():
        response = bench.client.generic("POST", RUNS, raw, content_type="application/json")
        assert problem(response, 400)["code"] in {"number_too_large", "not_finite"}


def test_a_flavor_without_quota_and_one_that_is_not_there_are_refused(bench):
    make_flavor("h100", product=None)
    with Unchanged():
        for flavor in ("h100", "no-such-flavor"):
            problem(bench.client.post(RUNS, run_body("vision", flavor=flavor)), 422, "flavor")
        spot = run_body("vision", flavor="a100-40gb", capacity="spot")
        assert bench.client.post(RUNS, spot).json()["errors"][0]["field"] in {"capacity", "flavor"}


def test_gpus_without_a_flavor_are_refused(bench):
    with Unchanged():
        problem(bench.client.post(RUNS, run_body("vision", gpus_per_replica=1)), 422, "flavor")


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


@pytest.mark.parametrize("url", [RUNS, ENDPOINTS, f"{RUNS}preview/", f"{ENDPOINTS}preview/"])
def test_unknown_and_read_only_fields_are_named(bench, url):
    body = run_body("vision") if "training" in url else endpoint_body("vision")
    sent = dict.fromkeys(("id", "phase", "cost", "owner", "Flavor", "gpus", "", "name ", "наме"), "x")
    with Unchanged():
        problem(bench.client.post(url, body | sent), 422, *sent, code="unknown_field")


@pytest.mark.parametrize("missing", ["team", "name", "image"])
def test_what_is_missing_is_named(bench, missing):
    body = run_body("vision")
    del body[missing]
    with Unchanged():
        problem(bench.client.post(RUNS, body), 422, missing, code="required")
        problem(bench.client.post(RUNS, body | {missing: None}), 422, missing, code="null")


def test_env_is_checked_item_by_item(bench):
    items = [
        ("env.0.name", {"name": "PORTAL_URL", "value": "x"}),
        ("env.0.name", {"name": "A=B", "value": "x"}),
        ("env.0.name", {"name": "ПУТЬ", "value": "x"}),
        ("env.0.name", {"value": "x"}),
        ("env.0.value", {"name": "A", "value": 5}),
        ("env.0.valu", {"name": "A", "valu": "x"}),
        ("env.0.value", {"name": "A", "value": "x" * 40_000}),
    ]
    with Unchanged():
        for field, item in items:
            problem(bench.client.post(RUNS, run_body("vision", env=[item])), 422, field)
        many = [{"name": f"A{index}", "value": ""} for index in range(10_000)]
        problem(bench.client.post(RUNS, run_body("vision", env=many)), 422, "env", code="max_length")


# --- bodies that are none


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"{", "not_json"),
        (b"{'team': 1}", "not_json"),
        (b"", "required"),
        (b"\xff\xfe", "not_utf8"),
        (b'{"name": "a", "name": "b"}', "duplicate_key"),
        (b'{"name": "\\u0000"}', "null_character"),
        (b'{"name": "\\ud800"}', "surrogate"),
        (b'{"a":' * 33 + b"1" + b"}" * 33, "too_deep"),
        (b"[" * 100_000 + b"]" * 100_000, "too_deep"),
        (b"null", "null"),
        (b"[]", "invalid"),
        (b'"text"', "invalid"),
        (b"5", "invalid"),
        (b"true", "invalid"),
        (b"a: &a [*a, *a]", "not_json"),
        (b"\x1f\x8b\x08\x00", "not_utf8"),
    ],
)
@pytest.mark.parametrize("url", [RUNS, ENDPOINTS, f"{RUNS}preview/", "/api/v1/tokens/"])
def test_a_body_that_is_no_object_is_refused(bench, url, raw, code):
    with Unchanged():
        response = bench.client.generic("POST", url, raw, content_type="application/json")
        assert response.status_code in {400, 422}
        problem(response, response.status_code, code=code)


@pytest.mark.parametrize("url", [RUNS, ENDPOINTS, f"{RUNS}preview/", "/api/v1/tokens/", "/sign-in/"])
def test_ten_megabytes_are_too_large(bench, url):
    with Unchanged():
        response = bench.client.generic("POST", url, b" " * 10 * 2**20, content_type="application/json")
    assert response.status_code == 413
    assert not url.startswith("/api/") or problem(response, 413)["code"] == "too_large"


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/xml",
        "",
        "x",
    ],
)
def test_another_content_type_is_refused(bench, kind):
    with Unchanged():
        response = bench.client.generic("POST", RUNS, json.dumps(run_body("vision")), content_type=kind)
        problem(response, 415)


def test_another_accept_is_refused_with_a_problem(bench):
    problem(bench.client.get(RUNS, headers={"Accept": "application/xml"}), 406)


# --- addresses


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("phas=Queued", "phas"),
        ("phase=queued", "phase"),
        ("phase=", "phase"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=-1", "limit"),
        ("limit=ten", "limit"),
        ("limit=1&limit=2", "limit"),
        ("limit=%D9%A3", "limit"),
        ("cursor=x", "cursor"),
        ("cursor=" + "x" * 2000, "cursor"),
        ("ordering=team__slug", "ordering"),
        ("ordering=--name", "ordering"),
        ("ordering=owner__password", "ordering"),
        ("id=5", "id"),
        ("name=" + "x" * 300, "name"),
        ("priority=urgent", "priority"),
        ("team__slug=vision", "team__slug"),
        ("owner__password__startswith=a", "owner__password__startswith"),
    ],
)
def test_a_query_parameter_that_will_not_do_is_named(bench, query, field):
    problem(bench.client.get(f"{RUNS}?{query}"), 400, field)


def test_nul_in_an_address_is_malformed(bench):
    for url in (f"{RUNS}?name=%00", "/api/v1/teams/%00/", "/api/v1/flavors/a%00b/"):
        problem(bench.client.get(url), 400, code="null_character")


@pytest.mark.parametrize(
    "url",
    [
        "/api/v1/nothing/",
        "/api/v1/training-runs",
        "/api/v2/me/",
        f"{RUNS}5/",
        f"{RUNS}not-a-uuid/",
        f"{RUNS}../../admin/",
        "/api/v1/teams/vision/members/nobody/",
        "/api/v1/teams/%FF/",
        "/api/v1/flavors/no-such-flavor/",
        "/api/v1/tokens/00000000-0000-7000-8000-000000000000/",
    ],
)
def test_what_is_not_there_is_a_problem(bench, url):
    problem(bench.client.get(url), 404)


def test_a_wrong_host_is_malformed(bench):
    response = bench.client.get("/api/v1/me/", headers={"Host": "evil.example"})
    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(
    "header", ["2026-01-01T00:00:00", "yesterday", "0000-00-00T00:00:00Z", "5", "9999-12-31T23:59:59-14:00"]
)
def test_times_that_are_none_are_named(bench, header):
    run = bench.run()
    problem(bench.client.get("/api/v1/audit/", {"from": header}), 400, "from")
    problem(bench.client.get(f"{RUNS}{run['id']}/logs/", {"since": header}), 400, "since")


@pytest.mark.parametrize("offset", ["+19:01", "-23:59", "+00:00", "+14:00"])
def test_any_offset_of_a_time_is_understood(bench, offset):
    for name in ("from", "to"):
        assert bench.client.get("/api/v1/ledger/", {name: f"2026-01-01T00:00:00{offset}"}).status_code == 200
    run = bench.run()
    assert (
        bench.client.get(f"{RUNS}{run['id']}/logs/", {"since": f"2026-01-01T00:00:00{offset}"}).status_code
        == 200
    )


# --- what a run reports of itself


def reporter(bench):
    from tests.factories.submitted import make_attempt
    from workloads.models import Workload

    run = bench.run()
    _, token = make_attempt(Workload.objects.get(public_id=run["id"]))
    client = api_client()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    return client, f"{RUNS}{run['id']}/"


@pytest.mark.parametrize(
    ("body", "field"),
    [
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
    ],
)
def test_progress_that_cannot_be_kept_is_refused(bench, body, field):
    client, url = reporter(bench)
    with Unchanged():
        problem(client.post(f"{url}progress/", body), 422, field)
    assert bench.client.get(f"{url}progress/").json()["results"] == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"path": "/c"}, "step"),
        ({"step": 1}, "path"),
        ({"step": -1, "path": "/c"}, "step"),
        ({"step": "1", "path": "/c"}, "step"),
        ({"step": 1, "path": 5}, "path"),
        ({"step": 1, "path": ""}, "path"),
        ({"step": 1, "path": "x" * 4097}, "path"),
        ({"step": 1, "path": "/c", "at": "2026-01-01T00:00:00Z"}, "at"),
    ],
)
def test_a_checkpoint_that_cannot_be_kept_is_refused(bench, body, field):
    client, url = reporter(bench)
    with Unchanged():
        problem(client.post(f"{url}checkpoints/", body), 422, field)


# --- managers


@pytest.fixture
def manager(bench):
    return api_client(make_user("manager", quota_manager=True))


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("nominal", [-1, "5", 1.5, True, None, HUGE - 1, [], "lots"]),
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
    good = {"card": "h100", "micro_usd_per_card_hour": 5, "reason": "test"}
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


@pytest.mark.parametrize("value", ["Upper", "-a", "a-", "a_b", "ä", "", "x" * 41, 5, None, "a\nb"])
def test_a_team_slug_that_no_namespace_can_have_is_refused(bench, value):
    admin = api_client(make_user(platform_admin=True))
    with Unchanged():
        problem(admin.post("/api/v1/teams/", {"slug": value, "name": "x"}), 422, "slug")


@pytest.mark.parametrize("key", ["", " ", "a b", "ä", "x" * 256])
def test_an_idempotency_key_that_is_none_is_named(bench, key):
    with Unchanged():
        problem(
            bench.client.post(RUNS, run_body("vision"), headers={"Idempotency-Key": key}),
            400,
            "Idempotency-Key",
        )


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
