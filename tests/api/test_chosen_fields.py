"""`?fields=`: a poll of a run or an endpoint is answered what it asks for, and nothing else is read for it."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from foundation import clock
from tests.api.bench import ENDPOINTS, RUNS, problem
from tests.openapi import document
from workloads.models import Workload

BOTH = pytest.mark.parametrize(
    ("url", "make"), [(RUNS, "run"), (ENDPOINTS, "endpoint")], ids=["runs", "endpoints"]
)


def queries_of(ask) -> list[str]:
    with CaptureQueriesContext(connection) as queries:
        assert ask().status_code == 200
    return [each["sql"] for each in queries if "teams_apitoken" not in each["sql"]]


@BOTH
def test_only_the_fields_that_are_asked_for_are_answered(bench, url, make):
    made = getattr(bench, make)()
    one = bench.client.get(f"{url}{made['id']}/", {"fields": "id,phase,reason"})
    assert one.json() == {name: made[name] for name in ("id", "phase", "reason")}
    rows = bench.client.get(url, {"fields": "phase,id"}).json()
    assert rows["results"] == [{"id": made["id"], "phase": made["phase"]}]
    assert rows["next"] is None
    whole = bench.client.get(f"{url}{made['id']}/").json()
    assert bench.client.get(f"{url}{made['id']}/", {"fields": ",".join(whole)}).json() == whole


@BOTH
def test_a_field_that_is_not_there_is_refused_by_the_parameter(bench, url, make):
    made = getattr(bench, make)()
    for address in (url, f"{url}{made['id']}/"):
        for wrong in ("phase,nonsense", "", "phase,", "spec.image", "Phase"):
            problem(bench.client.get(address, {"fields": wrong}), 400, "fields")
        problem(bench.client.get(f"{address}?fields=id&fields=phase"), 400, "fields", code="repeated")


@BOTH
def test_what_was_not_asked_for_is_not_read(bench, url, make):
    one = f"{url}{getattr(bench, make)()['id']}/"
    for address in (url, one):
        asked = queries_of(lambda address=address: bench.client.get(address, {"fields": "id,phase,reason"}))
        whole = queries_of(lambda address=address: bench.client.get(address))
        assert len(asked) < len(whole)
        for unread in ("costs_", "jobs_trainingrun", "inference_endpointrevision", "workloads_attempt"):
            assert not [sql for sql in asked if unread in sql], asked
    unexpanded = queries_of(lambda: bench.client.get(url, {"fields": "id", "expand": "attempts,spec"}))
    assert unexpanded == queries_of(lambda: bench.client.get(url, {"fields": "id"}))


def test_a_row_has_its_attempts_where_they_are_asked_for(bench):
    bench.run()
    assert bench.client.get(RUNS, {"fields": "attempts"}).json()["results"] == [{"attempts": []}]
    links = bench.client.get(RUNS, {"fields": "links", "expand": "links"}).json()["results"][0]["links"]
    assert len(links) > 1


def test_the_tag_of_a_part_is_that_of_the_part(bench):
    url = f"{RUNS}{bench.run()['id']}/"
    part = bench.client.get(url, {"fields": "id,name"})
    whole = bench.client.get(url)
    assert part["ETag"] != whole["ETag"]
    assert part["ETag"].split("-")[0] == whole["ETag"].split("-")[0]
    again = bench.client.get(url, {"fields": "id,name"}, HTTP_IF_NONE_MATCH=part["ETag"])
    assert (again.status_code, again.content) == (304, b"")
    refused = bench.client.patch(url, {"priority": "low"}, HTTP_IF_MATCH='"99"')
    assert refused.status_code == 412
    assert bench.client.patch(url, {"priority": "low"}, HTTP_IF_MATCH=part["ETag"]).status_code == 200


def test_several_phases_are_repeated_or_separated_by_commas(bench):
    made = {name: bench.run(name=name)["id"] for name in ("one", "two", "three")}
    Workload.objects.filter(public_id=made["one"]).update(phase="Failed", finished_at=clock.now())
    for query, expected in (
        ("phase=Queued,Failed", {"one", "two", "three"}),
        ("phase=Queued&phase=Failed", {"one", "two", "three"}),
        ("phase=Running,Failed", {"one"}),
    ):
        rows = bench.client.get(f"{RUNS}?{query}&ordering=name").json()["results"]
        assert [row["name"] for row in rows] == sorted(expected), query
    problem(bench.client.get(f"{RUNS}?phase=Queued,Sleeping"), 400, "phase")


def test_the_schema_requires_no_field_of_what_may_be_a_part():
    declared_by = document()
    schemas = declared_by["components"]["schemas"]
    assert "required" not in schemas["ReadWorkload"]
    assert "required" not in schemas["WorkloadRow"]
    assert {"id", "phase"} <= set(schemas["Workload"]["required"])
    for path in ("/api/v1/training-runs/", "/api/v1/endpoints/{public_id}/"):
        declared = {each["name"]: each for each in declared_by["paths"][path]["get"]["parameters"]}
        assert set(declared["fields"]["schema"]["items"]["enum"]) == set(schemas["WorkloadRow"]["properties"])
