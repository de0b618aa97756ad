"""Buttons above the list of runs for all that fit its filters: a question with how many, then the command."""

from __future__ import annotations

import re

import pytest

from console import bulk
from tests.factories.submitted import move
from tests.factories.teams import make_member
from tests.web.conftest import signed_in
from workloads.models import Workload
from workloads.states import Desired, Phase

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true", "HX-Target": "bulk"}


@pytest.fixture
def sweep(world):
    """Six runs, one of which has ended, and another run."""
    runs = [world.run(f"sweep-{number}", minutes_ago=60 - number) for number in range(6)]
    move(runs[0], Phase.SUCCEEDED)
    return [*runs, world.run("other")]


def links(client, path: str) -> dict[str, str]:
    html = client.get(path).content.decode()
    found = re.findall(r'<a class="button button-small" href="([^"]+)"[^>]*>([^<]+)<', html)
    return {label: url.replace("&amp;", "&") for url, label in found}


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def sent(client, url, **values):
    """The dialog's own form, filled in."""
    html = client.get(url).content.decode()
    form = re.search(r'<form class="dialog".*?</form>', html, re.DOTALL)[0]
    action = re.search(r'action="([^"]+)"', form)[1].replace("&amp;", "&")
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))
    return client.post(action, {**hidden, **values})


def test_buttons_are_there_where_a_filter_is_set(ana, viewer, sweep):
    assert set(links(ana, "/runs/")) == {"Export as CSV"}
    asked = links(ana, "/runs/?search=sweep&limit=2")
    assert set(asked) == {"Cancel these…", "Label these…", "Export as CSV"}
    assert asked["Cancel these…"] == "/runs/bulk/?search=sweep&action=cancel"
    assert links(ana, "/teams/vision/runs/")["Cancel these…"] == "/runs/bulk/?action=cancel&team=vision"
    assert set(links(viewer, "/runs/?search=sweep")) == {"Export as CSV"}


def test_the_question_says_how_many_and_names_the_newest(ana, sweep):
    url = links(ana, "/runs/?search=sweep")["Cancel these…"]
    for headers in ({}, HTMX):
        html = ana.get(url, headers=headers).content.decode()
        said = words(html)
        assert "Cancel 5 runs?" in said
        assert "1 more fits the filter and has ended" in said
        assert re.findall(r"<li>(sweep-\d)", html) == ["sweep-5", "sweep-4", "sweep-3", "sweep-2", "sweep-1"]
        assert ("<html" in html) is (headers == {})
    assert not Workload.objects.filter(desired=Desired.CANCEL).exists()


def test_they_are_cancelled_and_the_list_says_so_with_its_filter(ana, sweep):
    response = sent(ana, "/runs/bulk/?search=sweep&action=cancel")
    assert (response.status_code, response["Location"]) == (303, "/runs/?search=sweep")
    said = words(ana.get(response["Location"]).content.decode())
    assert "5 runs are being cancelled. 1 other stays as it is." in said
    asked = Workload.objects.filter(desired=Desired.CANCEL).order_by("name")
    assert [each.name for each in asked] == [f"sweep-{number}" for number in range(1, 6)]


def test_what_has_come_since_is_asked_about_again(ana, world, sweep):
    html = ana.get("/runs/bulk/?search=sweep&action=cancel").content.decode()
    expected = re.search(r'name="expected" value="(\d+)"', html)[1]
    world.run("sweep-9")
    response = ana.post("/runs/bulk/?search=sweep&action=cancel", {"expected": expected})
    assert response.status_code == 409
    said = words(response.content.decode())
    assert "7 fit the filter now, not 6" in said
    assert "Cancel 6 runs?" in said
    assert not Workload.objects.filter(desired=Desired.CANCEL).exists()


def test_labels_are_set_and_removed(ana, sweep):
    Workload.objects.filter(name__startswith="sweep").update(labels={"old": "1"})
    response = sent(
        ana, "/runs/bulk/?search=sweep&action=label", labels="keep=yes\n paper \n", remove="old, older"
    )
    assert response.status_code == 303
    assert {str(each.labels) for each in Workload.objects.filter(name__startswith="sweep")} == {
        str({"keep": "yes", "paper": ""})
    }
    assert Workload.objects.get(name="other").labels == {}
    assert "6 runs are labelled." in words(ana.get(response["Location"]).content.decode())


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "Say which labels"),
        ({"labels": "a b=1"}, "a b"),
        ({"labels": "keep=x\n=yes"}, "The line =yes has no name"),
        ({"labels": "a=1\na=2"}, "The line a=2 sets a a second time"),
        ({"labels": "a=1", "remove": "a"}, "a is to be set and to be removed"),
    ],
)
def test_labels_that_will_not_do_are_said_where_they_were_typed(ana, sweep, values, says):
    response = sent(ana, "/runs/bulk/?search=sweep&action=label", **values)
    assert response.status_code == 422
    html = response.content.decode()
    assert says in words(html)
    assert values.get("labels", "") in html
    assert not Workload.objects.exclude(labels={}).exists()


def test_without_a_filter_nothing_is_asked(ana, sweep):
    for query in (
        "action=cancel",
        "action=cancel&phase=&search=",
        "search=sweep",
        "search=sweep&action=delete",
    ):
        assert ana.get(f"/runs/bulk/?{query}").status_code == 400
        assert ana.post(f"/runs/bulk/?{query}").status_code == 400
    assert not Workload.objects.filter(desired=Desired.CANCEL).exists()


def test_a_viewer_and_a_stranger_cancel_nothing(world, viewer, sweep):
    stranger = signed_in(make_member().user)
    assert viewer.post("/runs/bulk/?search=sweep&action=cancel").status_code == 403
    assert stranger.post("/runs/bulk/?team=vision&action=cancel").status_code == 404
    assert stranger.post("/runs/bulk/?search=sweep&action=cancel").status_code == 303
    assert not Workload.objects.filter(desired=Desired.CANCEL).exists()


def test_too_many_are_not_offered(ana, sweep, monkeypatch):
    monkeypatch.setattr(bulk, "ROWS_MAX", 2)
    html = ana.get("/runs/bulk/?search=sweep&action=cancel").content.decode()
    assert "These are more than 2, the most that are changed at once." in html
    assert "Cancel 5 runs</button>" not in html
    assert ana.post("/runs/bulk/?search=sweep&action=cancel").status_code == 422
    assert not Workload.objects.filter(desired=Desired.CANCEL).exists()
