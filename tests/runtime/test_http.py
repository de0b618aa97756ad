from __future__ import annotations

from http import HTTPStatus

import pytest
from django.conf import settings


def test_process_is_healthy_whatever_host_name_the_probe_uses(client):
    for path in ("/healthz", "/healthz/"):
        assert client.get(path, headers={"host": "10.1.2.3:8000"}).status_code == HTTPStatus.OK


@pytest.mark.django_db
def test_other_pages_refuse_an_unknown_host_name(client):
    response = client.get("/admin/login/", headers={"host": "evil.example.org"})
    assert response.status_code == HTTPStatus.BAD_REQUEST


@pytest.mark.django_db
def test_pages_carry_the_security_headers(client):
    headers = client.get("/admin/login/").headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert f"connect-src 'self' {settings.LIVE_URL}" in policy
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"


def test_browser_sends_no_cookie_of_the_portal_to_live():
    """Cookies ignore ports, so the two must differ in their host names."""
    host = {url: url.split("//")[1].split(":")[0] for url in (settings.PUBLIC_URL, settings.LIVE_URL)}
    assert host[settings.PUBLIC_URL] != host[settings.LIVE_URL]
    assert settings.SESSION_COOKIE_HTTPONLY
    assert settings.SESSION_COOKIE_SAMESITE == "Lax"


def test_unknown_resource_of_the_api_is_a_problem_document(client):
    response = client.get("/api/v1/nothing/")
    assert response.status_code == HTTPStatus.NOT_FOUND
    assert response.headers["Content-Type"] == "application/problem+json"
