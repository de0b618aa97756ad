"""Following a log: stored lines, then what is stored while one looks, until the attempt is complete."""

from __future__ import annotations

import json
from urllib.parse import urlencode

import pytest

from foundation import clock
from gateway.live import logstream
from logs.store import mark_stored
from teams import services
from teams.actors import Actor
from teams.tickets import mint_for
from tests.factories.teams import make_user
from tests.gateway.log_writer import Writer
from tests.waiting import until
from workloads.services import notify


@pytest.fixture
def writer(bench) -> Writer:
    return Writer(bench.endpoint)


def path(bench, user=None, **query) -> str:
    resource = str(bench.endpoint.public_id)
    ticket = mint_for(user=user or bench.user, purpose="logs", resource=resource, now=clock.now())
    return f"/-/logs/{resource}/?{urlencode({'ticket': ticket, **query})}"


def test_text_follows_until_the_attempt_is_complete(live, bench, writer):
    writer.write("one", "two")
    stream = live.stream(path(bench))
    assert stream.response.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert [stream.response.readline() for _ in range(2)] == [b"one\n", b"two\n"]
    writer.write("three")
    assert stream.response.readline() == b"three\n"
    writer.end()
    assert stream.response.read() == b""


def test_a_log_that_is_stored_before_its_attempt_has_ended_ends_with_the_move(
    live, bench, writer, monkeypatch
):
    # No look by the clock comes within the time that the stream waits.
    monkeypatch.setattr(logstream, "PING_SECONDS", 600.0)
    writer.write("one")
    stream = live.stream(path(bench))
    assert stream.response.readline() == b"one\n"
    mark_stored(writer.pod, now=clock.now())
    writer.write("two")
    assert stream.response.readline() == b"two\n"
    writer.attempt.ended_at = clock.now()
    writer.attempt.save()
    notify(bench.endpoint)
    assert stream.response.read() == b""


def test_who_follows_before_anything_has_begun_gets_the_first_attempt(live, bench):
    stream = live.stream(path(bench, format="sse"))
    writer = Writer(bench.endpoint)
    writer.write("one")
    told = json.loads(stream.event()[2])
    assert (told["attempt"], [line["text"] for line in told["lines"]]) == (1, ["one"])
    writer.end()
    assert stream.event()[1] == "end"


def test_of_what_is_written_only_the_wanted_lines_come(live, bench, writer):
    writer.write("ERROR one", "two")
    stream = live.stream(path(bench, level="error"))
    assert stream.response.readline() == b"ERROR one\n"
    writer.write("three", "ERROR four")
    assert stream.response.readline() == b"ERROR four\n"


def test_events_carry_lines_and_a_cursor_to_go_on_from(live, bench, writer):
    writer.write("one", "two")
    stream = live.stream(path(bench, format="sse"))
    cursor, name, data = stream.event()
    assert name == "lines"
    told = json.loads(data)
    assert [line["text"] for line in told["lines"]] == ["one", "two"]
    assert told["lines"][0] | {"text": ""} == {
        "at": "2026-01-01T00:00:00Z",
        "pod": "digits-0",
        "container": "main",
        "text": "",
        "continued": False,
        "number": 1,
    }
    stream.close()
    writer.write("three")
    writer.end()
    again = live.stream(path(bench, format="sse", cursor=cursor))
    assert [line["text"] for line in json.loads(again.event()[2])["lines"]] == ["three"]
    assert again.event()[1] == "end"
    assert again.event() is None


def test_lines_of_several_pods_are_told_apart(live, bench, writer):
    second = Writer(bench.endpoint, "digits-1")
    writer.write("a")
    second.write("b")
    writer.end()
    second.end()
    lines = sorted(live.get(path(bench)).body.splitlines())
    assert lines == [b"[digits-0] a", b"[digits-1] b"]
    assert live.get(path(bench, pod="digits-1")).body == b"b\n"


def test_tail_begins_near_the_end(live, bench, writer):
    writer.write(*(f"line {number}" for number in range(50)))
    writer.end()
    assert live.get(path(bench, tail=2)).body == b"line 48\nline 49\n"


def test_more_than_a_page_comes_in_order(live, bench, writer):
    texts = [f"line {number}" for number in range(2500)]
    writer.write(*texts)
    writer.end()
    assert live.get(path(bench)).body.decode().splitlines() == texts


def test_what_was_missed_while_nobody_listened_is_read_when_the_connection_is_back(live, bench, writer):
    from tests.gateway.test_streams import terminate_listener

    writer.write("one")
    stream = live.stream(path(bench))
    assert stream.response.readline() == b"one\n"
    assert terminate_listener() == 1
    writer.write("two")
    assert stream.response.readline() == b"two\n"


def test_only_the_tickets_own_log_opens_and_only_to_those_who_may_see_it(live, bench, writer):
    writer.write("secret")
    assert live.get(path(bench, user=make_user())).status == 404
    other = bench.make_endpoint("other")
    swapped = path(bench).replace(f"/-/logs/{bench.endpoint.public_id}", f"/-/logs/{other.public_id}")
    assert live.get(swapped).status == 401
    assert live.get(f"/-/logs/{bench.endpoint.public_id}/").status == 401


def test_the_log_ends_for_a_removed_member(live, bench, writer):
    writer.write("one")
    stream = live.stream(path(bench))
    assert stream.response.readline() == b"one\n"
    services.remove_member(actor=Actor.system("tests"), membership=bench.membership, now=clock.now())
    views = live.application.live.audience._views
    until(lambda: not any("vision" in view.slugs for view in views.values()))
    writer.write("not for them")
    assert stream.response.read() == b""


@pytest.mark.parametrize(
    "query", [{"attempt": "x"}, {"since": "today"}, {"format": "xml"}, {"cursor": "odd"}]
)
def test_a_malformed_question_is_a_400(live, bench, writer, query):
    answer = live.get(path(bench, **query))
    assert answer.status == 400
    assert answer.json["errors"][0]["field"] in query


def test_an_unknown_attempt_or_pod_is_a_404(live, bench, writer):
    assert live.get(path(bench, attempt=7)).status == 404
    assert live.get(path(bench, pod="nobody")).status == 404
