"""The first thing that somebody does who starts the portal: open the printed link and press its button."""

from __future__ import annotations

import pytest

from foundation import clock
from teams import services
from tests.factories.teams import ACTOR
from tests.web.browsing import chromium, needs_chromium, open_page

pytestmark = [pytest.mark.browser, needs_chromium, pytest.mark.django_db(transaction=True)]


def test_the_printed_link_signs_in_and_stays_out_of_every_referer(live_server, world):
    secret = services.create_sign_in_link(actor=ACTOR, user=world.ana, now=clock.now())
    referers: list[str] = []
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, "")
        page.on("request", lambda request: referers.append(request.all_headers().get("referer", "")))
        page.goto(f"/sign-in/link/{secret}/")
        page.get_by_role("button", name=f"Sign in as {world.ana.username}").click()
        page.wait_for_url(f"{live_server.url}/")
        assert page.get_by_role("heading", level=1).is_visible()
        assert page.get_by_role("navigation", name="Main").get_by_role("link", name="Runs").is_visible()
    assert any(referers)
    assert not [each for each in referers if secret in each]
    assert complaints == []
