from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from foundation import clock, heartbeats
from foundation.http import health
from tests.factories.teams import make_member, make_token, make_user

REMOTE = {"REMOTE_ADDR": "203.0.113.7"}


@pytest.fixture
def _parts(monkeypatch):
    """The registry as the process left it, with the servers of the tests behind it."""
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
def test_metrics_are_open_to_this_machine_and_count_requests_by_route():
    client = Client()
    client.get("/api/v1/me/")
    heartbeats.beat(process="worker", now=clock.now() - timedelta(seconds=90))
    text = client.get("/metrics").content.decode()
    assert 'portal_http_requests_total{method="GET",route="api/v1/me/",status="401"}' in text
    age = next(
        line
        for line in text.splitlines()
        if line.startswith('portal_heartbeat_age_seconds{process="worker"}')
    )
    assert 90 <= float(age.split()[1]) < 120


@pytest.mark.django_db
@pytest.mark.parametrize(
    "meta", [REMOTE, {"HTTP_X_FORWARDED_FOR": "127.0.0.1"}, {"HTTP_FORWARDED": "for=127.0.0.1"}]
)
def test_metrics_are_closed_to_strangers_and_to_what_a_proxy_hands_on(meta):
    assert Client().get("/metrics", **meta).status_code == 401


@pytest.mark.django_db
def test_metrics_open_to_a_platform_admins_token_that_may_read():
    admin = make_user(platform_admin=True)
    team = make_member(user=admin).team

    def status(plain: str) -> int:
        return Client().get("/metrics", HTTP_AUTHORIZATION=f"Bearer {plain}", **REMOTE).status_code

    assert status(make_token(admin, scopes=("read",))) == 200
    assert status(make_token(admin, scopes=("submit",))) == 403
    assert status(make_token(admin, scopes=("read",), team=team)) == 403
    assert status(make_token(make_user(), scopes=("read",))) == 403


@pytest.mark.django_db
def test_an_unknown_path_is_counted_without_its_name():
    client = Client()
    client.get("/no/such/page-4711/")
    text = client.get("/metrics").content.decode()
    assert "page-4711" not in text
    assert 'route="unmatched"' in text
