"""What is counted as seen of the OpenAPI document, and what a new operation declares before a test has seen it."""

from __future__ import annotations

import json

import pytest

from foundation.http.codes import codes_of
from foundation.http.schema import UNTRIED, declare_problems
from tests.api.bench import RUNS
from tests.openapi import document, operations
from tests.rest_coverage.__main__ import codes, compare, joined, undeclared, written
from tests.rest_coverage.recorder import Recorder

DESCRIBED = {
    "things_list": (
        "GET",
        "/api/v1/things/",
        {
            "parameters": [{"in": "query", "name": "limit"}, {"in": "path", "name": "id"}],
            "responses": {"200": {"headers": {"ETag": {}}}, "404": {}},
        },
    )
}


def test_what_is_seen_is_told_from_what_is_not():
    recorded = {
        "GET /api/v1/things/": {"statuses": ["200", "418"], "parameters": [], "answer_headers": ["200 ETag"]}
    }
    seen, unseen = compare(DESCRIBED, recorded)
    assert set(seen) == {"statuses 200", "answer_headers 200 ETag"}
    assert set(unseen) == {"statuses 404", "parameters limit"}
    assert list(undeclared(DESCRIBED, recorded)) == ["things_list: 418"]


def test_codes_are_written_by_operation_and_status():
    recorded = {"GET /api/v1/things/": {"codes": ["404 not_found", "422 invalid", "422 required"]}}
    found = codes(DESCRIBED, recorded)
    assert found == {"things_list": {"404": ["not_found"], "422": ["invalid", "required"]}}
    assert json.loads(written(found)) == found


@pytest.mark.django_db
def test_a_request_is_noted_by_its_route_with_what_it_sent_and_got(bench):
    recorder = Recorder()
    for query, headers in (("?limit=1", {}), ("?color=red", {"Idempotency-Key": "k"})):
        response = bench.client.get(f"{RUNS}{query}", headers=headers)
        recorder.note(response.wsgi_request, response)
    ((name, seen),) = recorder.plain().items()
    assert name == "GET /api/v1/training-runs/"
    assert (seen["statuses"], seen["parameters"]) == (["200", "400"], ["color", "limit"])
    assert (seen["request_headers"], seen["codes"]) == (["Idempotency-Key"], ["400 unknown_parameter"])
    assert "200 ETag" in seen["answer_headers"]


def test_what_middleware_refuses_is_noted_and_what_is_no_route_is_not(client):
    recorder = Recorder()
    for path in ("/api/v1/me/?a=%00", "/api/v1/nothing/", "/healthz"):
        response = client.get(path)
        recorder.note(response.wsgi_request, response)
    assert recorder.plain().keys() == {"GET /api/v1/me/"}


def test_an_operation_that_no_test_was_seen_to_ask_may_answer_what_untried_ones_do():
    document = {
        "paths": {"/api/v1/things/": {"get": {"operationId": "things_list", "responses": {"200": {}}}}}
    }
    declare_problems(document, None, None, public=True)
    responses = document["paths"]["/api/v1/things/"]["get"]["responses"]
    assert {str(status) for status in UNTRIED} < responses.keys()


def test_the_document_names_the_codes_of_each_error(settings):
    recorded = codes_of(settings.OPENAPI_PROBLEM_CODES)
    gone = sorted(set(recorded) - set(operations()))
    assert gone == [], "portal/openapi/problem_codes.json: `python -m tests.rest_coverage FILE --write`"
    created = document()["paths"]["/api/v1/training-runs/"]["post"]["responses"]
    assert {"name_taken", "in_flight"} <= set(created["409"]["x-codes"])
    assert created["413"]["description"].endswith("`too_large`")


def test_what_several_runs_saw_counts_together(tmp_path):
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    one.write_text('{"GET /a/": {"statuses": ["200", "404"]}}')
    other.write_text(
        '{"GET /a/": {"statuses": ["404", "429"], "codes": ["429 slow"]}, "GET /b/": {"statuses": ["200"]}}'
    )
    assert joined([one, other]) == {
        "GET /a/": {"statuses": ["200", "404", "429"], "codes": ["429 slow"]},
        "GET /b/": {"statuses": ["200"]},
    }
