from __future__ import annotations

import re
from html import unescape

import pytest

from tests.web.browsing import chromium, either_way, findings, needs_chromium, open_page, session_of
from tests.web.test_browser import fill_in
from tests.web.test_escaping import PAYLOADS, harm_in
from tests.web.test_forms import filled, text
from workloads.models import Workload

pytestmark = pytest.mark.django_db
NEW = "/runs/new/"
AS_TYPED = {"HX-Request": "true", "HX-Target": "preview"}


def checked(client, **values) -> str:
    """The words of the card while somebody types."""
    html = client.post(NEW, filled(name="new", action="check", **values), headers=AS_TYPED).content.decode()
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def field(html: str, name: str) -> str:
    return re.search(rf'<input[^>]* name="{name}"[^>]*>', html)[0]


# --- what would happen


@pytest.mark.parametrize(("gpus", "verdict"), [("2", "wait"), ("8", "wait"), ("64", "never")])
def test_the_preview_says_what_rest_says(ana, queue, gpus, verdict):
    body = {
        "team": "vision",
        "name": "new",
        "image": "registry.example.org/train:1.4",
        "command": ["python", "train.py"],
        "flavor": "a100-40gb",
        "gpus_per_replica": int(gpus),
        "time_limit_seconds": 93600,
    }
    card = ana.post("/api/v1/training-runs/preview/", body, content_type="application/json").json()
    said = checked(ana, gpus=gpus, command="python\r\ntrain.py")
    assert card["verdict"] == verdict
    assert {"wait": "Will wait", "never": "Can never start"}[verdict] in said
    assert re.split(r"[;.] ", card["message"])[0] in said
    assert f"revision {card['revision']}" in said
    assert f"{card['quota']['before']['used']} → {card['quota']['after']['used']} of 16 guaranteed" in said
    for lever in card["levers"]:
        assert "flavor" not in lever["change"] or f"{lever['change']['flavor']} instead of a100-40gb" in said


def test_what_starts_now_says_so_without_levers(ana, world):
    said = checked(ana, gpus="2")
    assert "Starts now" in said
    assert "Start now" in said
    assert "What would make it start sooner" not in said


def test_a_run_without_gpus_has_no_quota_to_show(ana, world):
    said = checked(ana, flavor="", gpus="0")
    assert "Starts now This run asks for no GPU." in said
    assert "Quota in use" not in said


def test_what_is_wrong_leads_to_its_field(ana, world):
    html = ana.post(NEW, filled(action="check", image="UPPER"), headers=AS_TYPED).content.decode()
    assert "Not complete yet" in html
    assert "<html" not in html
    assert '<a href="#id_image">Image</a>' in html


def test_an_endpoint_is_previewed_by_the_same_card(ana, queue):
    sent = filled(name="digits", gpus="8", replicas="2", port="9000", readiness_path="/ok", action="check")
    html = text(ana.post("/endpoints/new/", sent, headers=AS_TYPED))
    assert "Will wait" in html
    assert "this endpoint needs 16" in html
    assert "At its time limit" not in html


# --- levers without a script


def test_a_lever_sent_with_the_form_sets_its_fields_and_makes_nothing(ana, queue):
    response = ana.post(NEW, filled(name="new", gpus="8", set="gpus=2&time_limit=20m"))
    html = text(response)
    assert response.status_code == 200
    assert 'value="2"' in field(html, "gpus")
    assert 'value="20m"' in field(html, "time_limit")
    assert 'value="new"' in field(html, "name")
    assert "Starts now" in html
    assert not Workload.objects.filter(name="new").exists()


@pytest.mark.parametrize(
    "sent", ["team=speech", "token=x", "action=submit", "priority=high", "=", "&&", "x" * 5000]
)
def test_a_lever_sets_only_what_levers_change(ana, world, sent):
    response = ana.post(NEW, filled(name="new", action="submit", set=sent))
    assert response.status_code == 200
    assert "Starts now" in text(response)
    assert not Workload.objects.exists()


