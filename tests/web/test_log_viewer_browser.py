"""The log in Chromium: what its script adds to the links that the server writes."""

from __future__ import annotations

import pytest

from tests.web.browsing import chromium, faults, meanwhile, needs_chromium, open_page, session_of
from workloads.models import LogChunk

pytestmark = [pytest.mark.browser, needs_chromium, pytest.mark.django_db(transaction=True)]
MANY = 1500
POLL_MS = 2_500
"""A page without events of its own asks for new lines by then."""
LEFT = "(log => log.scrollHeight - log.scrollTop - log.clientHeight)"
IN_SIGHT = """line => {
    const log = line.closest(".log").getBoundingClientRect(), own = line.getBoundingClientRect();
    return own.top >= log.top && own.bottom <= log.bottom;
}"""


@pytest.fixture
def run(made, world):
    lines = [f"step {number}" for number in range(1, MANY + 1)]
    lines[499], lines[899] = "Needle one", "needle two"
    LogChunk.objects.filter(workload=made["resnet50"]).delete()
    world.log(made["resnet50"].pods.get(), *lines)
    return made["resnet50"]


def first_number(page) -> int:
    return int(page.locator(".log-n").first.inner_text())


@pytest.mark.matrix
def test_a_link_to_old_lines_finds_and_marks_them_and_another_one_is_copied(live_server, world, run):
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.goto(f"/runs/{run.public_id}/#L120-L123")
        page.locator("#L123.marked").wait_for()
        assert page.locator(".log-line.marked").count() == 4
        assert page.locator("#L120").evaluate(IN_SIGHT)
        page.locator("#L126 .log-n").click()
        page.locator("#L124 .log-n").click(modifiers=["Shift"])
        assert page.locator(".log-line.marked").count() == 3
        page.get_by_role("button", name="Copy link to the lines").click()
        page.get_by_role("button", name="Copied").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == page.url
        assert copied.endswith(
            f"/runs/{run.public_id}/?tab=logs&attempt=1&pod=resnet50-x-0&line=L124#L124-L126"
        )
        other = page.context.new_page()
        complaints.watch(other)
        other.goto(copied)
        other.locator("#L126.marked").wait_for()
        assert other.locator(".log-line.marked").count() == 3
        assert other.locator("#L124").evaluate(IN_SIGHT)
        assert complaints == []


def test_it_follows_until_one_scrolls_up_and_again_when_asked(live_server, world, run):
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.clock.install()
        page.goto(f"/runs/{run.public_id}/")
        log, follow = page.locator(".log"), page.locator(".log-follow")
        assert log.evaluate(LEFT) < 2
        assert not follow.is_visible()
        meanwhile(lambda: world.log(run.pods.get(), "came by itself"))
        page.clock.run_for(POLL_MS)
        log.get_by_text("came by itself").wait_for()
        assert log.evaluate(LEFT) < 2
        log.evaluate("log => { log.scrollTop -= 300 }")
        follow.wait_for()
        place = log.evaluate("log => log.scrollTop")
        meanwhile(lambda: world.log(run.pods.get(), "one more", "and another"))
        page.clock.run_for(POLL_MS)
        log.get_by_text("and another").wait_for()
        assert log.evaluate("log => log.scrollTop") == place
        assert follow.inner_text() == "2 new lines"
        follow.click()
        assert log.evaluate(LEFT) < 2
        follow.wait_for(state="hidden")
        # Scrolling to its top brings the lines before it, and what one reads stays where it is.
        before = first_number(page)
        log.evaluate("log => { log.scrollTop = 0 }")
        page.locator(f"#L{before - 1}").wait_for(state="attached")
        assert first_number(page) == before - 500
        assert page.locator(f"#L{before}").evaluate(IN_SIGHT)
        assert complaints == []


@pytest.mark.matrix
def test_how_it_looks_is_remembered_and_it_fills_the_screen(live_server, world, run):
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto(f"/runs/{run.public_id}/")
        utc = page.locator(".log time").last.inner_text()
        page.get_by_text("View", exact=True).click()
        page.get_by_label("Wrap long lines").uncheck()
        page.get_by_label("Since it started").check()
        since = page.locator(".log time").last.inner_text()
        assert (since.startswith("+0:24:5"), since != utc) == (True, True)
        page.keyboard.press("Escape")
        page.reload()
        assert page.locator(".log time").last.inner_text() == since
        assert page.locator("html.log-unwrapped").count() == 1
        page.get_by_role("button", name="Full screen").click()
        viewer = page.locator("log-viewer")
        assert viewer.bounding_box() == {"x": 0, "y": 0, "width": 1440, "height": 900}
        # What it covers is out of the keyboard's reach; a search leaves the log where it is.
        assert page.locator(".page-head").evaluate("node => node.closest('[inert]') !== null")
        page.get_by_label("Search the log").fill("needle")
        page.keyboard.press("Enter")
        page.locator("#L500.marked").wait_for()
        assert viewer.bounding_box()["height"] == 900
        page.locator("#log-next").focus()
        page.keyboard.press("Enter")
        page.locator("#L900.marked").wait_for()
        assert page.get_by_text("2 of 2 lines").is_visible()
        assert page.locator("#L900").evaluate(IN_SIGHT)
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Full screen").wait_for()
        assert not page.locator("[inert]").count()
        # axe checks every line, and those that are not marked are alike: twenty of them are enough.
        page.evaluate(
            "document.querySelectorAll('.log-line:nth-child(n + 20):not(.marked)').forEach(line => line.remove())"
        )
        assert faults(page) == []
        assert complaints == []


@pytest.mark.matrix
def test_the_first_log_line_stands_high_on_the_first_screen(live_server, world, run):
    session = session_of(world.ana)
    with chromium() as browser:
        page, _ = open_page(browser, live_server.url, session)
        page.goto(f"/runs/{run.public_id}/")
        assert page.locator(".log").bounding_box()["y"] < 340
        assert page.evaluate("document.documentElement.scrollHeight") <= 900
