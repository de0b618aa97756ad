"""`endpoints/{id}/invoke/…` leads to the live process with a ticket; a page tries an endpoint out from web.

Nothing of the portal goes out, and nothing harmful comes back.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
import requests
from django.core.wsgi import get_wsgi_application
from django.db import connections
from django.test import Client

from foundation import clock
from foundation.errors import PortalError
from gateway.invocations import PLACES, PLACES_OF_TEAM, Call, harmless_headers, try_endpoint
from gateway.models import RequestCount
from portal.settings.http_limits import HttpLimits
from teams.models import ApiToken, Membership
from telemetry.served_metrics import ENDPOINT_LABEL, REQUESTS_HELD, REQUESTS_TOTAL
from tests.cluster.cluster_faults import status
from tests.factories.teams import api_client, make_member, make_team
from tests.gateway.live_server import path_of
from tests.runtime.raw_http import serving
from tests.waiting import result_of, until
from tests.web.browsing import chromium, needs_chromium, session_of
from workloads.services import notify

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


def led(answer, live, *, method="POST", body=b"{}", headers=None):
    """What the live process answers to who follows."""
    assert answer.status_code == 307
    assert answer["Cache-Control"] == "no-store"
    return live.send(method, path_of(answer["Location"]), body=body, headers=headers)


# -- by REST -----------------------------------------------------------------------------------------------------------


def test_web_leads_to_live_which_passes_the_request_on_once(bench, upstream, live):
    client = api_client(bench.user, name="reads", scopes=("read",))
    answer = client.post(url(bench, "v1/predict?a=b%20c"), {"pixels": [1]}, format="json")
    assert upstream.requests == []
    told = led(answer, live, body=b'{"pixels":[1]}')
    assert (told.status, told.json, told.headers["x-portal-upstream-status"]) == (200, {"digit": 7}, "200")
    (request,) = upstream.requests
    assert (request.method, request.path) == ("POST", f"{PREFIX}/v1/predict?a=b%20c")
    assert request.body == b'{"pixels":[1]}'
    assert request.headers["authorization"] == "Bearer right"
    again = led(answer, live)
    assert (again.status, again.json["code"]) == (401, "ticket_used")
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("written", ["models/m:v1:predict", "%C3%BC%20/x", "a%25b", "plain"])
def test_a_path_reaches_the_endpoint_as_it_was_written(written, bench, upstream, live):
    client = api_client(bench.user, name="writes")
    # As the server of web gives it, which a client of Django's does not.
    answer = client.post(url(bench, written), {}, format="json", RAW_URI=url(bench, written))
    assert led(answer, live).status == 200
    assert upstream.requests[0].path == f"{PREFIX}/{written}"
    assert led(client.post(url(bench, written), {}, format="json"), live).status == 200


def test_an_escaped_slash_is_refused_as_at_the_endpoints_own_address_and_made_no_other_path(
    bench, upstream, live
):
    client, path = api_client(bench.user, name="writes"), url(bench, "a/b%2Fc")
    told = led(client.post(path, {}, format="json", RAW_URI=path), live)
    assert (told.status, "no encoded slash" in told.json["detail"]) == (400, True)
    assert live.get("/vision/digits/a/b%2Fc", token=bench.token).status == 400
    assert upstream.requests == []


def test_every_method_passes(bench, upstream, live):
    methods, client = ("GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"), api_client(bench.user, name="all")
    upstream.script = lambda exchange: exchange.reply(200, body=b"")
    for method in methods:
        answer = client.generic(method, url(bench))
        assert led(answer, live, method=method, body=None).status in {200, 501}
    assert api_client().options(url(bench)).status_code == 401
    assert tuple(request.method for request in upstream.requests) == methods[:5]


def test_a_call_is_counted_held_and_limited_as_any_other(bench, upstream, live):
    client = api_client(bench.user, name="u")
    label = {ENDPOINT_LABEL: str(bench.endpoint.public_id)}
    # Held while it sleeps, in the live process and in no thread of web. It slept before live had heard of it.
    bench.set_phase(bench.endpoint, "Running", "ScaledToZero")
    answer, got = client.post(url(bench), {}, format="json"), []
    waiting = threading.Thread(target=lambda: got.append(led(answer, live)))
    waiting.start()
    until(lambda: live.metric(REQUESTS_HELD, **label) == 1)

    def is_called() -> bool:
        bench.endpoint.refresh_from_db()
        return bench.endpoint.called_at is not None

    until(is_called)
    bench.set_phase(bench.endpoint, "Running", "Ready")
    notify(bench.endpoint)
    waiting.join(30)
    assert got[0].status == 200
    assert live.metric(REQUESTS_TOTAL, **label) == 1
    # More than a body may have.
    large = led(client.post(url(bench), {}, format="json"), live, body=b"x" * (64 * 1024 + 1))
    assert large.status == 413
    assert client.generic("POST", url(bench), b"x" * (2**20 + 1)).status_code == 413


def test_rights_are_those_of_the_moment_it_is_followed(bench, upstream, live):
    client = api_client(bench.user, name="u")
    answer = client.post(url(bench), {}, format="json")
    ApiToken.objects.update(revoked_at=clock.now())
    assert led(answer, live).status == 401
    other = api_client(bench.user, name="other").post(url(bench), {}, format="json")
    Membership.objects.all().delete()
    assert led(other, live).status == 404
    bad = live.send("POST", "/-/invoke/abc:def:ghi/v1", body=b"{}")
    assert (bad.status, bad.json["code"]) == (401, "ticket_invalid")
    assert upstream.requests == []


def test_a_session_needs_its_csrf_token_which_goes_no_further(bench, upstream, page, live):
    assert page.post(url(bench), b"{}", content_type="application/json").status_code == 403
    canary = {"X-Forwarded-For": "canary", "Referer": "http://testserver/canary", "HX-Request": "canary"}
    headers = with_csrf(page) | canary
    answer = page.post(url(bench), b"{}", content_type="application/json", headers=headers)
    assert led(answer, live, headers=headers | {"Cookie": "canary"}).status == 200
    (request,) = upstream.requests
    assert request.headers.pop("authorization") == "Bearer right"
    assert "cookie" not in request.headers
    assert "canary" not in repr(request.headers)
    assert headers["X-CSRFToken"] not in repr(request.headers)


def test_a_browser_may_follow_from_the_portals_pages_and_ask_first(bench, upstream, live, settings):
    answer = api_client(bench.user).post(url(bench), {}, format="json")
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    may = led(answer, live, method="OPTIONS", body=None, headers=asked)
    assert (may.status, may.headers["access-control-allow-methods"]) == (204, "POST")
    told = led(answer, live)
    assert told.status == 200
    for each in (may, told):
        assert each.headers["access-control-allow-origin"] == settings.PUBLIC_URL


def test_html_of_an_endpoint_runs_no_script(bench, upstream, page, live):
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
    answer = led(page.get(url(bench)), live, method="GET", body=None)
    assert answer.body == script
    assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    dropped = {"location", "x-accel-redirect", "www-authenticate", "refresh", "set-cookie"}
    assert not dropped & answer.headers.keys()


@pytest.mark.parametrize("path", ["../../secrets", "%2e%2e/x", "a/%2e%2e/%2e%2e/b", "a/./b", "a%5Cb"])
def test_a_path_cannot_leave_the_endpoint(bench, upstream, path):
    client = api_client(bench.user, name="u")
    assert client.get(url(bench, path)).status_code == 400
    assert client.get(url(bench, path), RAW_URI=url(bench, path)).status_code == 400


# -- real clients ------------------------------------------------------------------------------------------------------


@contextmanager
def portal(live, settings):
    """Web in front of it, under another host name than live's; its origin."""
    settings.LIVE_URL = f"http://127.0.0.1:{live.port}"
    application = get_wsgi_application()

    def web(environ, start_response):
        answer = application(environ, start_response)
        try:
            yield from answer
        finally:
            answer.close()
            connections.close_all()

    with serving(web, HttpLimits()) as port:
        settings.PUBLIC_URL = f"http://localhost:{port}"
        yield settings.PUBLIC_URL