def test_enter_submits_and_is_no_lever(ana, queue):
    html = text(ana.post(NEW, filled(name="new", gpus="2", action="check")))
    buttons = re.findall(r"<button type=\"submit\"[^>]*>", html[html.index('id="new-form"') :])
    assert 'name="action" value="submit"' in buttons[0]
    assert any('name="set"' in each for each in buttons)


# --- an address that fills the form in


def test_an_address_fills_in_the_form(ana, world):
    html = text(ana.get(f"{NEW}?gpus=4&flavor=a100-40gb&time_limit=90m&name=small&image=evil"))
    for name, value in (("gpus", "4"), ("time_limit", "90m"), ("name", "small")):
        assert f'value="{value}"' in field(html, name)
    assert re.search(r'value="a100-40gb" checked', html)
    assert "evil" not in field(html, "image")


def test_a_lever_of_a_waiting_run_brings_its_request_along_changed(ana, queue):
    html = text(ana.get(f"{NEW}?from={queue['bert-large'].public_id}&name=bert-large-2&gpus=2"))
    for name, value in (("gpus", "2"), ("time_limit", "1h"), ("name", "bert-large-2")):
        assert f'value="{value}"' in field(html, name)
    assert "which still waits" in html
    assert "checked" not in field(html, "replaces")
    assert f'href="/runs/{queue["bert-large"].public_id}/"' in html
    assert "still waits" not in text(ana.get(f"{NEW}?from={queue['resnet50'].public_id}"))


def test_a_lever_that_is_taken_leaves_one_of_the_two_in_the_queue(ana, queue):
    old = queue["bert-large"]
    html = text(ana.get(f"{NEW}?from={old.public_id}&replaces=1&name=bert-large-2&gpus=2"))
    assert f'value="{old.public_id}" checked' in field(html, "replaces")
    given = filled(name="bert-large-2", gpus="2", replaces=str(old.public_id))
    ahead = [
        re.search(r"Place in queue (\d+)", said)[1]
        for said in (checked(ana, gpus="8"), checked(ana, gpus="8", replaces=str(old.public_id)))
    ]
    assert int(ahead[0]) == int(ahead[1]) + 1
    # What is wrong with the form does not undo the choice.
    wrong = text(ana.post(NEW, {**given, "image": "UPPER"}))
    assert f'value="{old.public_id}" checked' in field(wrong, "replaces")
    unticked = {name: value for name, value in given.items() if name != "replaces"} | {"image": "UPPER"}
    wrong = text(ana.post(f"{NEW}?from={old.public_id}&replaces=1", unticked))
    assert "checked" not in field(wrong, "replaces")
    response = ana.post(NEW, given)
    assert response.status_code == 303
    assert Workload.objects.get(pk=old.pk).desired == "cancel"
    assert Workload.objects.get(name="bert-large-2").desired == "run"


@pytest.mark.parametrize("given", ["x", "01a1fe90-dc1d-7646-957a-b34ee71f66c2", "running"])
def test_what_waits_no_longer_is_not_replaced(ana, queue, given):
    replaces = str(queue["resnet50"].public_id) if given == "running" else given
    response = ana.post(NEW, filled(name="new", gpus="2", replaces=replaces))
    assert response.status_code == 422
    html = text(response)
    assert '<a href="#id_replaces">In place of</a>: No run of team vision with this id waits.' in html
    assert ("resnet50</a> does not wait any more: it is Running" in html) == (given == "running")
    assert not Workload.objects.filter(name="new").exists()


@pytest.mark.parametrize("given", ["0", "", "x"])
def test_only_a_lever_ticks_the_box(ana, queue, given):
    html = text(ana.get(f"{NEW}?from={queue['bert-large'].public_id}&replaces={given}"))
    assert "checked" not in field(html, "replaces")


def test_what_is_being_cancelled_is_not_offered_again(ana, queue):
    Workload.objects.filter(pk=queue["bert-large"].pk).update(desired="cancel")
    html = text(ana.get(f"{NEW}?from={queue['bert-large'].public_id}&replaces=1"))
    assert 'name="replaces"' not in html


