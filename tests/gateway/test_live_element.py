"""`<live-stream>` in a browser, with a real live process behind it."""

from __future__ import annotations

import shutil

import pytest

from tests.gateway.live_server import until
from workloads.services import notify

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH"),
]

LISTEN = """window.seen = [];
for (const name of ["live:workload", "live:poll"])
  document.body.addEventListener(name, (event) => window.seen.push([name, event.detail?.workload ?? ""]));
document.body.append(document.createElement("live-stream"));"""


@pytest.fixture
def page(bench, live, live_server, client, settings):
    from playwright.sync_api import sync_playwright

    settings.LIVE_URL = f"http://127.0.0.1:{live.port}"
    settings.PUBLIC_URL = live_server.url
    client.force_login(bench.user)
    sources = {"default-src": ["'self'"], "connect-src": ["'self'", settings.LIVE_URL]}
    settings.CONTENT_SECURITY_POLICY = {"DIRECTIVES": sources}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context()
        name = settings.SESSION_COOKIE_NAME
        context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": live_server.url}])
        found = context.new_page()
        # Any document of the portal's own: Chromium lets a made-up one reach no address of this machine.
        found.goto(f"{live_server.url}/live-ticket/")
        found.add_script_tag(url="/static/portal/live.js")
        found.evaluate(LISTEN)
        yield found
        browser.close()


def wait_live(page):
    page.wait_for_selector("live-stream[state=live]", state="attached")


@pytest.mark.django_db(transaction=True)
def test_the_page_hears_events_has_one_stream_and_comes_back_when_it_is_cut(page, bench, live):
    wait_live(page)
    assert live.health()["streams"] == 1
    notify(bench.endpoint)
    page.wait_for_function(
        "id => seen.some(([n, w]) => n === 'live:workload' && w === id)", arg=str(bench.endpoint.public_id)
    )
    # A second element on the page opens nothing.
    page.evaluate("document.body.append(document.createElement('live-stream'))")
    live.loop.call_soon_threadsafe(live.application.live.hub.end_all)
    until(lambda: live.health()["streams"] == 0)
    page.evaluate("seen.length = 0")
    until(lambda: live.health()["streams"] == 1)
    wait_live(page)
    missed = bench.make_endpoint("missed")
    page.wait_for_function("id => seen.some(([, w]) => w === id)", arg=str(missed.public_id))


@pytest.mark.django_db(transaction=True)
def test_the_stream_is_closed_with_its_element(page, bench, live):
    wait_live(page)
    page.evaluate("document.querySelector('live-stream').remove()")
    until(lambda: live.health()["streams"] == 0)
