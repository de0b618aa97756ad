"""What did a team spend this month, and which run cost most: from home on, by clicking alone."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator

from tests.journeys import programs
from tests.journeys.pages import HomePage, RunForm, SignInPage
from tests.journeys.pages_costs import CostsPage
from tests.journeys.running import RunningPortal
from tests.journeys.visits import Visit, Visits
from tests.web.browsing import needs_chromium

pytestmark = [pytest.mark.journey, pytest.mark.browser, needs_chromium]

CLICKS_MAX = 3


def signed_in(visit: Visit, portal: RunningPortal, username: str) -> HomePage:
    return SignInPage.opened(visit).sign_in(username, portal.passwords[username])


class Counted:
    """A person's hand that says how often it was used."""

    def __init__(self, visit: Visit) -> None:
        self.uses = 0
        self._hand = visit.hand
        visit.hand = self  # type: ignore[assignment] # what a screen uses of a hand

    def press(self, target: Locator) -> None:
        self.uses += 1
        self._hand.press(target)

    def select(self, target: Locator, option: str) -> None:
        self.uses += 1
        self._hand.select(target, option)


@pytest.mark.parametrize("look", ["wide", "narrow"])
def test_a_manager_finds_what_a_team_spent_and_on_which_run_in_three_clicks(
    portal: RunningPortal, visits: Visits, look: str
):
    member = signed_in(visits.open(), portal, "ana")
    member.begin_run()
    form = RunForm.opened(member.visit).for_team("Climate").on("a100-40gb")
    form.fill(Name=f"long-{look}", Image=programs.IMAGE, Command=programs.STAYS, GPUs="2")
    long = form.submit(f"long-{look}").comes_to("Running")

    visit = visits.open(width=360, height=740) if look == "narrow" else visits.open()
    home = signed_in(visit, portal, "qm")
    clicks = Counted(visit)
    costs = CostsPage.from_menu(HomePage(visit)).of_team("Climate")
    assert clicks.uses <= CLICKS_MAX
    costs.has_charged(f"long-{look}").fits_the_screen()
    name, dollars = costs.dearest()
    assert name.startswith("long-")
    assert costs.spent() >= dollars > 0
    costs.by("User").by("Run and endpoint").ordered_by("Name", "ascending")
    assert costs.names() == sorted(costs.names())
    costs.open_idle_and_lost().tells("Charged to teams", "Idle", "Stranded").fits_the_screen()
    assert home.visit is visit
    long.act("Cancel", f"long-{look} is being cancelled.").comes_to("Cancelled")
