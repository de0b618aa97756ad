"""Revisions on their page: what each changed, the way back, and what a change that is typed would do."""

from __future__ import annotations

from datetime import timedelta

import pytest

from foundation import clock
from inference.services import update_endpoint
from inference.specs import EndpointSpec
from teams.actors import Actor
from tests.web.browsing import chromium, faults, meanwhile, needs_chromium, open_page, session_of
from tests.web.revised_endpoint import change_as, fill_the_quota, go_live, make_revised

pytestmark = pytest.mark.django_db


@pytest.fixture
def digits(made):
    return make_revised(made["digits"])


def url_of(endpoint, tail=""):
    return f"/endpoints/{endpoint.workload.public_id}/{tail}"


def typed(endpoint, **values):
    """What the form of a change sends."""
    fields = {
        "image": "registry.example.org/serve:4.0",
        "cpu": "1",
        "memory": "1Gi",
        "priority": "normal",
        "strategy": "surge",
        "runtime": "custom",
        "readiness_path": "/healthz",
        "port": "8080",
        "load_budget": "600",
        "request_timeout": "60",
        "made_from": str(endpoint.revision),
        **values,
    }
    spec = endpoint.current.spec
    return {**fields, "cpu": spec["cpu"], "memory": spec["memory"]}


def text(response):
    return " ".join(response.content.decode().split())


def test_each_revision_says_what_it_changed_and_how_it_went(ana, digits):
    page = text(ana.get(url_of(digits, "?tab=revisions")))
    for said in (
        "rolled back by itself to revision 1",
        "Its image could not be pulled.",
        "registry.example.org/serve:3.0",
        "2 steps",
        "last ready",
    ):
        assert said in page, said


def test_how_a_rollout_goes_is_asked_for_again_but_not_under_a_choice_that_is_open(ana, digits):
    asks = f'id="panel" hx-get="{url_of(digits, "?tab=revisions")}"'
    assert asks in text(ana.get(url_of(digits, "?tab=revisions")))
    update = {**typed(digits), "strategy": "surge"}
    assert ana.post(url_of(digits, "update/"), update).status_code == 303
    digits.refresh_from_db()
    go_live(digits, 4)
    fill_the_quota(digits)
    refused = text(ana.post(url_of(digits, "rollback/"), {"revision": "1"}))
    assert 'value="wait"' in refused
    assert asks not in refused


def test_a_viewer_sees_no_button(viewer, digits):
    assert "Roll back to this" not in text(viewer.get(url_of(digits, "?tab=revisions")))


def test_people_see_what_a_change_would_do_and_nothing_is_changed(ana, digits):
    response = ana.post(url_of(digits, "update/"), {**typed(digits), "preview": "1"})
    assert response.status_code == 200, text(response)
    page = text(response)
    assert "What this changes" in page
    assert "registry.example.org/serve:4.0" in page
    assert digits.revisions.count() == 3


def test_a_change_without_room_is_asked_about_and_one_button_chooses(ana, digits):
    fill_the_quota(digits)
    response = ana.post(url_of(digits, "update/"), typed(digits))
    assert response.status_code == 409
    page = text(response)
    for said in ("there is no room for the rollout", 'value="replace-80"', 'value="wait"', "Ask for quota"):
        assert said in page, said
    assert digits.revisions.count() == 3

    response = ana.post(url_of(digits, "update/"), {**typed(digits), "choose": "replace-80"})
    assert response.status_code == 303, text(response)
    newest = digits.revisions.first()
    assert (newest.strategy, newest.parsed.max_downtime_seconds) == ("replace", 80)


def test_people_go_back_by_a_button_and_choose_where_there_is_no_room(ana, digits):
    update = {**typed(digits), "strategy": "surge"}
    assert ana.post(url_of(digits, "update/"), update).status_code == 303
    digits.refresh_from_db()
    go_live(digits, 4)
    fill_the_quota(digits)
    response = ana.post(url_of(digits, "rollback/"), {"revision": "1"})
    assert response.status_code == 409
    assert 'value="wait"' in text(response)
    response = ana.post(url_of(digits, "rollback/"), {"revision": "1", "choose": "wait"})
    assert response.status_code == 303
    newest = digits.revisions.first()
    assert (newest.number, newest.returns_to, newest.parsed.when_blocked) == (5, 1, "wait")


