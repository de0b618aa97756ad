"""The palette finds pages, workloads and teams that its user may see, and nothing else."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from pages.destinations import DESTINATIONS, GO_KEYS, VERBS
from tests.web.conftest import signed_in

pytestmark = pytest.mark.django_db

PART = {"HX-Target": "palette-found"}


def links(client, search: str) -> dict[str, str]:
    """Titles with their addresses."""
    html = client.get("/go/", {"search": search}, headers=PART).content.decode()
    return {title: url for url, title in re.findall(r'<a href="([^"]+)">.*?palette-title">([^<]+)<', html)}


def test_every_destination_has_an_address_and_every_key_one_destination():
    assert {each.route: bool(reverse(each.route)) for each in DESTINATIONS} == {
        each.route: True for each in DESTINATIONS
    }
    assert len(GO_KEYS) == len([each for each in DESTINATIONS if each.key])


def test_nothing_typed_offers_pages_and_what_can_be_begun(ana, world):
    found = links(ana, "")
    assert found["Runs"] == "/runs/"
    assert found["New run"] == "/runs/new/"
    assert "Quotas" not in found


def test_a_page_is_found_by_what_people_call_it(ana, world):
    assert next(iter(links(ana, "bill"))) == "Costs"
    assert links(ana, "yaml") == {"Import a manifest": "/runs/import/"}


def test_runs_endpoints_and_teams_are_found_by_the_beginnings_of_their_words(ana, made):
    assert links(ana, "bert lar") == {"bert-large": made["bert-large"].page_url}
    assert links(ana, "digi") == {"digits": made["digits"].page_url}
    assert links(ana, "vis")["Vision"] == "/teams/vision/"


def test_a_verb_before_a_name_leads_to_the_button_that_asks(ana, viewer, made):
    run = made["bert-large"]
    assert links(ana, "cancel bert") == {"Cancel bert-large…": f"{run.page_url}#do-cancel"}
    assert f'id="do-{VERBS["cancel"].command}"' in ana.get(run.page_url).content.decode()
    assert links(viewer, "cancel bert") == {}


def test_a_stranger_finds_neither_workloads_nor_teams_of_others(stranger, made):
    for search in ("bert", "digi", "vision", str(made["bert-large"].public_id), "cancel bert"):
        html = stranger.get("/go/", {"search": search}).content.decode()
        assert "bert-large" not in html
        assert "/teams/vision/" not in html


def test_what_no_name_can_have_finds_nothing_and_says_so(ana, made):
    html = ana.get("/go/", {"search": "<b>%';"}).content.decode()
    assert "Nothing has “&lt;b&gt;%&#x27;;” in its name" in html


def test_a_viewer_is_offered_nothing_that_submits_and_a_manager_the_quotas(viewer, world):
    assert "New run" not in links(viewer, "new")
    world.viewer.is_quota_manager = True
    world.viewer.save()
    assert links(signed_in(world.viewer), "cohort") == {"Cohorts": "/quotas/cohorts/"}


def test_without_a_script_the_palette_is_a_page_with_a_form(ana, made):
    html = ana.get("/go/?search=bert").content.decode()
    assert "<h1>Go to</h1>" in html
    assert 'value="bert"' in html
    assert html.count(f'href="{made["bert-large"].page_url}"') == 1


def test_single_keys_are_on_until_their_owner_switches_them_off(ana, world):
    assert "modified-only" not in ana.get("/").content.decode()
    ana.post("/keys/", {"keys": "off", "next": "/profile/"})
    assert "<portal-keys modified-only>" in ana.get("/").content.decode()
    assert "are <strong>off</strong> in this browser" in ana.get("/profile/").content.decode()
    ana.post("/keys/", {"keys": "on", "next": "https://elsewhere.example/"})
    assert "modified-only" not in ana.get("/").content.decode()
    assert "are <strong>on</strong> in this browser" in ana.get("/profile/").content.decode()


@pytest.mark.parametrize(
    ("chosen", "browser", "shown"),
    [
        ("", "", "UTC"),
        ("", "Asia/Tokyo", "JST"),
        ("", "Asia%2FTokyo", "JST"),
        ("Europe/Zurich", "Asia/Tokyo", "CE"),
        ("Nowhere/Land", "", "UTC"),
    ],
)
def test_times_are_written_in_the_chosen_zone_else_in_that_of_the_browser(ana, made, chosen, browser, shown):
    ana.cookies["portal-browser-zone"] = browser
    ana.post("/zone/", {"zone": chosen})
    html = ana.get("/runs/").content.decode()
    assert set(re.findall(r'title="\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (UTC|JST|CE)', html)) == {shown}


def test_a_zone_changes_no_moment_of_rest(ana, made):
    before = ana.get(f"/api/v1/training-runs/{made['resnet50'].public_id}/").json()["created_at"]
    ana.post("/zone/", {"zone": "Asia/Tokyo"})
    assert ana.get(f"/api/v1/training-runs/{made['resnet50'].public_id}/").json()["created_at"] == before
