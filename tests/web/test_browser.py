"""What people do on the pages, in Chromium, with and without JavaScript."""

from __future__ import annotations

import pytest

from jobs.models import TrainingRun
from tests.factories.teams import make_member
from tests.web.browsing import (
    chromium,
    either_way,
    findings,
    meanwhile,
    needs_chromium,
    open_page,
    session_of,
)
from workloads.models import Workload
from workloads.states import Phase, Reason

pytestmark = [pytest.mark.browser, needs_chromium, pytest.mark.django_db(transaction=True)]

ENDED = "Ended with exit code 1."


@pytest.mark.matrix
def test_the_chosen_theme_is_there_before_any_script(live_server, world):
    session = session_of(world.ana)
    with chromium() as browser:
        page, _ = open_page(browser, live_server.url, session, script=False)
        page.goto("/")
        light = page.locator("body").evaluate("node => getComputedStyle(node).backgroundColor")
        page.locator("details.menu > summary").click()
        page.get_by_role("button", name="Dark").click()
        dark = page.locator("body").evaluate("node => getComputedStyle(node).backgroundColor")
        assert light != dark


def fill_in(page) -> None:
    page.get_by_label("Name", exact=True).fill("from-a-browser")
    page.get_by_label("Image").fill("registry.example.org/train:1.4")
    page.get_by_label("Command").fill("python\ntrain.py")
    page.locator('input[name="flavor"][value="a100-40gb"]').check()
    page.get_by_label("GPUs", exact=True).fill("2")


@either_way
def test_a_run_is_checked_submitted_and_cancelled(live_server, world, script):
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session, script=script)
        page.goto("/runs/")
        page.get_by_role("link", name="New run").first.click()
        fill_in(page)
        if not script:
            page.get_by_role("button", name="Check").click()
        page.locator("#preview .verdict").get_by_text("Starts now").wait_for()
        assert page.get_by_label("Command").input_value() == "python\ntrain.py"
        page.get_by_role("button", name="Submit run").click()
        page.get_by_text("from-a-browser is submitted.").wait_for()
        page.get_by_role("button", name="Cancel").click()
        assert not script or findings(page) == []
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        page.get_by_text("from-a-browser is being cancelled.").wait_for()
        assert complaints == []
    assert Workload.objects.get(name="from-a-browser").desired == "cancel"
    assert TrainingRun.objects.count() == 1


def test_a_gpu_that_is_chosen_while_the_cards_come_anew_stays_chosen(live_server, world):
    make_member(team=world.other, user=world.ana)
    session = session_of(world.ana)
    held = []

    def hold(route) -> None:
        if route.request.headers.get("hx-target") == "flavors":
            held.append(route)
        else:
            route.continue_()

    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.route("**/runs/new/", hold)
        page.goto("/runs/new/")
        page.locator("#flavors").evaluate("node => { node.dataset.old = 'yes' }")
        with page.expect_request(lambda request: request.headers.get("hx-target") == "flavors"):
            page.get_by_label("Team", exact=True).select_option("speech")
        page.locator("#flavors.htmx-request").wait_for()
        page.locator('input[name="flavor"][value="a100-40gb"]').check()
        held.pop().continue_()
        page.locator("#flavors:not([data-old])").wait_for()
        assert page.locator('input[name="flavor"]:checked').input_value() == "a100-40gb"
        assert complaints == []


@pytest.mark.parametrize("path", ["/runs/new/", "/endpoints/new/"])
def test_who_goes_on_typing_while_the_preview_comes_sees_the_newest_and_no_error(live_server, world, path):
    session = session_of(world.ana)
    held, waits = [], True

    def hold(route) -> None:
        held.append(route) if waits and route.request.method == "POST" else route.continue_()

    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.clock.install()
        page.route(f"**{path}", hold)
        page.goto(path)
        page.get_by_label("Name", exact=True).fill("first")
        page.clock.run_for(500)
        page.locator("#preview.htmx-request").wait_for()
        page.get_by_label("Name", exact=True).fill("second")
        page.clock.run_for(500)
        waits = False
        held.pop(0).continue_()
        page.locator("#body-yaml").get_by_text("second").wait_for(state="attached")
        assert complaints == []


def test_a_refused_form_has_the_focus_on_what_is_wrong(live_server, world):
    session = session_of(world.ana)
    with chromium() as browser:
        page, _ = open_page(browser, live_server.url, session)
        page.goto("/runs/new/")
        page.get_by_label("Name", exact=True).fill("Not Right")
        page.get_by_role("button", name="Submit run").click()
        page.locator("#summary").wait_for()
        assert page.evaluate("document.activeElement.id") == "summary"
        assert findings(page) == []
        page.locator("#summary").get_by_role("link", name="Image").click()
        assert page.evaluate("location.hash") == "#id_image"


@pytest.mark.matrix
def test_tabs_swap_in_place_and_are_addresses(live_server, world, made):
    session, address = session_of(world.ana), f"/runs/{made['resnet50'].public_id}/"
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto(address)
        page.evaluate("window.kept = true")
        page.get_by_role("link", name="Manifests").click()
        page.get_by_text("apiVersion: batch/v1").wait_for()
        assert page.evaluate("window.kept")
        assert page.url.endswith("?tab=manifests")
        page.get_by_role("link", name="Logs").click()
        page.get_by_text("epoch 4/10").wait_for()
        assert complaints == []


def test_a_page_that_polls_shows_the_end_and_then_keeps_still(live_server, world, made):
    session, run = session_of(world.ana), made["resnet50"]
    asked: list[str] = []
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto(f"/runs/{run.public_id}/?tab=spec")
        page.get_by_role("heading", name="resnet50").wait_for()
        meanwhile(lambda: world.move(run, Phase.FAILED, Reason.APPLICATION_ERROR, ENDED, at=world.now))
        page.locator(".phase-Failed").first.wait_for()
        # The answer to the last poll contains the card's frame, which loads the card once.
        page.locator("#why-card:not([hx-get])").wait_for(state="attached")
        page.on("request", lambda request: asked.append(request.url))
        page.clock.install()
        page.clock.run_for(10_000)
        assert not [url for url in asked if str(run.public_id) in url]
        assert complaints == []
