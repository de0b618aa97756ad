"""The outputs of a run on its page: listed, fetched, deployed, by clicking, with and without JavaScript."""

from __future__ import annotations

import pytest

from console.pages.detail import TAB_SECONDS
from foundation import clock
from inference.models import Endpoint
from jobs.outputs.services import report_output
from tests.factories.submitted import make_attempt
from tests.web.browsing import chromium, either_way, faults, meanwhile, needs_chromium, open_page, session_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(world):
    run = world.run("resnet-final", volumes=[{"claim": "models", "path": "/models"}])
    attempt, _ = make_attempt(run)
    for path, size, metrics in (
        ("/models/best model.pt", 3_565_158, {"accuracy": 0.97}),
        ("/scratch/trace.json", 812, {}),
    ):
        report_output(attempt=attempt, path=path, size_bytes=size, metrics=metrics, now=clock.now())
    return run


def report(run, path):
    attempt = run.attempts.get()
    report_output(attempt=attempt, path=path, size_bytes=1, metrics={}, now=clock.now())


@pytest.mark.matrix
@pytest.mark.browser
@needs_chromium
@pytest.mark.django_db(transaction=True)
@either_way
def test_an_output_is_listed_and_its_volume_deployed_by_clicking(live_server, world, run, script):
    session = session_of(world.ana)
    with chromium() as browser:
        page, complaints = open_page(browser, live_server.url, session, script=script)
        page.clock.install()
        page.goto(f"/runs/{run.public_id}/")
        page.get_by_role("link", name="Outputs", exact=True).click()
        row = page.get_by_role("row").filter(has_text="best model.pt")
        row.get_by_text("3.4 MiB").wait_for()
        row.get_by_text("Fetch it").click()
        row.get_by_text("kubectl cp").wait_for()
        if script:
            # What else is reported comes by itself, and what was opened stays open.
            meanwhile(lambda: report(run, "/models/last.pt"))
            page.clock.run_for(TAB_SECONDS["outputs"] * 1000)
            page.get_by_role("row").filter(has_text="last.pt").wait_for()
            row.get_by_text("kubectl cp").wait_for()
        page.get_by_text("It lay in its pod alone").wait_for()
        assert not script or faults(page) == []
        row.get_by_role("link", name="Deploy this").click()
        page.get_by_role("heading", name="New endpoint").wait_for()
        assert page.get_by_label("Model claim").input_value() == "models"
        assert page.get_by_label("Model path").input_value() == "/models"
        assert page.get_by_label("Name", exact=True).input_value() == "resnet-final"
        assert page.get_by_label("Model claim").is_visible()
        assert complaints == []
    assert not Endpoint.objects.filter(workload__name="resnet-final").exists()


def test_a_viewer_sees_outputs_and_is_offered_no_endpoint(viewer, run):
    html = viewer.get(f"/runs/{run.public_id}/?tab=outputs").content.decode()
    assert "best model.pt" in html
    assert "Deploy this" not in html


def test_without_any_the_page_says_how_they_are_reported(ana, world):
    html = ana.get(f"/runs/{world.run('fresh').public_id}/?tab=outputs").content.decode()
    assert "$PORTAL_RUN_ID/outputs/" in html