def test_requests_keeps_method_and_body_and_drops_the_bearer(bench, upstream, live, settings):
    with portal(live, settings) as origin, requests.Session() as session:
        answer = session.put(
            origin + url(bench, "v1"), data=b"pixels", headers={"Authorization": f"Bearer {bench.token}"}
        )
    assert (answer.status_code, answer.json()) == (200, {"digit": 7})
    (request,) = upstream.requests
    assert (request.method, request.body) == ("PUT", b"pixels")
    assert urlsplit(answer.url).port == live.port
    assert "authorization" not in live.seen[-1]


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_curl_keeps_method_and_body_and_drops_the_bearer(bench, upstream, live, settings):
    with portal(live, settings) as origin:
        command = ["curl", "-sSL", "-H", f"Authorization: Bearer {bench.token}", "-d", "pixels"]
        done = subprocess.run(
            [*command, origin + url(bench, "v1")], capture_output=True, timeout=60, check=True
        )
    assert json.loads(done.stdout) == {"digit": 7}
    (request,) = upstream.requests
    assert (request.method, request.body) == ("POST", b"pixels")
    assert "authorization" not in live.seen[-1]


FETCH = """async ([url, token]) => {
    const headers = {"X-CSRFToken": token, "Content-Type": "application/json"};
    const answer = await fetch(url, {method: "PUT", body: '{"pixels": 1}', headers});
    return [answer.status, answer.url, await answer.json()];
}"""


