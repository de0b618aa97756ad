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
    "extra_resources": "object",
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
    good = {"team": "vision", "flavor": "a100-40gb"}
    with Unchanged():
        for value in WRONG[RUN_FIELDS[field]]:
            empty = value in ([], {}) and RUN_FIELDS[field] in {"list", "object"}
            if not empty and (field, value) != ("flavor", ""):
                named(bench.client.post(RUNS, run_body(**good | {field: value})), field)


@pytest.mark.parametrize("field", sorted(ENDPOINT_FIELDS))
def test_an_endpoint_with_a_wrong_type_is_refused_and_the_field_named(bench, field):
    good = {"team": "vision", "flavor": "a100-40gb"}
    with Unchanged():
        for value in WRONG[ENDPOINT_FIELDS[field]]:
            named(bench.client.post(ENDPOINTS, endpoint_body(**good | {field: value})), field)


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