def test_a_change_keeps_what_somebody_else_has_changed_since_the_form_was_filled(ana, digits, world):
    shown = ana.get(url_of(digits, "?tab=update")).context
    assert shown["made_from"] == 3
    sent = {key: value for key, value in shown["form"].initial.items() if value} | {"made_from": "3"}
    other = {**digits.current.spec, "args": ["--from-lead"], "image": "registry.example.org/serve:4.0"}
    change_as(world.lead, digits, other)
    sent |= {"image": "registry.example.org/serve:5.0", "request_timeout": "30"}
    for button in ({}, {"preview": "1"}):
        response = ana.post(url_of(digits, "update/"), sent | button)
        assert response.status_code == 409, text(response)
        assert digits.revisions.count() == 4
    page = text(response)
    for said in (
        "it has changed since you began from revision 3",
        f"Revision 4 by {world.lead.username}",
        "serve:4.0",
        "You have both changed Image:",
        'name="made_from" value="4"',
        'value="registry.example.org/serve:5.0"',
        'value="30"',
        "--from-lead</textarea>",
    ):
        assert said in page, said
    again = {name: value for name, value in response.context["form"].data.items() if name != "preview"}
    assert ana.post(url_of(digits, "update/"), again | {"made_from": "4"}).status_code == 303
    digits.refresh_from_db()
    spec = digits.parsed
    assert (spec.image, list(spec.args), spec.request_timeout_seconds) == (
        "registry.example.org/serve:5.0",
        ["--from-lead"],
        30,
    )


def test_a_form_of_a_version_that_came_back_unchanged_is_taken(ana, digits):
    sent = typed(digits, made_from="1")
    assert ana.post(url_of(digits, "update/"), sent).status_code == 303
    assert digits.revisions.first().parsed.image == "registry.example.org/serve:4.0"


def test_a_form_that_does_not_say_what_it_changes_changes_nothing(ana, digits):
    for number in ("", "99", "x"):
        response = ana.post(url_of(digits, "update/"), typed(digits, made_from=number))
        assert response.status_code == 422
        assert "serve:4.0" in text(response)
    assert digits.revisions.count() == 3


def test_going_back_to_nothing_is_answered_in_words(ana, digits):
    response = ana.post(url_of(digits, "rollback/"), {"revision": "99"}, follow=True)
    assert "There is no revision 99." in text(response)


@pytest.mark.matrix
@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
def test_the_guard_is_accessible_and_fits_the_screen(live_server, world, made, digits):
    fill_the_quota(digits)
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto(url_of(digits, "?tab=revisions"))
        assert faults(page) == []
        page.goto(url_of(digits, "update/"))
        page.locator("#section-container > summary").click()
        page.fill("[name=image]", "registry.example.org/serve:4.0")
        page.get_by_role("button", name="Show what it changes in Container").click()
        page.wait_for_selector("#guard")
        assert faults(page) == []
        page.get_by_role("button", name="Wait for room").click()
        page.wait_for_url("**tab=revisions")
    assert [each for each in complaints if "409" not in each] == []
    assert digits.revisions.first().parsed.when_blocked == "wait"


@pytest.mark.matrix
@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
def test_what_changed_meanwhile_is_accessible_and_both_are_sent(live_server, world, made, digits):
    session, url = session_of(world.ana), url_of(digits, "?tab=update")
    other = {**digits.current.spec, "args": ["--from-lead"]}
    with chromium() as browser:
        page, _ = open_page(browser, live_server.url, session)
        page.goto(url)
        meanwhile(lambda: change_as(world.lead, digits, other))
        page.locator("#section-container > summary").click()
        page.fill("[name=image]", "registry.example.org/serve:5.0")
        page.get_by_role("button", name="Show what it changes in Container").click()
        page.wait_for_selector("#moved")
        assert faults(page) == []
        page.get_by_role("button", name="Show what it changes in Container").click()
        page.get_by_role("button", name="Roll out a new revision").click()
        page.wait_for_url("**tab=revisions")
    digits.refresh_from_db()
    spec = digits.parsed
    assert (spec.image, list(spec.args)) == ("registry.example.org/serve:5.0", ["--from-lead"])


@pytest.mark.parametrize("held", [False, True], ids=["told", "held-back"])
def test_the_manifests_on_the_page_are_those_of_the_adapter(ana, digits, held):
    spec = {
        **digits.current.spec,
        "image": "registry.example.org/serve:4.0",
        "min_replicas": 2,
        "max_replicas": 2,
    }
    actor = Actor.of_user(digits.workload.owner)
    update_endpoint(endpoint=digits, spec=EndpointSpec.from_json(spec), actor=actor, now=clock.now())
    until = clock.now() + timedelta(minutes=5) if held else None
    digits.revisions.filter(number=digits.revision).update(held_until=until)
    shown = ana.get(f"/endpoints/{digits.workload.public_id}/?tab=manifests").context["manifests"]
    told = ana.get(f"/api/v1/endpoints/{digits.workload.public_id}/manifests/").json()["manifests"]
    assert [each["value"] for each in shown] == told
    pod = told[0]["spec"]["template"]["spec"]["containers"][0]
    assert pod["image"] == f"registry.example.org/serve:{'2' if held else '4'}.0"
