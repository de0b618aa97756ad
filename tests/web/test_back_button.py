"""Back: no page of somebody is kept, so the browser asks again, and shows whole pages and no fragments."""

from __future__ import annotations

import pytest

from tests.web.browsing import chromium, needs_chromium, open_page, session_of

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.browser, needs_chromium]


@pytest.mark.matrix
def test_back_shows_the_page_that_was_there_and_nothing_after_signing_out(live_server, world, made):
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto("/teams/vision/")
        page.get_by_role("link", name="Endpoints").last.click()
        page.get_by_role("link", name="digits").first.click()
        # Swapped in by htmx, and an entry of the history of its own.
        page.get_by_role("link", name="Settings & revisions").click()
        page.wait_for_url("**tab=update**")
        page.go_back()
        page.get_by_role("heading", level=1, name="digits").wait_for()
        page.go_back()
        page.get_by_role("heading", level=1, name="Endpoints").wait_for()
        assert page.locator("header, nav").count() > 0
        assert complaints == []
        page.context.clear_cookies()
        page.go_back()
        page.wait_for_url("**/sign-in/**")
        assert "digits" not in page.content()
