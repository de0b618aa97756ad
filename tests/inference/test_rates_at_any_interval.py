"""What a scaler reads of a counter, whichever interval Prometheus scrapes at: 15 s, its default of a minute, or more."""

from __future__ import annotations

import time

import pytest

from devcluster.prometheus.storage import NAME, STALE
from inference.promql import Subject, requests_per_second
from inference.triggers import TRIGGERS
from telemetry.metric_queries import try_query
from tests.planted_metrics import planted_metrics

UP, REQUESTS = "mlportal_gateway_up", "mlportal_gateway_requests_total"
POD = {"namespace": "team-a", "pod": "digits-1-7c9d-x2k4p"}
INTERVALS = [2, 15, 30, 60, 120]


@pytest.fixture
def metrics():
    with planted_metrics() as made:
        yield made


def plant(storage, name, per_second, *, every, newest, **labels):
    """A quarter of an hour of a counter, or with 0 of a gauge at 1; the newest sample is `newest` seconds old."""
    last = int((time.time() - newest) * 1000)
    for number in range(900 // every, -1, -1):
        value = (1000 - number * every) * per_second or 1.0
        storage.append({NAME: name, **labels}, last - number * every * 1000, value)


@pytest.mark.parametrize("phase", [0.05, 0.9])
@pytest.mark.parametrize("every", INTERVALS)
def test_requests_per_second_are_seen(metrics, every, phase):
    url, storage = metrics
    plant(storage, UP, 0, every=every, newest=every * phase)
    for revision in ("1", "2"):
        labels = {"endpoint_id": "e", "revision": revision}
        plant(storage, REQUESTS, 4, every=every, newest=every * phase, **labels)
    assert try_query(url, requests_per_second("e")).value == pytest.approx(8, rel=0.05)


@pytest.mark.parametrize("phase", [0.05, 0.9])
@pytest.mark.parametrize("every", INTERVALS)
def test_the_wait_in_a_runtimes_queue_is_seen(metrics, every, phase):
    url, storage = metrics
    newest = every * phase
    # Each request waits 250 ms, in microseconds.
    plant(storage, "ts_queue_latency_microseconds", 4 * 250_000, every=every, newest=newest, **POD)
    plant(storage, "ts_inference_requests_total", 4, every=every, newest=newest, **POD)
    subject = Subject("e", "team-a", "digits-1", "torchserve", is_mig=False, exported_labels=True)
    query = TRIGGERS["queue-latency"].signal(subject, query=None, metric_type=None).query
    assert try_query(url, query).value == pytest.approx(250, rel=0.05)


def test_a_gateway_that_went_counts_for_no_longer_than_a_minute(metrics):
    url, storage = metrics
    plant(storage, UP, 0, every=15, newest=1)
    plant(storage, REQUESTS, 4, every=15, newest=90, endpoint_id="e", instance="gone")
    ended = {NAME: REQUESTS, "endpoint_id": "e", "instance": "gone"}
    storage.append(ended, int((time.time() - 75) * 1000), STALE)
    assert try_query(url, requests_per_second("e")).value == 0
