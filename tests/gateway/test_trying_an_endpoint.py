"""`endpoints/{id}/invoke/…` on the portal's own origin: nothing of the portal goes out, nothing harmful comes back."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.cluster.cluster_faults import status
from tests.factories.teams import api_client

PREFIX = "/api/v1/namespaces/team-vision/services/digits:8080/proxy"


@pytest.fixture
def page(bench) -> Client:
    """A browser with a session that has seen a page, and so has a CSRF token."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(bench.user)
    return client


def url(bench, path=""):
    return f"/api/v1/endpoints/{bench.endpoint.public_id}/invoke/{path}"


def with_csrf(client: Client) -> dict[str, str]:
    from django.conf import settings
    from django.middleware.csrf import _get_new_csrf_string

    secret = _get_new_csrf_string()
    client.cookies[settings.CSRF_COOKIE_NAME] = secret
    return {"X-CSRFToken": secret}


def test_a_token_of_a_viewer_may_try(bench, upstream):
    client = api_client(bench.user, name="reads", scopes=("read",))
    answer = client.post(url(bench, "v1/predict?a=b"), {"pixels": [1]}, format="json")
    assert answer.status_code == 200
    assert answer.json() == {"digit": 7}
    assert answer["X-Portal-Upstream-Status"] == "200"
    assert int(answer["X-Portal-Duration-Ms"]) >= 0
    (request,) = upstream.requests
    assert (request.method, request.path) == ("POST", f"{PREFIX}/v1/predict?a=b")
    assert request.body == b'{"pixels":[1]}'


def test_every_method_passes(bench, upstream):
    methods, client = ("GET", "PUT", "PATCH", "DELETE", "HEAD"), api_client(bench.user, name="all")
    upstream.script = lambda exchange: exchange.reply(200, body=b"")
    assert {method: client.generic(method, url(bench)).status_code for method in methods} == dict.fromkeys(
        methods, 200
    )
    assert tuple(request.method for request in upstream.requests) == methods


def test_options_are_the_endpoints_to_answer_and_ask_for_a_sign_in_too(bench, upstream):
    assert api_client().options(url(bench)).status_code == 401
    # The fault server's own word for a method that it does not know.
    answer = api_client(bench.user, name="options").options(url(bench))
    assert (answer.status_code, answer["X-Portal-Upstream-Status"]) == (501, "501")


def test_a_session_needs_its_csrf_token_which_goes_no_further(bench, upstream, page):
    assert page.post(url(bench), b"{}", content_type="application/json").status_code == 403
    assert upstream.requests == []
    canary = {"X-Forwarded-For": "canary", "Referer": "http://testserver/canary", "HX-Request": "canary"}
    headers = with_csrf(page) | canary
    answer = page.post(url(bench), b"{}", content_type="application/json", headers=headers)
    assert answer.status_code == 200
    (request,) = upstream.requests
    assert request.headers.pop("authorization") == "Bearer right"
    assert "cookie" not in request.headers
    assert "canary" not in repr(request.headers)
    assert headers["X-CSRFToken"] not in repr(request.headers)


def test_a_form_goes_through_as_it_was_sent(bench, upstream, page):
    body = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n--x--\r\n'
    answer = page.post(
        url(bench), body, content_type="multipart/form-data; boundary=x", headers=with_csrf(page)
    )
    assert answer.status_code == 200
    assert upstream.requests[0].body == body


def test_html_of_an_endpoint_runs_no_script_on_the_portals_origin(bench, upstream, page):
    told = [
        ("Set-Cookie", "portal-session=evil"),
        ("Location", "https://evil.test"),
        ("X-Accel-Redirect", "/x"),
    ]
    told += [("Content-Security-Policy", "default-src *"), ("WWW-Authenticate", "Basic"), ("Refresh", "0")]
    script = b"<script>alert(1)</script>"
    upstream.script = lambda exchange: exchange.reply(
        200, body=script, content_type="text/html", headers=told
    )
    answer = page.get(url(bench), headers={"Accept": "text/html"})
    assert answer.content == script
    assert answer["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Cache-Control"] == "no-store"
    assert not {"Location", "X-Accel-Redirect", "WWW-Authenticate", "Refresh"} & set(answer.headers)
    assert "portal-session" not in answer.cookies


