"""The failure card in Chromium: it comes by itself, stays while the page refreshes, and is accessible at every width."""

from __future__ import annotations

import pytest

from tests.diagnosis.planted import Planted
from tests.factories.submitted import make_attempt, make_run
from tests.factories.workloads import put_in
from tests.patience import expect
from tests.pod_samples import failed, pending, waiting
from tests.web.browsing import (
    chromium,
    faults,
    needs_chromium,
    open_page,
    session_of,
    too_wide_between,
)
from workloads.states import Phase

pytestmark = [pytest.mark.browser, needs_chromium, pytest.mark.django_db(transaction=True)]
LONG = "registry.example.org/" + "a-very-long-name-of-an-image-without-any-place-to-break/" * 4 + "train:1"


@pytest.fixture
def broke(world):
    make = {"image": "example.org/train:1"}
    put_in(make_run(world.team, world.ana, name="resnet-6", **make), Phase.SUCCEEDED)
    run = make_run(world.team, world.ana, name="resnet-7", **make)
    make_attempt(run)
    run = put_in(run, Phase.FAILED, reason="OOMKilled", message="Container main used more memory.")
    Planted(run).pods(failed(137, "OOMKilled")).conditions(
        "Job", ("Failed", "True", "PodFailurePolicy", "Container main for pod p failed with exit code 137")
    )
    return run


def test_the_card_comes_by_itself_and_leads_to_what_changed(live_server, world, broke):
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto(broke.page_url)
        page.get_by_role("heading", name="It used more memory than its limit").wait_for()
        found = too_wide_between(page)
        page.get_by_text("1 more finding").click()
        found += faults(page)
        page.get_by_role("link", name="Compare with resnet-6, the last that worked").click()
        page.get_by_role("heading", name="What changed").wait_for()
        found += faults(page)
        page.go_back()
        page.get_by_role("link", name="What happened, in order").click()
        page.get_by_role("heading", name="All that was said").wait_for()
        found += faults(page)
        assert found == []
        assert complaints == []


@pytest.mark.matrix
def test_it_stays_while_the_page_refreshes(live_server, world):
    run = make_run(world.team, world.ana, name="resnet-8")
    make_attempt(run)
    run = put_in(run, Phase.STARTING)
    Planted(run).pods(pending(waiting("ErrImagePull", f'pull "{LONG}": manifest unknown')))
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto(run.page_url)
        heading = page.get_by_role("heading", name="The image cannot be pulled")
        heading.wait_for()
        page.evaluate("document.querySelector('#why-card').dataset.mark = 'kept'")
        with page.expect_response(lambda answer: answer.url.endswith(run.page_url)):
            page.evaluate("htmx.trigger(document.body, 'live:poll')")
        expect(page.locator(".htmx-request, .htmx-swapping, .htmx-settling")).to_have_count(0)
        assert heading.is_visible()
        assert faults(page) == []
        assert complaints == []
