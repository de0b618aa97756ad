"""Lists: each filter reads its page and not the past, rows are short, and a search finds by words and labels."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from foundation import clock
from tests.api.bench import ENDPOINTS, RUNS, Bench, problem
from tests.effort import spread
from tests.factories.catalogue import make_flavor
from tests.factories.submitted import make_attempt, make_endpoint, make_pod, make_run
from tests.factories.teams import api_client, make_team, make_user
from tests.factories.workloads import make_workload
from tests.plans import rows_read
from workloads.models import Workload
from workloads.states import Phase

SOURCE = {"files": {"train.py": "print('epoch')\n" * 400}}
LIST_BYTES_MAX = 60_000
QUERIES_MAX = 6
ROWS_MAX = 60
"""Read for a page of ten, with the rows that its own rows refer to."""


def names(response) -> list[str]:
    assert response.status_code == 200, response.content
    return [row["name"] for row in response.json()["results"]]


def grow(model: Workload, count: int, **values) -> list[Workload]:
    """That many runs which ended, older the higher their number."""
    now = clock.now()
    fields = {
        field.attname: getattr(model, field.attname)
        for field in Workload._meta.concrete_fields
        if field.attname not in {"id", "public_id", "words"}
    }
    made = []
    for number in range(count):
        at = now - timedelta(minutes=10 + number)
        own = {"name": f"past-{number}", "created_at": at, "finished_at": at, "phase": Phase.SUCCEEDED.value}
        made.append(
            Workload(**{**fields, **own, **{k: v(number) if callable(v) else v for k, v in values.items()}})
        )
    return Workload.objects.bulk_create(made)


def make_past(bench: Bench) -> None:
    """Fifteen hundred runs, and before them all a few that are unlike them."""
    model = make_workload(team=bench.team, owner=bench.user, flavor=bench.flavor)
    Workload.objects.filter(pk=model.pk).update(created_at=clock.now() - timedelta(days=9))
    grow(model, 1500, labels=lambda number: {"project": f"p{number}"})
    rare = Workload.objects.order_by("created_at").first()
    Workload.objects.filter(pk=rare.pk).update(
        name="rare-bert-2", owner=make_user("olga"), flavor=make_flavor("t4"), reason="OOMKilled", priority="high",
        capacity_type="spot", phase="Failed", finished_at=rare.created_at, labels={"project": "rare", "step": "1"},
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


@pytest.fixture(scope="module")
def standing_past(stands, standing_bench):
    return stands(make_past, standing_bench)


@pytest.fixture
def past(bench, own, standing_past) -> Bench:
    own(standing_past)
    return bench


@pytest.mark.parametrize(
    "query",
    spread(
        [
            {"phase": "Failed"},
            {"name": "rare-bert-2"},
            {"owner": "olga"},
            {"flavor": "t4"},
            {"reason": "OOMKilled"},
            {"priority": "high"},
            {"capacity": "spot"},
            {"search": "rare be"},
            {"name_prefix": "rare-b"},
            {"label": "project=rare"},
            {"label": "step"},
        ],
        usual=4,
    ),
    ids="&".join,
)
def test_a_filter_reads_what_it_shows_and_not_the_past(past, query):
    assert names(past.client.get(RUNS, query)) == ["rare-bert-2"]
    assert rows_read(lambda: past.client.get(RUNS, {**query, "limit": 10})) <= ROWS_MAX


@pytest.mark.parametrize(
    "query",
    spread(
        [{}, {"team": "vision"}, {"phase": "Succeeded"}, {"ordering": "-finished_at"}, {"ordering": "name"}],
        usual=1,
    ),
)
def test_a_page_of_many_reads_a_page(past, query):
    admin = make_user("root", platform_admin=True)
    for client in (past.client, api_client(admin)):
        assert len(names(client.get(RUNS, {**query, "limit": 10}))) == 10
        assert rows_read(lambda client=client: client.get(RUNS, {**query, "limit": 10})) <= 2 * ROWS_MAX


def test_a_search_finds_beginnings_of_words_and_whole_ids(bench):
    made = {name: bench.run(name=name) for name in ("resnet50-lr-3", "unet-lr-30", "lr--9")}
    bench.endpoint(name="lr-served")
    for search, expected in {
        "lr": ["lr--9", "unet-lr-30", "resnet50-lr-3"],
        "LR 3": ["unet-lr-30", "resnet50-lr-3"],
        "3 lr": ["unet-lr-30", "resnet50-lr-3"],
        "res-lr": ["resnet50-lr-3"],
        "net": [],
        made["unet-lr-30"]["id"]: ["unet-lr-30"],
    }.items():
        assert names(bench.client.get(RUNS, {"search": search})) == expected, search
    assert names(bench.client.get(ENDPOINTS, {"search": "serv"})) == ["lr-served"]
    stranger = api_client(make_user("eve"))
    assert names(stranger.get(RUNS, {"search": "lr"})) == []


def test_a_prefix_is_that_of_the_whole_name(bench):
    for name in ("sweep-7-1", "sweep-71-1", "my-sweep-7-2", "sweep-7"):
        bench.run(name=name)
    for prefix, expected in {
        "sweep-7-": ["sweep-7-1"],
        "sweep-7": ["sweep-7", "sweep-71-1", "sweep-7-1"],
        "s": ["sweep-7", "sweep-71-1", "sweep-7-1"],
        "weep": [],
    }.items():
        assert names(bench.client.get(RUNS, {"name_prefix": prefix})) == expected, prefix
    bench.run(name="a-b-c-d-e-f-g-h-i-j")
    assert names(bench.client.get(RUNS, {"name_prefix": "a-b-c-d-e-f-g-h-i-"})) == ["a-b-c-d-e-f-g-h-i-j"]
    for wrong in ("", "7", "S", "a b", "a%", "a" * 41):
        problem(bench.client.get(RUNS, {"name_prefix": wrong}), 400, "name_prefix")
    assert names(api_client(make_user("eve")).get(RUNS, {"name_prefix": "sweep"})) == []


def test_runs_are_found_by_when_they_were_submitted(bench):
    made = [bench.run(name=name) for name in ("first", "second", "third")]
    second = made[1]["created_at"]
    assert names(bench.client.get(RUNS, {"from": second})) == ["third", "second"]
    assert names(bench.client.get(RUNS, {"to": second})) == ["first"]
    assert names(bench.client.get(RUNS, {"from": second, "to": made[2]["created_at"]})) == ["second"]
    problem(bench.client.get(RUNS, {"from": "yesterday"}), 400, "from")


def test_labels_that_are_asked_for_have_all_to_be_there(bench):
    bench.run(name="one", labels={"project": "x", "step": "1"})
    bench.run(name="two", labels={"project": "x", "step": "2"})
    bench.run(name="none")
    for query, expected in (
        ("label=project=x", ["two", "one"]),
        ("label=project", ["two", "one"]),
        ("label=project=x,step=1", ["one"]),
        ("label=project=x&label=step=2", ["two"]),
        ("label=project=", []),
        ("label=project=X", []),
    ):
        assert names(bench.client.get(f"{RUNS}?{query}")) == expected, query


@pytest.mark.parametrize("url", [RUNS, ENDPOINTS])
def test_what_cannot_be_searched_for_is_refused_by_name(bench, url):
    for name, value in (
        ("search", ""),
        ("search", "%"),
        ("search", "a_b"),
        ("search", "a' | 'b"),
        ("search", "é"),
        ("search", "a" * 101),
        ("search", " ".join("abcdefghi")),
        ("label", ""),
        ("label", "=x"),
        ("label", "k" * 401),
        ("expand", "everything"),
        ("expand", ""),
    ):
        problem(bench.client.get(url, {name: value}), 400, name)


def in_few_queries(bench, url, query):
    with CaptureQueriesContext(connection) as queries:
        response = bench.client.get(url, query)
    # Two more are the token's: who it is, and that it was used.
    own = [each["sql"] for each in queries if "teams_apitoken" not in each["sql"]]
    assert len(own) <= QUERIES_MAX, own
    return response


@pytest.mark.parametrize(
    ("url", "make"),
    spread([(RUNS, make_run), (ENDPOINTS, make_endpoint)], usual=1),
    ids=["runs", "endpoints"],
)
def test_fifty_with_source_files_are_a_short_answer_in_six_queries(bench, url, make):
    for number in range(50):
        made = make(bench.team, bench.user, name=f"it-{number}", source=SOURCE, labels={"project": "x"})
        if number % 10 == 0:
            make_attempt(made)
            make_pod(made, minutes=5)
    Workload.objects.update(message="Team vision uses 30 of 32 a100-40gb and may borrow 0. " * 20)
    response = in_few_queries(bench, url, {"limit": 50})
    rows = response.json()["results"]
    assert len(rows) == 50
    assert len(response.content) <= LIST_BYTES_MAX
    for row in rows:
        assert row["spec"]["image"]
        assert "source" not in row["spec"]
        assert len(row["message"]) <= 160
        assert list(row["links"]) == ["self"]
    whole = in_few_queries(bench, url, {"expand": "spec,attempts,links"}).json()["results"]
    one = bench.client.get(rows[0]["links"]["self"]).json()
    assert {**one, "message": whole[0]["message"]} == whole[0]
    assert whole[0]["spec"]["source"]["files"] == SOURCE["files"]


def make_few_of_each(bench: Bench) -> dict[str, str]:
    run, endpoint = bench.run(), bench.endpoint()
    for _ in range(3):
        bench.run()
        bench.endpoint()
        make_team()
    return {"run": f"{RUNS}{run['id']}/", "endpoint": f"{ENDPOINTS}{endpoint['id']}/"}


@pytest.fixture(scope="module")
def standing_few(stands, standing_bench):
    return stands(make_few_of_each, standing_bench)


@pytest.fixture
def few(bench, own, standing_few) -> dict[str, str]:
    return own(standing_few)


LISTS = (
    *(RUNS, ENDPOINTS, "/api/v1/teams/", "/api/v1/teams/vision/members/", "/api/v1/teams/vision/quotas/"),
    *(
        "/api/v1/teams/vision/secrets/",
        "/api/v1/flavors/",
        "/api/v1/templates/",
        "/api/v1/cohorts/",
        "/api/v1/prices/",
    ),
    *(
        "/api/v1/teams/vision/usage/",
        "/api/v1/quota-changes/",
        "/api/v1/quota-requests/",
        "/api/v1/cluster/nodes/",
    ),
    *("/api/v1/ledger/", "/api/v1/tokens/", "/api/v1/audit/"),
    *("{run}events/", "{run}pods/", "{run}decisions/", "{run}checkpoints/"),
    *("{endpoint}events/", "{endpoint}pods/", "{endpoint}decisions/", "{endpoint}revisions/"),
)


@pytest.mark.parametrize("path", spread(LISTS, usual=6))
def test_a_list_asks_six_queries_at_most(bench, few, path, django_assert_max_num_queries):
    url = path.format(**few)
    assert bench.client.get(url).status_code == 200
    for query in ({}, {"limit": 2}):
        with django_assert_max_num_queries(QUERIES_MAX):
            answer = bench.client.get(url, query).json()
    if answer.get("next"):
        with django_assert_max_num_queries(QUERIES_MAX):
            bench.client.get(answer["next"])
