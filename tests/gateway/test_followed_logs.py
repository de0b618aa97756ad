"""A log is followed over connections that are cut: as events by `Last-Event-ID`, and by a page in Chromium."""

from __future__ import annotations

import json
import random
import threading
from functools import partial
from uuid import uuid4

import pytest
from django.db import connections

from gateway.live import events, logstream
from tests.effort import drawn
from tests.factories.submitted import make_run
from tests.factories.teams import api_client, make_member, make_team
from tests.gateway.live_server import path_of
from tests.gateway.log_writer import Writer
from tests.gateway.test_streams import events_path
from tests.waiting import until
from tests.web.browsing import chromium, meanwhile, needs_chromium
from workloads.services import notify
from workloads.states import Phase

SEED = 20261124
RECONNECTS = drawn(usual=8, soak=1_000)
AHEAD = 200
CUTS = drawn(usual=4, soak=25)
"""A page keeps its last 5,000 lines: more than are written here."""


class Reader:
    """Follows the log as events, each time from the id that it got last."""

    def __init__(self, live, bench) -> None:
        self.live, self.bench = live, bench
        self.rest = api_client(bench.user)
        self.last_id, self.texts = "", []
        self.over = False

    def connect(self):
        """As REST leads there: a new ticket each time, and the header goes with it."""
        headers = {"Last-Event-ID": self.last_id} if self.last_id else {}
        answer = self.rest.get(
            f"/api/v1/endpoints/{self.bench.endpoint.public_id}/logs/?follow=1&format=json", headers=headers
        )
        assert answer.status_code == 307, answer.content
        return self.live.stream(path_of(answer["Location"]), **headers)

    def is_near(self, written: int) -> bool:
        return written - len(self.texts) < AHEAD

    def read(self, count: int, *, then: int) -> None:
        """So many events, then so many bytes of the next, then the connection is cut."""
        stream = self.connect()
        for _ in range(count):
            told = stream.event()
            if told is None or told[1] == "end":
                self.over = True
                break
            self.last_id = told[0]
            self.texts += [line["text"] for line in json.loads(told[2])["lines"]]
        if not self.over and then:
            stream.response.read(then)
        stream.close()


def test_no_line_is_lost_or_repeated_by_who_comes_back_with_the_last_id(live, bench, monkeypatch):
    """Invariant: what all connections together were told is what was written, in order."""
    monkeypatch.setattr(logstream, "LINES_A_PAGE", 25)
    dice = random.Random(SEED)
    writer = Writer(bench.endpoint)
    texts = [f"line {number}" for number in range(RECONNECTS * 50)]
    reader = Reader(live, bench)

    def write() -> None:
        rest = texts
        try:
            while rest:
                # Not so far ahead that a few connections could read it all.
                until(partial(reader.is_near, len(texts) - len(rest)))
                size = dice.randint(20, 80)
                writer.write(*rest[:size])
                rest = rest[size:]
            writer.end()
        finally:
            connections.close_all()

    writing = threading.Thread(target=write)
    writing.start()
    met = 0
    while not reader.over:
        met += 1
        cut = met <= RECONNECTS
        reader.read(random.Random(met).randint(0, 3) if cut else 10**9, then=10 if cut else 0)
    writing.join()
    assert len(reader.texts) == len(texts)
    assert reader.texts == texts
    assert met > RECONNECTS


def test_a_stream_of_events_tells_of_new_lines_of_one_log_and_its_id_stays(live, bench):
    writer = Writer(bench.endpoint)
    stream = live.stream(events_path(bench.user, log=str(bench.endpoint.public_id)))
    place = stream.event_id()
    writer.write("one")
    assert stream.event() == (
        "",
        "log",
        json.dumps({"workload": str(bench.endpoint.public_id)}, separators=(",", ":")),
    )
    stream.close()
    quiet = live.stream(events_path(bench.user))
    assert quiet.event_id() == place
    writer.write("two")
    notify(bench.endpoint)
    assert quiet.event()[1] == "workload"


@pytest.mark.parametrize(("of", "status"), [("odd", 400), ("another", 404), ("nobody", 404)])
def test_only_a_log_that_may_be_seen_is_told_of(live, bench, of, status):
    ids = {
        "odd": "x",
        "another": str(bench.make_endpoint("other", team=make_team()).public_id),
        "nobody": str(uuid4()),
    }
    assert live.get(events_path(bench.user, log=ids[of])).status == status


@pytest.fixture
def page(bench, live, live_server, client, settings):
    """The log of a run in Chromium, with a live process behind it, and who writes it."""
    settings.LIVE_URL = f"http://127.0.0.1:{live.port}"
    settings.PUBLIC_URL = live_server.url
    settings.CONTENT_SECURITY_POLICY["DIRECTIVES"]["connect-src"].append(settings.LIVE_URL)
    member = make_member(team=bench.team).user
    run = make_run(bench.team, member, phase=Phase.RUNNING)
    writer = Writer(run, "train-0")
    client.force_login(member)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
    address = f"{live_server.url}{run.own_kind.page_of(run.public_id)}?tab=logs"
    with chromium() as browser:
        context = browser.new_context()
        context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": live_server.url}])
        page = context.new_page()
        page.goto(address)
        yield page, writer


def shown(page) -> list[str]:
    return page.locator(".log-line .text").all_text_contents()


@pytest.mark.browser
@needs_chromium
def test_a_page_follows_a_log_by_its_one_stream_and_loses_or_repeats_no_line_when_that_is_cut(
    page, live, monkeypatch
):
    found, writer = page
    monkeypatch.setattr(events, "LOG_SECONDS", 0.02)
    found.wait_for_selector("live-stream[state=live]", state="attached")
    assert live.health()["streams"] == 1
    written: list[str] = []

    def write(count: int) -> None:
        texts = [f"line {len(written) + number}" for number in range(count)]
        written.extend(texts)
        meanwhile(lambda: writer.write(*texts))

    for _ in range(CUTS):
        write(60)
        until(lambda: shown(found) == written, said=lambda: (shown(found)[-3:], len(written)))
        live.loop.call_soon_threadsafe(live.application.live.hub.end_all)
        write(60)
        until(lambda: live.health()["streams"] == 0)
        write(60)
        until(lambda: live.health()["streams"] == 1)
    until(lambda: shown(found) == written, said=lambda: (shown(found)[-3:], len(written)))
    meanwhile(writer.end)
    found.get_by_text("End of ").wait_for()
    assert shown(found) == written
    assert live.health()["streams"] == 1
