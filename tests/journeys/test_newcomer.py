"""From the link that the first start prints to the first run, the first endpoint and a call to it from a shell."""

from __future__ import annotations

import subprocess

import pytest

from tests.journeys import programs
from tests.journeys.pages import EndpointForm, HomePage, PrintedLinkPage, RunForm, RunPage
from tests.journeys.running import RunningPortal
from tests.journeys.visits import Visit, Visits
from tests.web.browsing import needs_chromium

pytestmark = [pytest.mark.browser, pytest.mark.journey, needs_chromium]


def test_a_newcomer_trains_serves_and_calls_from_the_printed_link_on(portal: RunningPortal, visits: Visits):
    goes_all_the_way(visits.open(), portal.printed_link(), "first")


def test_a_newcomer_goes_all_the_way_with_the_keyboard_alone(portal: RunningPortal, visits: Visits):
    goes_all_the_way(visits.open(keyboard=True), portal.printed_link(), "keys")


def test_a_newcomer_goes_all_the_way_on_a_telephone(portal: RunningPortal, visits: Visits):
    goes_all_the_way(visits.open(width=360, height=740), portal.printed_link(), "narrow")


def test_a_newcomer_goes_all_the_way_without_javascript(portal: RunningPortal, visits: Visits):
    goes_all_the_way(visits.open(script=False), portal.printed_link(), "plain")


def goes_all_the_way(visit: Visit, link: str, name: str) -> None:
    """Names end in `name`, so that those who come later find their own."""
    home = PrintedLinkPage.opened(visit, link).sign_in()
    run = submits_a_first_run(home, f"train-{name}")
    visit.leaves_in_place(lambda: run.writes("step 0").writes("all done").comes_to("Succeeded"))
    assert run.log_ends().cost() > 0
    serves_and_calls(HomePage.from_menu(run), f"serve-{name}")


def submits_a_first_run(home: HomePage, name: str) -> RunPage:
    home.begin_run()
    form = RunForm.opened(home.visit).begin_with("Single GPU").for_team("Vision")
    form.fill(Name=name, Image=programs.IMAGE, Command=programs.COUNTS).on("a100-40gb")
    return form.is_told_that_it("Starts now").submit(name)


def serves_and_calls(home: HomePage, name: str) -> None:
    home.begin_endpoint()
    form = EndpointForm.opened(home.visit).for_team("Vision")
    form.fill(Name=name, Image=programs.IMAGE, Command=programs.SERVES).on("t4-shared")
    form.fill(GPUs="1", CPU_cores="500m", Memory="256Mi")
    endpoint = form.is_told_that_it("Starts now").deploy(name).comes_to("Ready")
    tried = endpoint.try_it(method="GET", path="/").is_answered("200")
    assert "Directory listing" in tried.body()
    command = tried.curl()
    token = endpoint.make_token("laptop")
    answer = subprocess.run(
        ["bash", "-c", command],
        env={"PATH": "/usr/bin:/bin", "PORTAL_TOKEN": token},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "Directory listing" in answer.stdout
    endpoint.act("Stop", f"{name} is being stopped.").comes_to("Stopped")
