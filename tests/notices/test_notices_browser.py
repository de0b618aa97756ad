"""The pages of notices in Chromium: a subscription is made, tested and looked at, with and without JavaScript."""

from __future__ import annotations

import pytest

from notices.models import NoticeSubscription
from tests.patience import expect
from tests.web.browsing import chromium, either_way, faults, meanwhile, needs_chromium, open_page, session_of

pytestmark = [pytest.mark.browser, needs_chromium, pytest.mark.django_db(transaction=True)]


@pytest.mark.matrix
@either_way
def test_a_subscription_is_made_in_the_menu_and_its_test_is_seen(live_server, bed, receiver, script):
    session = session_of(bed.ana)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session, script=script)
        page.goto("/")
        page.locator("details.menu summary").click()
        page.get_by_role("link", name="Notices").click()
        page.get_by_role("link", name="New subscription").click()
        page.get_by_label("Name", exact=True).fill("on-call")
        page.get_by_label("Address").fill("https://10.0.0.1/")
        page.get_by_role("button", name="Subscribe").click()
        expect(page.locator(".field-error").first).to_be_visible()
        page.get_by_label("Address").fill(receiver.url)
        found = faults(page) if script else []
        page.get_by_role("button", name="Subscribe").click()
        expect(page.get_by_text("whsec_")).to_be_visible()
        found += faults(page) if script else []
        page.get_by_role("button", name="Send a test").click()
        expect(page.get_by_text("A test is on its way.")).to_be_visible()
        meanwhile(bed.deliver_now)
        page.reload()
        expect(page.get_by_text("delivered", exact=True)).to_be_visible()
        expect(page.get_by_text("whsec_")).to_have_count(0)
        found += faults(page) if script else []
        page.get_by_role("link", name="Notices", exact=True).last.click()
        expect(page.get_by_role("link", name="on-call")).to_be_visible()
        found += faults(page) if script else []
        assert (found, [each for each in complaints if "422" not in each]) == ([], [])
    assert NoticeSubscription.objects.get().user == bed.ana
    assert [got.json["type"] for got in receiver.got] == ["portal.test"]