@pytest.mark.browser
@needs_chromium
def test_fetch_of_a_page_keeps_method_and_body_across_the_origins(bench, upstream, live, settings):
    """Under the policy of the portal's own pages, and with the question that a browser asks first."""
    session = session_of(bench.user)
    with portal(live, settings) as origin, chromium() as browser:
        directives = {
            **settings.CONTENT_SECURITY_POLICY["DIRECTIVES"],
            "connect-src": ["'self'", settings.LIVE_URL],
        }
        settings.CONTENT_SECURITY_POLICY = {"DIRECTIVES": directives}
        context = browser.new_context(base_url=origin)
        cookies = {settings.SESSION_COOKIE_NAME: session, settings.CSRF_COOKIE_NAME: "a" * 32}
        context.add_cookies(
            [{"name": name, "value": value, "url": origin} for name, value in cookies.items()]
        )
        page = context.new_page()
        page.goto("/profile/")
        status, where, told = page.evaluate(FETCH, [url(bench, "v1?a=b"), "a" * 32])
    assert (status, told) == (200, {"digit": 7})
    assert urlsplit(where).port == live.port
    (request,) = upstream.requests
    assert (request.method, request.body) == ("PUT", b'{"pixels": 1}')
    assert "x-csrftoken" not in request.headers
    assert not {"cookie", "authorization"} & live.seen[-1].keys()


# -- from a page -------------------------------------------------------------------------------------------------------


def tried(bench, endpoint=None, **values):
    call = Call(method="POST", path="/", query="", headers=(), body=b"", **values)
    return try_endpoint(user=bench.user, public_id=(endpoint or bench.endpoint).public_id, call=call)


