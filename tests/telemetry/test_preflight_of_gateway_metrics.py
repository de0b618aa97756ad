"""Preflight says whether Prometheus scrapes the gateway often enough to scale by its rates."""

from __future__ import annotations

import time

import pytest

from devcluster.prometheus.storage import NAME
from telemetry.preflight import gateway_metrics
from tests.planted_metrics import planted_metrics


@pytest.fixture
def scraped(settings):
    """scraped(every, since): how often the gateway was, in seconds."""

    def scrape(every, since, instance="a"):
        now = int(time.time() * 1000) - 1000
        for ago in range(since - since % every, -1, -every):
            storage.append({NAME: "mlportal_gateway_up", "instance": instance}, now - ago * 1000, 1.0)

    with planted_metrics() as (settings.PROMETHEUS_URL, storage):
        yield scrape


def found():
    check = gateway_metrics(None)
    return check.status, check.detail, check.fix


@pytest.mark.parametrize("every", [5, 15, 30, 60])
def test_intervals_up_to_prometheus_default_are_enough(scraped, every):
    scraped(every, 900)
    assert found() == ("ok", f"Scraped {300 // every} times in 5 minutes.", "")


@pytest.mark.parametrize(("every", "samples"), [(150, 2), (240, 2)])
def test_a_longer_interval_is_too_long_for_a_rate(scraped, every, samples):
    scraped(every, 1200)
    scraped(15, 1200, "often")
    status, detail, fix = found()
    assert (status, f"Scraped {samples} times" in detail, "scrape_interval" in fix) == ("warn", True, True)


def test_of_a_gateway_that_has_just_started_nobody_knows_yet(scraped):
    scraped(15, 30)
    assert found() == ("ok", "Scraped; how often is seen after 5 minutes.", "")


def test_no_gateway_no_prometheus_and_one_that_does_not_answer(scraped, settings):
    status, detail, fix = found()
    assert (status, "requests-per-second" in detail, "/-/metrics" in fix) == ("warn", True, True)
    settings.PROMETHEUS_URL = "http://127.0.0.1:1"
    assert found()[0] == "warn"
    settings.PROMETHEUS_URL = None
    assert found()[0] == "warn"
