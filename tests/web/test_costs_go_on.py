"""The cost so far: on pages it goes on by itself, and is never shown as nothing."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client

from console.pages.tags import ticking
from costs.ledger.services import record_usage
from costs.queries import Cost
from foundation import clock
from tests.factories.submitted import make_attempt, make_pod
from tests.web.browsing import chromium, meanwhile, needs_chromium, open_page, session_of
from workloads.models import Workload
from workloads.states import Phase, Reason

FIGURE = (
    r'<span data-cost="(\d+)" data-cost-hour="(\d+)" data-cost-places="(\d)" aria-live="off">([^<]+)</span>'
)


@pytest.mark.parametrize(
    ("so_far", "rate", "shown"),
    [
        (0, 0, "$0.00"),
        (1, 0, "&lt;$0.01"),
        (1_500_000, 0, "$1.50"),
        (None, 3600, "no price"),
    ],
)
def test_a_cost_that_does_not_go_on_is_text(so_far, rate, shown):
    assert ticking(Cost(so_far, rate, None, rate)) == shown


def test_a_cost_that_goes_on_says_by_how_much_and_is_not_read_out():
    said = ticking(Cost(1, 7_200, None, 3_600), 4)
    assert re.fullmatch(FIGURE, said).groups() == ("1", "3600", "4", "&lt;$0.0001")


def running(world):
    run = world.run("burns", minutes_ago=5)
    workload = Workload.objects.get(pk=run.pk)
    for phase, reason in (
        (Phase.ADMITTED, Reason.CREATING),
        (Phase.STARTING, Reason.PULLING),
        (Phase.RUNNING, Reason.PROGRESSING),
    ):
        world.move(workload, phase, reason, at=clock.now())
    make_attempt(workload)
    pod = make_pod(workload, units=workload.units, scheduled_at=clock.now() - timedelta(seconds=10))
    return workload, pod


def states_of_lines(page):
    return re.findall(r'data-label="State"><span>([^<]+)<', page.content.decode())


@pytest.mark.django_db
def test_the_lists_and_the_page_of_what_runs_have_a_cost_that_goes_on(world):
    run, pod = running(world)
    client = Client()
    client.force_login(world.ana)
    costs = f"/runs/{run.public_id}/?tab=cost"
    for page in ("/", "/runs/", f"/runs/{run.public_id}/", costs):
        assert re.search(FIGURE, client.get(page).content.decode()), page
    assert states_of_lines(client.get(costs)) == ["running up"]
    pod.finished_at = clock.now()
    pod.save()
    record_usage(pod, now=clock.now())
    assert states_of_lines(client.get(costs)) == ["settled"]
    assert "data-cost=" not in client.get(f"/runs/{run.public_id}/").content.decode()


@pytest.mark.matrix
@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
def test_the_cost_of_a_page_that_stays_open_goes_on_each_second_and_stops_when_it_ends(live_server, world):
    session = session_of(world.ana)
    run, pod = running(world)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session)
        page.clock.install()
        page.goto(f"/runs/{run.public_id}/?tab=spec")
        figure = page.locator(".page-head [data-cost], #live [data-cost]").first
        figure.wait_for()
        hour = int(figure.get_attribute("data-cost-hour"))

        def shown():
            return float(re.sub(r"[^\d.]", "", figure.inner_text()))

        page.route(
            "**/*",
            lambda route: (
                route.fulfill(status=204)
                if route.request.resource_type in {"xhr", "fetch"}
                else route.continue_()
            ),
        )
        before = shown()
        page.clock.run_for(10_000)
        gone = shown() - before
        assert abs(gone - hour * 10 / 3600 / 1e6) <= hour / 3600 / 1e6 + 0.0002
        page.unroute("**/*")

        def end():
            pod.finished_at = clock.now()
            pod.save()
            record_usage(pod, now=clock.now())

        meanwhile(end)
        page.clock.run_for(16_000)
        page.locator("[data-cost]").first.wait_for(state="detached")
        assert complaints == []
