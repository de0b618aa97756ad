from __future__ import annotations

import re
from datetime import timedelta

import pytest

from foundation import clock
from tests.web.conftest import signed_in
from workloads.models import Workload

pytestmark = pytest.mark.django_db


def names(response) -> list[str]:
    return re.findall(r'class="name" id="row-[^>]*>([^<]+)<', response.content.decode())


def test_runs_are_listed_newest_first_with_their_facts(ana, made):
    response = ana.get("/runs/")
    assert names(response) == ["vit-small", "bert-large", "resnet50", "unet-3d", "sweep-07", "old-idea"]
    html = response.content.decode()
    for fact in ("Waiting for quota", "8 \u00d7 a100-40gb", "vision", "OOMKilled", "41m 00s"):
        assert fact in html


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("phase=Failed", ["unet-3d"]),
        ("phase=live", ["vit-small", "bert-large", "resnet50"]),
        ("search=re", ["resnet50"]),
        ("search=UNET 3&phase=Failed", ["unet-3d"]),
        ("search=et", []),
        ("search=&label=", ["vit-small", "bert-large", "resnet50", "unet-3d", "sweep-07", "old-idea"]),
        ("label=project=vision,step", ["resnet50"]),
        ("team=vision&phase=Queued", ["bert-large"]),
    ],
)
def test_the_filter_is_in_the_address(ana, made, query, expected):
    Workload.objects.filter(name="resnet50").update(labels={"project": "vision", "step": "1"})
    assert names(ana.get(f"/runs/?{query}")) == expected


@pytest.mark.parametrize("path", ["/runs/", "/endpoints/"])
@pytest.mark.parametrize(("name", "value"), [("search", "a%b"), ("label", "=x")])
def test_what_cannot_be_searched_for_is_refused_by_name(ana, made, path, name, value):
    response = ana.get(path, {name: value})
    assert response.status_code == 400
    assert f"{name}:" in response.content.decode()


def test_only_mine(made, world):
    assert names(signed_in(world.lead).get("/runs/?mine=1")) == ["unet-3d"]


def test_the_list_of_a_team_is_under_the_team(made, world):
    world.run("whisper", team="speech", owner=world.stranger)
    manager = signed_in(world.manager)
    assert names(manager.get("/teams/speech/runs/")) == ["whisper"]
    assert len(names(manager.get("/runs/"))) == 7


def test_nothing_at_all_and_nothing_that_fits_are_told_apart(ana, made, stranger):
    assert "No runs yet" in stranger.get("/runs/").content.decode()
    filtered = ana.get("/runs/?search=zzz").content.decode()
    assert "Nothing fits this filter" in filtered
    assert "No runs yet" not in filtered


def test_pages_go_forth_and_back_without_losing_the_filter(ana, world):
    for index in range(7):
        world.run(f"run-{index}", minutes_ago=60 - index)
    first = ana.get("/runs/?limit=3&phase=Queued")
    assert names(first) == ["run-6", "run-5", "run-4"]
    older = re.search(r'class="button" href="([^"]+)">Older', first.content.decode())[1].replace("&amp;", "&")
    second = ana.get(older)
    assert names(second) == ["run-3", "run-2", "run-1"]
    newer = re.search(r'href="([^"]+)"><svg[^>]*><use[^>]*></use></svg>Newer', second.content.decode())[1]
    newer = newer.replace("&amp;", "&")
    assert names(ana.get(newer)) == names(first)
    assert "phase=Queued" in newer


def test_the_fragment_is_the_list_alone(ana, made):
    html = ana.get("/runs/", headers={"HX-Request": "true", "HX-Target": "list"}).content.decode()
    assert "<html" not in html
    assert html.strip().startswith('<section class="card card-flush" id="list"')


def test_a_list_of_what_has_ended_does_not_poll(ana, made):
    assert "every 10s" in ana.get("/runs/").content.decode()
    assert "every 10s" not in ana.get("/runs/?phase=Succeeded").content.decode()


def test_how_fresh_the_facts_are_is_on_every_page(ana, made):
    from workloads.models import WatchCursor

    assert "Up to date" in ana.get("/runs/").content.decode()
    WatchCursor.objects.update(seen_at=clock.now() - timedelta(minutes=7))
    assert "Cluster seen" in ana.get("/runs/").content.decode()
    WatchCursor.objects.all().delete()
    assert "Cluster not observed yet" in ana.get("/runs/").content.decode()


def test_the_theme_is_kept_in_a_cookie_and_written_by_the_server(ana, world):
    assert 'data-theme="auto"' in ana.get("/runs/").content.decode()
    response = ana.post("/theme/", {"theme": "dark", "next": "/runs/"})
    assert response["Location"] == "/runs/"
    assert 'data-theme="dark"' in ana.get("/runs/").content.decode()
    assert ana.post("/theme/", {"theme": '"><b>', "next": "https://evil.example/"})["Location"] == "/"
    assert 'data-theme="auto"' in ana.get("/runs/").content.decode()


def test_an_endpoint_says_how_many_replicas_answer_of_how_many_may(ana, made, world):
    world.endpoint("sleepy", minutes_ago=3)
    html = ana.get("/endpoints/").content.decode()
    rows = {re.search(r'class="name"[^>]*>([^<]+)', row)[1]: row for row in html.split("<tr>")[2:]}
    assert "1 of 1" in rows["digits"]
    assert "0 of 1" in rows["sleepy"]
    assert "registry.example.org/serve:2.0" in rows["sleepy"]


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        ("/runs/", "phase=live", ["vit-small", "bert-large", "resnet50"]),
        ("/runs/", "search=re&label=project", ["resnet50"]),
        ("/teams/vision/runs/", "phase=Failed", ["unet-3d"]),
        ("/endpoints/", "search=dig", ["digits"]),
    ],
)
def test_a_list_is_exported_as_it_is_filtered(ana, made, path, query, expected):
    Workload.objects.filter(name="resnet50").update(labels={"project": "vision"})
    shown = ana.get(f"{path}?{query}&limit=1").content.decode()
    (link,) = re.findall(r'href="([^"]+)" download', shown)
    response = ana.get(link.replace("&amp;", "&"))
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    text = b"".join(response.streaming_content).decode()
    assert [line.split(",")[3] for line in text.splitlines()[1:]] == expected


def test_an_export_of_another_team_is_not_there(ana, world):
    assert ana.get("/runs/export.csv?team=speech").status_code == 404
