"""Cancelling and labelling what fits a filter, in Chromium, by keyboard, in narrow and dark."""

from __future__ import annotations

import pytest

from tests.patience import expect
from tests.web.browsing import chromium, faults, meanwhile, needs_chromium, open_page, session_of
from workloads.models import Workload
from workloads.states import Desired

pytestmark = [pytest.mark.browser, needs_chromium, pytest.mark.django_db(transaction=True)]


@pytest.mark.matrix
def test_what_fits_a_filter_is_labelled_and_cancelled_by_keyboard(live_server, world):
    for number in range(3):
        world.run(f"sweep-{number}")
    world.run("other")
    session = session_of(world.ana)

    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.goto("/runs/?search=sweep")

        page.get_by_role("link", name="Label these…").press("Enter")
        dialog = page.get_by_role("dialog", name="Label 3 runs?")
        expect(dialog).to_be_visible()
        expect(dialog.get_by_role("link", name="Keep as they are")).to_be_focused()
        assert faults(page) == []
        dialog.get_by_label("Labels to set").fill("project=vision")
        dialog.get_by_role("button", name="Label 3 runs").press("Enter")
        expect(page.get_by_text("3 runs are labelled.")).to_be_visible()

        page.goto("/runs/?label=project=vision")
        page.get_by_role("link", name="Cancel these…").press("Enter")
        dialog = page.get_by_role("dialog", name="Cancel 3 runs?")
        expect(dialog.get_by_role("link", name="Keep as they are")).to_be_focused()
        assert faults(page) == []
        dialog.get_by_role("button", name="Cancel 3 runs").press("Enter")
        expect(page.get_by_text("3 runs are being cancelled.")).to_be_visible()
        assert complaints == []

    asked = meanwhile(
        lambda: set(Workload.objects.filter(desired=Desired.CANCEL).values_list("name", flat=True))
    )
    assert asked == {"sweep-0", "sweep-1", "sweep-2"}
