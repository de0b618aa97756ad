"""A day without a mouse: everything by keys and the palette, from signing in to cancelling what was submitted."""

from __future__ import annotations

import re

import pytest

from tests.journeys import programs
from tests.journeys.pages import RunForm, RunPage, RunsPage, SignInPage
from tests.journeys.running import RunningPortal
from tests.journeys.visits import Visits
from tests.patience import expect
from tests.web.browsing import needs_chromium

pytestmark = [pytest.mark.journey, pytest.mark.browser, needs_chromium]


def test_a_run_is_submitted_found_and_cancelled_by_keys_alone(portal: RunningPortal, visits: Visits):
    visit = visits.open(keyboard=True)
    home = SignInPage.opened(visit).sign_in("ana", portal.passwords["ana"])
    home.goes_by_palette("new run")
    form = RunForm.opened(visit).for_team("Speech").on("a100-40gb")
    form.fill(Name="by-keys", Image=programs.IMAGE, Command=programs.STAYS, GPUs="1")
    run = form.is_told_that_it("Starts now").submit("by-keys").comes_to("Running")
    run.presses("g", "h").is_titled("Home")
    run.presses("g", "r")
    runs = RunsPage(visit).is_titled("Training runs").presses("/")
    visit.page.keyboard.type("keys")
    visit.page.keyboard.press("Enter")
    expect(visit.page).to_have_url(re.compile("search=keys"))
    runs.is_titled("Training runs").presses("j", "Enter")
    RunPage(visit, "by-keys").is_titled("by-keys")
    home.presses("g", "h").is_titled("Home").goes_by_palette("by-keys")
    run = RunPage(visit, "by-keys").is_titled("by-keys")
    run.act("Cancel", "by-keys is being cancelled.").comes_to("Cancelled")