def test_a_try_counts_like_a_request_through_the_gateway(bench, upstream):
    tried(bench)
    upstream.script = lambda exchange: exchange.reply(500, {"own": "error"})
    tried(bench)
    no_endpoints = status(503, "ServiceUnavailable", "no endpoints available")
    upstream.script = lambda exchange: exchange.reply(503, no_endpoints)
    assert code_of(bench) == "no_endpoints", "nobody was asked, so there is no duration"
    rows = RequestCount.objects.filter(endpoint=bench.endpoint).order_by("status_class")
    assert [(row.status_class, row.count, sum(row.latency)) for row in rows] == [(2, 1, 1), (5, 2, 1)]


def code_of(bench, endpoint=None) -> str:
    with pytest.raises(PortalError) as caught:
        tried(bench, endpoint)
    return caught.value.code


@pytest.mark.parametrize(
    ("content_type", "shown"),
    [("application/json", True), ("text/plain", True), ("image/svg+xml", False), ("application/pdf", False)],
)
def test_what_is_neither_json_nor_text_is_a_download(content_type, shown):
    assert ("Content-Disposition" not in harmless_headers([("content-type", content_type)])) == shown


def test_an_endpoint_that_fails_is_told_apart_from_the_portal(bench, upstream):
    upstream.script = lambda exchange: exchange.reply(500, {"own": "error"})
    assert tried(bench).status == 500
    upstream.script = lambda exchange: exchange.reply(200, body=b"x" * (4 * 2**20 + 1))
    assert code_of(bench) == "response_too_large"
    bench.timeout_seconds = 0.2
    upstream.script = lambda exchange: exchange.hang()
    assert code_of(bench) == "timeout"
    bench.timeout_seconds = 10.0
    upstream.script = lambda exchange: exchange.reply(
        503, status(503, "ServiceUnavailable", "no endpoints available")
    )
    assert code_of(bench) == "no_endpoints"
    bench.set_phase(bench.endpoint, "Starting", "Loading")
    assert code_of(bench) == "endpoint_not_live"


def test_endpoints_that_do_not_answer_hold_few_threads_of_web(bench, upstream):
    free, asked = threading.Event(), threading.Semaphore(0)

    def script(exchange):
        asked.release()
        assert free.wait(30)
        exchange.reply(200, {})

    upstream.script = script
    others = make_member("viewer", team=make_team("others"), user=bench.user).team
    theirs = bench.make_endpoint("theirs", team=others)
    with ThreadPoolExecutor(PLACES) as pool:
        waiting = [pool.submit(in_a_thread, bench) for _ in range(PLACES_OF_TEAM)]
        for _ in waiting:
            assert asked.acquire(timeout=30)
        assert code_of(bench) == "too_many_tries", "one team's own are no more"
        waiting += [pool.submit(in_a_thread, bench, theirs) for _ in range(PLACES - PLACES_OF_TEAM)]
        for _ in range(PLACES - PLACES_OF_TEAM):
            assert asked.acquire(timeout=30)
        assert code_of(bench, theirs) == "too_many_tries", "and all together have an end"
        free.set()
        assert [result_of(each).status for each in waiting] == [200] * PLACES
    assert tried(bench).status == 200


def in_a_thread(bench, endpoint=None):
    try:
        return tried(bench, endpoint)
    finally:
        connections.close_all()


def test_one_that_sleeps_is_called(bench, upstream):
    bench.set_phase(bench.endpoint, "Running", "ScaledToZero")
    assert code_of(bench) == "endpoint_waking"
    bench.endpoint.refresh_from_db()
    assert bench.endpoint.called_at is not None
    assert upstream.requests == []


def test_a_request_to_one_that_is_up_counts_as_a_call_so_that_it_comes_back(bench, upstream):
    assert tried(bench).status == 200
    bench.endpoint.refresh_from_db()
    assert bench.endpoint.called_at is not None


def test_a_request_to_one_that_is_stopped_calls_nobody(bench, upstream):
    bench.set_phase(bench.endpoint, "Suspended", "ByUser")
    assert code_of(bench) == "endpoint_not_live"
    bench.endpoint.refresh_from_db()
    assert bench.endpoint.called_at is None
