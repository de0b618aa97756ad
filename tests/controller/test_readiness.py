"""What /readyz says of the cluster and of Prometheus."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from foundation import clock
from foundation.http import health
from portal import readiness
from tests.cluster.cluster_faults import FaultServer
from workloads.models import WatchCursor

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _parts(monkeypatch):
    """The registry as the process left it, once it serves probes."""
    import portal.probes  # noqa: F401 (names the parts)

    monkeypatch.setattr(health, "_readiness", dict(health._readiness))


@pytest.fixture
def metrics(tmp_path, settings):
    server = FaultServer(tmp_path / "unused")
    server.script = lambda exchange: exchange.reply(200, {"status": "success", "data": {"version": "3.0"}})
    settings.PROMETHEUS_URL = server.url
    yield server
    server.close()


def part(name):
    answer = Client().get("/readyz")
    return answer.status_code, answer.json()["status"], answer.json()["checks"][name]


def heard(age):
    seen_at = clock.now() - timedelta(seconds=age)
    WatchCursor.objects.update_or_create(kind="Pod", defaults={"seen_at": seen_at})


def test_the_cluster_is_named_with_the_age_of_its_last_answer():
    WatchCursor.objects.create(kind="Node", seen_at=clock.now() - timedelta(hours=1))
    heard(12)
    assert part("cluster") == (200, "ok", {"status": "ok", "detail": "Its last answer came 12 s ago."})


def test_a_cluster_that_is_silent_degrades_and_fails_no_probe():
    said = {"status": "degraded", "detail": "It has answered the watcher nothing yet."}
    assert part("cluster") == (200, "degraded", said)
    heard(readiness.STALE_SECONDS + 20)
    said = {"status": "degraded", "detail": "Its last answer came 80 s ago."}
    assert part("cluster") == (200, "degraded", said)


def test_prometheus_is_named_where_it_is_set_and_asked_a_few_times_a_minute(metrics, monkeypatch):
    readiness.register()
    heard(1)
    assert part("prometheus") == (200, "ok", {"status": "ok", "detail": "Its last answer came 0 s ago."})
    assert part("prometheus")[1] == "ok"
    assert len(metrics.requests) == 1
    metrics.script = lambda exchange: exchange.reply(503, {})
    monkeypatch.setattr(readiness, "ASKED_EVERY_SECONDS", 0.0)
    status, whole, said = part("prometheus")
    assert (status, whole, said["status"]) == (200, "degraded", "degraded")
    assert said["detail"].startswith("It does not answer; its last answer came ")
    assert metrics.url not in said["detail"]


def test_prometheus_that_is_not_set_is_not_named(settings):
    settings.PROMETHEUS_URL = None
    readiness.register()
    assert "prometheus" not in Client().get("/readyz").json()["checks"]
