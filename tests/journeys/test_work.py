"""What happens on other days: waiting, failing, asking for more, leading a team, rolling out and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.journeys import programs
from tests.journeys.pages import EndpointForm, HomePage, RunForm, RunPage, RunsPage, SignInPage
from tests.journeys.pages_team import QuotaRequestsPage, TeamPage, TeamQuotaPage
from tests.journeys.running import RunningPortal
from tests.journeys.visits import Visit, Visits
from tests.web.browsing import needs_chromium

pytestmark = [pytest.mark.journey, pytest.mark.browser, needs_chromium]


def signed_in(visit: Visit, portal: RunningPortal, username: str) -> HomePage:
    return SignInPage.opened(visit).sign_in(username, portal.passwords[username])


def fill_in(home: HomePage, name: str, *, team: str, command: str, gpus: int, **fields: str) -> RunForm:
    home.begin_run()
    form = RunForm.opened(home.visit).for_team(team).on("a100-40gb")
    return form.fill(Name=name, Image=programs.IMAGE, Command=command, GPUs=str(gpus), **fields)


def test_a_run_that_waits_says_why_and_starts_by_each_lever(portal: RunningPortal, visits: Visits):
    home = signed_in(visits.open(), portal, "ana")
    long = fill_in(home, "long", team="Speech", command=programs.STAYS, gpus=2).submit("long")
    long.comes_to("Running")
    home = HomePage.from_menu(long)
    form = fill_in(home, "short", team="Speech", command=programs.ENDS, gpus=2)
    waits = form.is_told_that_it("Will wait").submit("short").comes_to("Queued")
    waits.why_it_waits("uses 2 of its 3").take_lever("1 GPU instead of 2")
    form = RunForm.opened(home.visit).is_told_that_it("Starts now")
    form.submit("short-2").comes_to("Succeeded")
    form = fill_in(HomePage.from_menu(form), "urgent", team="Speech", command=programs.ENDS, gpus=2)
    waits = form.is_told_that_it("Will wait").submit("urgent").comes_to("Queued")
    waits.why_it_waits("uses 2 of its 3").take_lever("Suspend long, your own run")
    long = RunPage(home.visit, "long").is_titled("long")
    long.act("Suspend", "long is being suspended.").comes_to("Suspended")
    RunsPage.from_menu(long).open("urgent").comes_to("Succeeded")
    home = HomePage.from_menu(form)
    home.open_run("long")
    RunPage(home.visit, "long").act("Cancel", "long is being cancelled.").comes_to("Cancelled")


def test_a_run_without_memory_says_so_and_its_clone_with_more_succeeds(portal: RunningPortal, visits: Visits):
    home = signed_in(visits.open(), portal, "ana")
    form = fill_in(home, "hungry", team="Speech", command=programs.FILLS, gpus=1, Memory="128Mi", Retries="0")
    failed = form.submit("hungry").comes_to("Failed", "OOMKilled")
    failed.says("128Mi")
    form = failed.clone().fill(Name="fed", Memory="1Gi")
    fed = form.is_told_that_it("Starts now").submit("fed")
    fed.writes(f"held {300 * programs.MIB}").comes_to("Succeeded")


def test_a_member_asks_for_quota_a_manager_gives_it_and_the_run_starts(portal: RunningPortal, visits: Visits):
    until = (datetime.now(UTC) + timedelta(days=7)).date()  # noqa: TID251 - the person's own calendar
    home = signed_in(visits.open(), portal, "ana")
    form = fill_in(home, "large", team="Weather", command=programs.ENDS, gpus=2)
    waits = form.is_told_that_it("Will wait").submit("large").comes_to("Queued")
    waits.why_it_waits("this run needs 2").take_lever("1 more unit of quota")
    asks = TeamQuotaPage.opened(home.visit, "Weather").is_filled_in_with("1")
    asks.ask(until=until, reason="A larger batch").shows_request("A larger batch", state="Pending")
    manager = signed_in(visits.open(), portal, "qm")
    requests = QuotaRequestsPage.from_menu(manager)
    requests.approve("Weather: 1 more a100-40gb", reason="A larger batch", comment="Until the deadline.")
    requests.is_told("1 more a100-40gb for Weather")
    RunsPage.from_menu(asks).open("large").comes_to("Succeeded")


def test_a_manager_gives_a_team_more_for_a_week_which_nobody_asked_for(portal: RunningPortal, visits: Visits):
    until = (datetime.now(UTC) + timedelta(days=7)).date()  # noqa: TID251 - the person's own calendar
    manager = signed_in(visits.open(), portal, "qm")
    manager.open_from_menu("Quotas")
    team = TeamQuotaPage.from_grid(manager, "Vision")
    request = team.give("a100-40gb (on-demand)", units="2", until=until, reason="The demo")
    request.says("when it returns by itself").says_of_its_quota("2 → 4").approve_it("For the demo.")
    request.is_told(f"They return by themselves after {until.isoformat()}.")
    TeamQuotaPage.opened(manager.visit, "Vision").shows_request("The demo", state="Approved")


def test_a_lead_looks_after_members_secrets_and_volumes(portal: RunningPortal, visits: Visits):
    visit = visits.open()
    team = TeamPage.from_menu(signed_in(visit, portal, "lea"), "Search")
    team.add_member("nina", "viewer").is_told("nina is a viewer of Search now.").has_member("nina", "viewer")
    team.change_role("nina", "member").is_told("nina is a member").has_member("nina", "member")
    team.remove_member("nina").is_told("nina is in Search no more.").has_no_member("nina")
    team.write_secret("hf", "token", "a-value-of-mine").is_told("hf is written").has_secret("hf", "token")
    team.shows_nowhere("a-value-of-mine").delete_secret("hf").is_told("hf is deleted.")
    volumes = team.open_volumes().make("datasets", "10Gi")
    volumes.is_told("datasets is made.").has_volume("datasets", "10Gi")


def test_what_a_run_wrote_to_a_volume_is_listed_and_deployed(portal: RunningPortal, visits: Visits):
    home = signed_in(visits.open(), portal, "lea")
    TeamPage.from_menu(home, "Search").open_volumes().make("models", "5Gi").is_told("models is made.")
    HomePage.from_menu(home).begin_run()
    form = RunForm.opened(home.visit).on("a100-40gb")
    form.fill(
        Name="writes", Image=programs.IMAGE, Command=programs.WRITES, GPUs="1", Volumes="models:/models"
    )
    run = form.is_told_that_it("Starts now").submit("writes").comes_to("Succeeded")
    deploys = run.deploy_output("/models/best.pt", "volume models", "2.9 MiB", "accuracy 0.97")
    deploys.shows(Name="writes", Model_claim="models", Model_path="/models")


def test_a_new_image_is_rolled_out_compared_and_rolled_back(portal: RunningPortal, visits: Visits):
    home = signed_in(visits.open(), portal, "ana")
    home.begin_endpoint()
    form = EndpointForm.opened(home.visit).for_team("Genomics").on("a100-mig-1g.10gb")
    form.fill(Name="reads", Image="python:3.12", Command=programs.SERVES, GPUs="1")
    form.fill(CPU_cores="500m", Memory="256Mi")
    endpoint = form.is_told_that_it("Starts now").deploy("reads").comes_to("Ready")
    panel = endpoint.update(Image="python:3.13").show_what_changes()
    endpoint = panel.changes("image", "python:3.12", "python:3.13").roll_out()
    newer = endpoint.revision(2, "Live").differs("image", "python:3.12", "python:3.13")
    assert newer.number == 2
    endpoint = endpoint.revision(1, "Superseded").roll_back_to_it()
    endpoint.revision(3, "Live")
    endpoint.act("Stop", "reads is being stopped.").comes_to("Stopped")


def test_a_sweep_finds_the_best_rate_stops_the_others_and_is_cancelled_as_one(
    portal: RunningPortal, visits: Visits
):
    home = signed_in(visits.open(), portal, "ana")
    form = sweep_form(home, "lr", "lr = 0.4, 0.1, 0.3, 0.2", programs.LEARNS, most="2")
    sweep = form.fill(Metric="loss", Target="0.1").submit_sweep("lr")
    sweep.member_comes_to("lr-2", "Succeeded").best_is("lr-2")
    for name in ("lr-1", "lr-3", "lr-4"):
        sweep.member_comes_to(name, "Cancelled", "Early stopped")
    sweep.comes_to("Succeeded")
    sweep = RunsPage.from_menu(sweep).open_sweeps().open("lr")
    sweep.open_member("lr-2").further_fact("Sweep").get_by_role("link", name="lr").wait_for()
    stays = sweep_form(home, "stays", "seed = 1..3", programs.STAYS, most="1").submit_sweep("stays")
    stays.member_comes_to("stays-1", "Running").member_comes_to("stays-3", "Suspended")
    stays.act("Cancel", "The sweep stays is being cancelled.").comes_to("Cancelled")


def sweep_form(home: HomePage, name: str, parameters: str, command: str, *, most: str) -> RunForm:
    form = RunsPage.from_menu(home).open_sweeps().begin().for_team("Climate").on("a100-40gb")
    form.fill(Name=name, Image=programs.IMAGE, Command=command, GPUs="1")
    return form.sweep(Parameters=parameters, At_most_at_once=most).is_told_that_it("Starts now")
