"""The journeys' portal, started once a worker, and windows of one Chromium into it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.journeys.running import RunningPortal
from tests.journeys.visits import Visits
from tests.web.browsing import chromium

FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


@pytest.fixture(scope="package")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPortal]:
    """It ends with the last journey of this worker, and works beside no other tests."""
    folder = tmp_path_factory.mktemp("journeys") / "data"
    # Notices go to a receiver of the journey.
    running = RunningPortal(folder, PORTAL_NOTICE_NETWORKS="127.0.0.0/8")
    try:
        running.until_started()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Not of the session: while it is open, its loop keeps other tests of this worker from the database."""
    with chromium() as opened:
        yield opened


@pytest.fixture
def visits(
    portal: RunningPortal, browser: Browser, request: pytest.FixtureRequest, tmp_path
) -> Iterator[Visits]:
    made = Visits(browser, portal.url, tmp_path)
    yield made
    made.close(failed=request.node.stash.get(FAILED, True))