@pytest.mark.parametrize(
    ("content_type", "shown"),
    [("application/json", True), ("text/plain", True), ("image/svg+xml", False), ("application/pdf", False)],
)
def test_what_is_neither_json_nor_text_is_a_download(bench, upstream, page, content_type, shown):
    upstream.script = lambda exchange: exchange.reply(200, body=b"x", content_type=content_type)
    assert ("Content-Disposition" not in page.get(url(bench))) == shown


def test_an_endpoint_that_is_not_live_says_so(bench):
    bench.set_phase(bench.endpoint, "Starting", "Loading")
    answer = api_client(bench.user, name="u").get(url(bench))
    assert answer.status_code == 503
    assert answer.json()["code"] == "endpoint_not_live"
    assert int(answer["Retry-After"]) >= 1
    assert [(each["field"], each["code"]) for each in answer.json()["errors"]] == [
        ("phase", "Starting"),
        ("reason", "Loading"),
    ]


def test_bodies_have_limits_both_ways(bench, upstream):
    client = api_client(bench.user, name="u")
    assert client.generic("POST", url(bench), b"x" * (2**20 + 1)).status_code == 413
    assert upstream.requests == []
    upstream.script = lambda exchange: exchange.reply(200, body=b"x" * (4 * 2**20 + 1))
    answer = client.get(url(bench))
    assert (answer.status_code, answer.json()["code"]) == (502, "response_too_large")


def test_an_endpoint_that_fails_is_told_apart_from_the_portal(bench, upstream):
    client = api_client(bench.user, name="u")
    upstream.script = lambda exchange: exchange.reply(500, {"own": "error"})
    answer = client.get(url(bench))
    assert (answer.status_code, answer.json()) == (500, {"own": "error"})
    assert answer["X-Portal-Upstream-Status"] == "500"
    bench.timeout_seconds = 0.2
    upstream.script = lambda exchange: exchange.hang()
    assert client.get(url(bench)).status_code == 504
    bench.timeout_seconds = 10.0
    upstream.script = lambda exchange: exchange.reply(
        503, status(503, "ServiceUnavailable", "no endpoints available")
    )
    answer = client.get(url(bench))
    assert (answer.status_code, answer.json()["code"]) == (503, "no_endpoints")
    assert int(answer["Retry-After"]) >= 1
    assert "X-Portal-Upstream-Status" not in answer


@pytest.mark.parametrize("path", ["../../secrets", "%2e%2e/x", "a/%2e%2e/%2e%2e/b"])
def test_a_path_cannot_leave_the_endpoint(bench, upstream, path):
    answer = api_client(bench.user, name="u").get(url(bench, path))
    assert answer.status_code in {400, 404}
    assert upstream.requests == []


def test_one_that_sleeps_is_called(bench, upstream):
    bench.set_phase(bench.endpoint, "Running", "ScaledToZero")
    answer = api_client(bench.user).post(url(bench), {}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (503, "endpoint_waking")
    assert int(answer["Retry-After"]) >= 1
    bench.endpoint.refresh_from_db()
    assert bench.endpoint.called_at is not None
    assert upstream.requests == []


def test_a_request_to_one_that_is_up_counts_as_a_call_so_that_it_comes_back(bench, upstream):
    assert api_client(bench.user).post(url(bench), {}, format="json").status_code == 200
    bench.endpoint.refresh_from_db()
    assert bench.endpoint.called_at is not None


def test_a_request_to_one_that_is_stopped_calls_nobody(bench, upstream):
    bench.set_phase(bench.endpoint, "Suspended", "ByUser")
    assert api_client(bench.user).post(url(bench), {}, format="json").status_code == 503
    bench.endpoint.refresh_from_db()
    assert bench.endpoint.called_at is None
