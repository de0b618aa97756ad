"""Settings of an endpoint: five parts, each saved alone, and never before its differences were seen."""

from __future__ import annotations

import re

import pytest

from inference.specs import EndpointSpec
from tests.web.browsing import chromium, either_way, faults, needs_chromium, open_page, session_of
from tests.web.revised_endpoint import change_as, fill_the_quota, make_revised
from tests.web.test_revision_pages import text, url_of
from tests.web.test_sections import opened, said

pytestmark = pytest.mark.django_db


@pytest.fixture
def digits(made):
    return make_revised(made["digits"])


def reviewed_of(page: str) -> str:
    return re.search(r'name="reviewed" value="([0-9a-f]*)"', page)[1]


def sent_of(client, endpoint, **values) -> dict:
    """What a browser sends of the form as it stands, but for what is typed."""
    form = client.get(url_of(endpoint, "?tab=update")).context["form"]
    stands = {name: value for name, value in form.initial.items() if value and name != "sources"}
    return {**stands, "made_from": str(endpoint.revision), "reviewed": "", **values}


def reviewed(client, endpoint, part: str, **values) -> tuple[dict, str]:
    """What was typed with what the page brings to save it, and the page."""
    sent = sent_of(client, endpoint, **values)
    page = text(client.post(url_of(endpoint, "update/"), {**sent, "preview": part}))
    return {**sent, "reviewed": reviewed_of(page), "section": part}, page


def test_there_are_five_parts_that_say_what_stands_and_are_folded(ana, digits):
    page = text(ana.get(url_of(digits, "?tab=update")))
    assert set(said(page)) == {"container", "serving", "size", "scaling", "rollout"}
    assert said(page)["container"] == "registry.example.org/serve:2.0"
    assert said(page)["scaling"] == "1 replica"
    assert opened(page) == set()
    assert "Roll out a new revision" not in page
    assert opened(text(ana.get(url_of(digits, "?tab=update&section=scaling")))) == {"scaling"}


def test_a_part_is_saved_alone_as_it_was_shown(ana, digits):
    sent, page = reviewed(
        ana, digits, "container", image="registry.example.org/serve:4.0", request_timeout="17"
    )
    assert opened(page) == {"container"}
    assert "serve:4.0" in page
    assert "request_timeout_seconds" not in page.split('id="effects"')[1].split("</table>")[0]
    assert digits.revisions.count() == 3
    response = ana.post(url_of(digits, "update/"), sent)
    digits.refresh_from_db()
    assert (digits.revision, digits.parsed.image) == (4, "registry.example.org/serve:4.0")
    assert digits.parsed.request_timeout_seconds == 60, "of another part"
    page = text(response)
    assert "What you typed in Model and serving is not saved yet: it stands here." in page
    assert 'value="17"' in page
    assert 'name="made_from" value="4"' in page


def test_a_part_that_is_saved_with_nothing_else_typed_leads_to_the_revisions(ana, digits):
    sent, _ = reviewed(ana, digits, "container", image="registry.example.org/serve:4.0")
    response = ana.post(url_of(digits, "update/"), sent)
    assert (response.status_code, response["Location"]) == (303, url_of(digits, "?tab=revisions"))


def test_what_was_typed_after_it_was_shown_is_shown_first(ana, digits):
    sent, _ = reviewed(ana, digits, "container", image="registry.example.org/serve:4.0")
    for changed in ({"image": "registry.example.org/serve:5.0"}, {"reviewed": ""}):
        response = ana.post(url_of(digits, "update/"), sent | changed)
        assert response.status_code == 200
        assert "What this changes" in text(response)
    assert digits.revisions.count() == 3


def test_what_another_person_changes_after_it_was_shown_is_told(ana, digits, world):
    sent, _ = reviewed(ana, digits, "container", image="registry.example.org/serve:4.0")
    change_as(world.lead, digits, {**digits.current.spec, "args": ["--from-lead"]})
    response = ana.post(url_of(digits, "update/"), sent)
    assert response.status_code == 409
    page = text(response)
    assert "it has changed since you began from revision 3" in page
    assert 'value="registry.example.org/serve:4.0"' in page
    assert "--from-lead</textarea>" in page
    assert opened(page) == {"container"}


def test_a_part_that_is_wrong_is_open_and_what_others_hold_is_kept_and_not_judged(ana, digits):
    sent = sent_of(ana, digits, image="UPPER", cpu="lots", labels="a=b")
    response = ana.post(url_of(digits, "update/"), {**sent, "preview": "container"})
    assert response.status_code == 422
    page = text(response)
    assert opened(page) == {"container"}
    assert 'id="id_image_error"' in page
    assert 'id="id_cpu_error"' not in page
    for kept in ('value="UPPER"', 'value="lots"', "a=b</textarea>"):
        assert kept in page


def test_a_part_without_room_offers_its_ways_and_they_save_that_part(ana, digits):
    fill_the_quota(digits)
    sent, page = reviewed(
        ana, digits, "container", image="registry.example.org/serve:4.0", request_timeout="17"
    )
    assert 'formaction="/endpoints/' in page
    assert "update/?section=container" in page
    sent.pop("section")
    response = ana.post(url_of(digits, "update/?section=container"), {**sent, "choose": "wait"})
    newest = digits.revisions.first()
    assert (response.status_code, newest.number, newest.parsed.when_blocked) == (200, 4, "wait")
    assert newest.parsed.request_timeout_seconds == 60


def test_source_files_of_another_part_are_left_as_they_are(ana, digits, world):
    body = {**digits.current.spec, "source": {"files": {"a.py": "A = 1\n"}, "path": "/workspace"}}
    change_as(world.ana, digits, EndpointSpec.from_json(body).to_json())
    digits.refresh_from_db()
    sent, page = reviewed(ana, digits, "size", labels="a=b", cpu="2")
    assert "a.py" not in page.split('id="effects"')[1].split("</table>")[0]
    ana.post(url_of(digits, "update/"), sent)
    digits.refresh_from_db()
    assert digits.current.spec["source"]["files"] == {"a.py": "A = 1\n"}
    assert digits.parsed.cpu.limit == "2"


def test_another_runtime_brings_its_inputs_without_judging_anything(ana, digits):
    sent = sent_of(ana, digits, runtime="vllm", image="UPPER")
    headers = {"HX-Request": "true", "HX-Target": "serving"}
    page = text(ana.post(url_of(digits, "update/"), sent, headers=headers))
    assert 'name="opt_max_model_len"' in page
    assert "field-error" not in page
    assert digits.revisions.count() == 3


def test_who_may_only_look_saves_nothing(viewer, ana, digits):
    sent = sent_of(ana, digits, image="registry.example.org/serve:4.0")
    assert viewer.post(url_of(digits, "update/"), {**sent, "section": "container"}).status_code == 403
    assert viewer.post(url_of(digits, "update/"), sent, headers={"HX-Target": "serving"}).status_code == 403


@pytest.mark.matrix
@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
@either_way
def test_settings_are_saved_part_by_part_in_a_browser(live_server, world, made, digits, script):
    session, address = session_of(world.ana), url_of(digits, "?tab=update")
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session, script=script)
        page.goto(address)
        assert not script or faults(page) == []
        page.locator("#section-serving > summary").click()
        page.get_by_label("Request timeout").fill("17")
        page.get_by_label("Request timeout").press("Enter")
        page.get_by_text("What this changes").wait_for()
        page.get_by_role("button", name="Roll out a new revision").click()
        page.wait_for_url("**tab=revisions")
        assert complaints == []
    digits.refresh_from_db()
    assert digits.parsed.request_timeout_seconds == 17
