"""`<live-stream>` in a browser, with a real live process behind it."""

from __future__ import annotations

import pytest

from tests.waiting import until
from tests.web.browsing import chromium, meanwhile, needs_chromium
from workloads.services import notify

pytestmark = [pytest.mark.browser, needs_chromium]

LISTEN = """window.seen = [];
for (const name of ["live:workload", "live:poll"])
  document.body.addEventListener(name, (event) => window.seen.push([name, event.detail?.workload ?? ""]));
document.body.append(document.createElement("live-stream"));"""


@pytest.fixture
def page(bench, live, live_server, client, settings):
    settings.LIVE_URL = f"http://127.0.0.1:{live.port}"
    settings.PUBLIC_URL = live_server.url
    client.force_login(bench.user)
    sources = {"default-src": ["'self'"], "connect-src": ["'self'", settings.LIVE_URL]}
    settings.CONTENT_SECURITY_POLICY = {"DIRECTIVES": sources}
    with chromium() as browser:
        context = browser.new_context()
        name = settings.SESSION_COOKIE_NAME
        context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": live_server.url}])
        found = context.new_page()
        # Any document of the portal's own: Chromium lets a made-up one reach no address of this machine.
        found.goto(f"{live_server.url}/live-ticket/")
        found.add_script_tag(url="/static/portal/live.js")
        found.evaluate(LISTEN)
        yield found


def heard(page, workload):
    of_it = "id => seen.some(([name, which]) => name === 'live:workload' && which === id)"
    return page.evaluate(of_it, str(workload.public_id))


def wait_live(page):
    page.wait_for_selector("live-stream[state=live]", state="attached")


def test_the_page_hears_events_has_one_stream_and_comes_back_when_it_is_cut(page, bench, live):
    wait_live(page)
    assert live.health()["streams"] == 1
    meanwhile(lambda: notify(bench.endpoint))
    until(lambda: heard(page, bench.endpoint))
    # A second element on the page opens nothing.
    page.evaluate("document.body.append(document.createElement('live-stream'))")
    live.loop.call_soon_threadsafe(live.application.live.hub.end_all)
    until(lambda: live.health()["streams"] == 0)
    page.evaluate("seen.length = 0")
    until(lambda: live.health()["streams"] == 1)
    wait_live(page)
    missed = meanwhile(lambda: bench.make_endpoint("missed"))
    until(lambda: heard(page, missed))


@pytest.mark.matrix
def test_the_stream_is_closed_with_its_element(page, bench, live):
    wait_live(page)
    page.evaluate("document.querySelector('live-stream').remove()")
    until(lambda: live.health()["streams"] == 0)
