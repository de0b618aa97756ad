from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from foundation import clock, heartbeats
from foundation.http import health, metrics
from tests.factories.teams import make_token, make_user


@pytest.fixture
def _parts(monkeypatch):
    """The registry as the process left it, with the servers of the tests behind it."""
    Client().get("/healthz")  # The first request loads what registers parts.
    monkeypatch.setattr(health, "_readiness", dict(health._readiness))
    monkeypatch.setattr(health, "_migrated", set())


def down() -> None:
    raise ConnectionError("postgresql://user:hunter22@db")


def test_healthz_needs_nothing():
    response = Client().get("/healthz")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


@pytest.mark.django_db
@pytest.mark.usefixtures("_parts")
def test_readyz_names_each_part():
    health._readiness = {name: health._readiness[name] for name in ("database", "migrations", "broker")}
    response = Client().get("/readyz")
    assert response.status_code == 200
    assert response.json() == {
        "status": "ok",
        "checks": {name: {"status": "ok", "detail": ""} for name in ("database", "migrations", "broker")},
    }


@pytest.mark.django_db
@pytest.mark.usefixtures("_parts")
def test_a_part_that_is_not_required_degrades_and_keeps_the_portal_ready():
    health.register_readiness("cluster", down, required=False)
    response = Client().get("/readyz")
    assert response.status_code == 200
    assert response.json()["status"] == "degraded"
    assert response.json()["checks"]["cluster"] == {"status": "degraded", "detail": "ConnectionError"}


@pytest.mark.django_db
@pytest.mark.usefixtures("_parts")
def test_a_required_part_that_is_down_makes_the_portal_unready_and_leaks_nothing():
    health.register_readiness("database", down)
    response = Client().get("/readyz")
    assert response.status_code == 503
    assert response.json()["checks"]["database"]["status"] == "down"
    assert b"hunter22" not in response.content


@pytest.mark.django_db
@pytest.mark.usefixtures("still")
def test_metrics_count_requests_by_route():
    client = Client()
    client.get("/api/v1/me/")
    heartbeats.beat(process="worker", now=clock.now() - timedelta(seconds=90))
    text = metrics.exposition().decode()
    assert 'portal_http_requests_total{method="GET",route="api/v1/me/",status="401"}' in text
    age = next(
        line
        for line in text.splitlines()
        if line.startswith('portal_heartbeat_age_seconds{process="worker"}')
    )
    assert float(age.split()[1]) == 90


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/metrics", "/metrics/"])
def test_metrics_are_not_on_the_port_that_browsers_reach(path):
    """Not even for this machine or a platform admin: a proxy on it would hand them on."""
    admin = make_token(make_user(platform_admin=True))
    assert Client().get(path, HTTP_AUTHORIZATION=f"Bearer {admin}").status_code == 404


@pytest.mark.django_db
def test_an_unknown_path_is_counted_without_its_name():
    client = Client()
    client.get("/no/such/page-4711/")
    text = metrics.exposition().decode()
    assert "page-4711" not in text
    assert 'route="unmatched"' in text