def test_a_waiting_endpoint_fills_in_the_form_of_endpoints(ana, world):
    endpoint = world.endpoint("digits", max_replicas=3, min_replicas=3)
    html = text(ana.get(f"/endpoints/new/?from={endpoint.public_id}&name=digits-2&replicas=1"))
    assert 'value="digits-2"' in field(html, "name")
    assert 'value="1"' in field(html, "replicas")
    assert 'value="/healthz"' in field(html, "readiness_path")


@pytest.mark.parametrize("path", ["/runs/new/", "/endpoints/new/"])
def test_what_is_not_yours_fills_in_nothing(stranger, ana, queue, path):
    run = queue["bert-large"].public_id
    missing = "01a1fe90-dc1d-7646-957a-b34ee71f66c2"
    for given in (run, missing, "x"):
        assert stranger.get(f"{path}?from={given}").status_code == 404


def test_what_an_address_brings_is_text(ana, world):
    for payload in PAYLOADS:
        given = dict.fromkeys(("name", "flavor", "capacity", "gpus", "time_limit"), f"{payload}\x00")
        assert harm_in(ana.get(NEW, given)) == [], payload
        assert harm_in(ana.post(NEW, filled(set=f"name={payload}&gpus={payload}"))) == [], payload


# --- in a browser


def open_form(browser, live_server, session, **how):
    page, complaints = open_page(browser, live_server.url, session, **how)
    page.goto(NEW)
    fill_in(page)
    return page, complaints


@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
@either_way
def test_a_lever_of_the_form_is_one_click(live_server, world, queue, script):
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_form(browser, live_server, session, script=script)
        if not script:
            page.get_by_role("button", name="Check").click()
        page.get_by_text("Will wait").first.wait_for()
        assert not script or findings(page) == []
        page.locator("button[name=set]").filter(has_text="A time limit of").click()
        page.locator("#preview .verdict").get_by_text("Starts now").wait_for()
        assert re.fullmatch(r"\d+[mh]", page.get_by_label("Time limit").input_value())
        assert page.get_by_label("Command").input_value().split() == ["python", "train.py"]
        if script:
            assert page.evaluate("document.activeElement.id") == "preview-title"
            assert page.locator("#preview-said").inner_text().startswith("Starts now.")
        assert complaints == []
    assert not Workload.objects.filter(name="from-a-browser").exists()


TYPE = """(field, texts) => {
    for (const text of texts) {
        field.value = text;
        field.dispatchEvent(new Event("input", { bubbles: true }));
    }
}"""


@pytest.mark.matrix
@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
def test_typing_asks_once_it_rests_and_only_the_last_answer_counts(live_server, world, queue):
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_form(browser, live_server, session)
        page.get_by_text("Will wait").first.wait_for()
        page.wait_for_load_state("networkidle")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url) if request.method == "POST" else None)
        # In one turn of the page, as keys would come that no busy machine holds up.
        page.get_by_label("GPUs", exact=True).evaluate(TYPE, ["80", "800", "8000", "80000"])
        page.get_by_label("GPUs", exact=True).fill("64")
        page.get_by_text("Can never start").first.wait_for()
        page.wait_for_load_state("networkidle")
        assert len(asked) <= 2
        assert page.locator("#preview .verdict").inner_text() == "Can never start"
        assert page.evaluate("document.activeElement.id") == "id_gpus"
        assert complaints == []


@pytest.mark.matrix
@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
def test_the_buttons_stay_where_they_are_while_the_answer_changes(live_server, world, queue):
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_form(browser, live_server, session)
        places = []
        for gpus, words in (("2", "Will wait"), ("64", "Can never start"), ("8", "Will wait")):
            page.get_by_label("GPUs", exact=True).fill(gpus)
            page.locator("#preview .verdict").get_by_text(words).wait_for()
            places.append(page.get_by_role("button", name="Submit run").bounding_box())
        tops = [place["y"] for place in places]
        assert max(tops) - min(tops) < 1
        # On the first screen, with nothing scrolled.
        assert page.evaluate("scrollY") == 0
        assert tops[0] + places[0]["height"] <= page.viewport_size["height"]
        assert complaints == []
