"""Being told, and looking who wastes: from the printed link on, wide, narrow and dark, and wrong at first."""

from __future__ import annotations

import pytest
from standardwebhooks import Webhook

from tests.journeys import programs
from tests.journeys.pages import HomePage, PrintedLinkPage, RunForm
from tests.journeys.pages_told import ClusterPage, IdlePage, NoticesPage
from tests.journeys.running import RunningPortal
from tests.journeys.visits import Visit, Visits
from tests.notices.receiver import Receiver
from tests.web.browsing import needs_chromium

pytestmark = [pytest.mark.journey, pytest.mark.browser, needs_chromium]

in_every_look = pytest.mark.parametrize("look", ["wide", "narrow", "dark"])


@pytest.fixture
def receiver():
    server = Receiver()
    yield server
    server.stop()


def begun(visits: Visits, portal: RunningPortal, look: str) -> tuple[Visit, HomePage]:
    visit = visits.open(width=360, height=740) if look == "narrow" else visits.open()
    home = PrintedLinkPage.opened(visit, portal.printed_link()).sign_in()
    return visit, home.choose_theme("Dark") if look == "dark" else home


@in_every_look
def test_somebody_subscribes_is_told_of_a_run_and_sends_again_what_was_given_up(
    portal: RunningPortal, visits: Visits, receiver: Receiver, look: str
):
    visit, home = begun(visits, portal, look)
    name = f"told-{look}"
    form = NoticesPage.from_menu(home).fits_the_screen().begin().fits_the_screen()
    form.fill(Name=name, Address="https://10.0.0.1/hook").by("Webhook (signed JSON)").when("GPUs do nothing")
    visit.mistakes += 1
    form.send().wrong("Address", "This address is not a public one")
    told = form.fill(Address=receiver.url).subscribe(name).fits_the_screen()
    secret = told.secret()

    home = HomePage.from_menu(told)
    home.begin_run()
    run = RunForm.opened(visit).for_team("Vision").on("a100-40gb")
    run.fill(Name=name, Image=programs.IMAGE, Command=programs.ENDS, GPUs="1")
    ended = run.is_told_that_it("Starts now").submit(name).comes_to("Succeeded")
    told = NoticesPage.from_menu(ended).open(name).sent(f"Run vision/{name} finished", "delivered")
    (got,) = receiver.accepted
    assert Webhook(secret).verify(got.body, got.headers)["data"]["name"] == name

    receiver.behave = lambda _: 500
    title = f"Test of the subscription {name}"
    told.test().sent(title, "given up")
    notices = NoticesPage.from_menu(told).has_given_up(title).fits_the_screen()
    receiver.behave = lambda _: 204
    notices.send_again(title).sent(title, "delivered")
    assert receiver.got[-1].id == receiver.got[-2].id


@in_every_look
def test_a_manager_sees_idle_gpus_changes_their_rule_and_sees_what_is_free(
    portal: RunningPortal, visits: Visits, look: str
):
    visit, home = begun(visits, portal, look)
    percent = {"wide": "12", "narrow": "13", "dark": "14"}[look]
    idle = IdlePage.from_menu(home).has_looked().fits_the_screen()
    form = idle.change_rule("Idle").fits_the_screen().fill(**{"Threshold_(%)": "200", "Teams": "nobody"})
    visit.mistakes += 1
    form.send().wrong("Threshold (%)", "less than or equal to 150")
    visit.mistakes += 1
    form.fill(**{"Threshold_(%)": percent}).send().wrong("Teams", "There is no team nobody.")
    idle = form.fill(Teams="").save().is_told("The rule Idle is changed.")
    idle.says(f"highest GPU utilization below {percent} % for 30 minutes").fits_the_screen()
    cluster = idle.open_cluster().has_flavor("a100-40gb", "largest usable block").fits_the_screen()
    cluster.as_table().has_nodes_of("a100-40gb").fits_the_screen()
    room = ClusterPage.from_menu(cluster).has_flavor("t4-shared", "free").asks_for_room("a100-40gb", 1)
    room.says_of_room("1 a100-40gb (on-demand) would").fits_the_screen()
