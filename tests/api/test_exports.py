"""Lists of runs and endpoints as CSV, by Accept."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from console.api import exports
from tests.api.bench import ENDPOINTS, RUNS, problem, row
from tests.factories.submitted import make_pod, make_run, move
from tests.factories.teams import make_member, make_team
from tests.factories.workloads import make_workload
from tests.openapi import document
from workloads.models import Workload
from workloads.states import Phase

COLUMNS = [
    *("id", "team", "owner", "name", "phase", "reason", "message", "priority", "flavor", "capacity", "quantity"),
    *("labels", "attempts", "created_at", "admitted_at", "started_at", "finished_at", "cost_so_far_micro_usd"),
]  # fmt: skip


def answer(bench, url=RUNS, **query):
    return bench.client.get(url, query, headers={"Accept": "text/csv"})


def lines(response) -> list[dict[str, str]]:
    assert (response.status_code, response["Content-Type"]) == (200, "text/csv; charset=utf-8")
    return list(csv.DictReader(io.StringIO(b"".join(response.streaming_content).decode())))


def test_the_list_is_a_file_for_who_accepts_csv_and_json_for_all_others(bench):
    bench.run(name="one")
    response = answer(bench)
    assert response["Content-Disposition"] == 'attachment; filename="training-runs.csv"'
    assert list(lines(response)[0]) == COLUMNS
    for accept in ("application/json", "*/*", "application/json, text/csv;q=0.5"):
        listed = bench.client.get(RUNS, headers={"Accept": accept})
        assert listed.json()["results"][0]["name"] == "one"
        assert "Accept" in listed["Vary"]
    assert "Accept" in response["Vary"]


def test_a_line_says_what_rest_says(bench):
    made = bench.run(name="one", flavor="a100-40gb", labels={"project": "a", "keep": ""}, priority="low")
    move(row(made), Phase.RUNNING)
    make_pod(row(made), units=1, minutes=10)
    shown = bench.client.get(f"{RUNS}{made['id']}/").json()
    (line,) = lines(answer(bench))
    for name in (
        "id",
        "team",
        "owner",
        "name",
        "phase",
        "reason",
        "message",
        "priority",
        "flavor",
        "capacity",
    ):
        assert line[name] == shown[name]
    assert line["quantity"] == str(shown["quantity"]) == "1"
    assert line["labels"] == "keep,project=a"
    assert line["created_at"] == shown["created_at"]
    assert line["finished_at"] == ""
    assert line["cost_so_far_micro_usd"] == str(shown["cost"]["so_far"]["amount_micro_usd"])
    assert int(line["cost_so_far_micro_usd"]) > 0


def test_all_rows_are_there_in_the_order_of_the_list_and_those_of_others_are_not(bench):
    for number in range(70):
        make_workload(team=bench.team, owner=bench.user, name=f"run-{number}")
    theirs = make_member(team=make_team("speech"))
    make_run(theirs.team, theirs.user, name="stranger")
    names = [each["name"] for each in lines(answer(bench))]
    assert names == [f"run-{number}" for number in reversed(range(70))]
    assert names[::-1] == [each["name"] for each in lines(answer(bench, ordering="created_at"))]


def test_filters_are_those_of_the_list(bench):
    bench.run(name="sweep-1", labels={"project": "a"})
    bench.run(name="other", labels={"project": "a"})
    (line,) = lines(answer(bench, label="project=a", name_prefix="sweep-", phase="Queued", team="vision"))
    assert line["name"] == "sweep-1"
    problem(answer(bench, nonsense="1"), 400, "nonsense", code="unknown_parameter")
    problem(answer(bench, phase="nonsense"), 400, "phase")


@pytest.mark.parametrize("name", ["limit", "cursor", "expand"])
def test_what_belongs_to_a_page_is_refused_of_the_whole(bench, name):
    problem(answer(bench, **{name: "1"}), 400, name, code="unknown_parameter")


def test_endpoints_are_exported_the_same_way(bench):
    bench.endpoint(name="serves")
    bench.run(name="trains")
    response = answer(bench, ENDPOINTS)
    assert response["Content-Disposition"] == 'attachment; filename="endpoints.csv"'
    assert [each["name"] for each in lines(response)] == ["serves"]


def test_nothing_in_a_line_is_a_formula(bench):
    made = bench.run()
    for text in ("=1+1", "+1", "-1", "@x", "\t=1", "\r=1"):
        Workload.objects.filter(pk=row(made).pk).update(message=text)
        assert lines(answer(bench))[0]["message"] == f"'{text}"


def test_rows_are_read_in_batches_with_a_few_queries_each(bench, monkeypatch):
    monkeypatch.setattr(exports, "BATCH", 4)
    for number in range(9):
        make_workload(team=bench.team, owner=bench.user, name=f"run-{number}")
    with CaptureQueriesContext(connection) as first:
        parts = answer(bench).streaming_content
        assert isinstance(parts, Iterator)
        next(parts), next(parts)
    with CaptureQueriesContext(connection) as rest:
        assert len(list(parts)) == 8
    assert len(first.captured_queries) < 20
    assert len(rest.captured_queries) <= 2 * 3


def test_the_schema_says_which_columns_there_are():
    paths = document()["paths"]
    for url in (RUNS, ENDPOINTS):
        ok = paths[url]["get"]["responses"]["200"]
        assert set(ok["content"]) == {"application/json", "text/csv"}
        for column in COLUMNS:
            assert f"`{column}`" in ok["content"]["text/csv"]["schema"]["description"]
        others = paths[f"{url}{{public_id}}/"]["get"]["responses"]["200"]["content"]
        assert set(others) == {"application/json"}
