"""Limits, deadlines and strict reading of one connection, as web and live have them alike."""

from __future__ import annotations

import json
import threading
from contextlib import ExitStack
from dataclasses import replace

import pytest

from foundation.http.clients import HttpClient
from portal.runtime.front import BODIES_MAX, MEMORY_BYTES
from portal.settings.http_limits import HttpLimits
from tests.runtime.raw_http import Raw, get, many, served, serving
from tests.waiting import until

# Deadlines that no test meets by accident; each test shortens the one that it is about.
CALM = HttpLimits(header_seconds=60, body_seconds=60, reader_seconds=60, idle_seconds=60)
WHOLE = MEMORY_BYTES + 1000
BODY = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"


def echo(environ, start_response):
    """Answers with the body it was sent."""
    body = environ["wsgi.input"].read()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


async def live(scope, receive, send):
    """As the gateway does: takes the body as it comes."""
    more = True
    while more:
        more = (await receive()).get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


SERVERS = {"web": (echo, True), "live": (live, False)}


@pytest.fixture(scope="module", params=sorted(SERVERS))
def port(request):
    app, wsgi = SERVERS[request.param]
    with serving(app, CALM, wsgi=wsgi) as opened:
        yield opened


HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"
SMUGGLING = {
    "CL and TE": HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "TE and CL": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    "the same length twice": HEAD + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd",
    "a list of lengths": HEAD + b"Content-Length: 4, 4\r\n\r\nabcd",
    "two codings": HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "a list of codings": HEAD + b"Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
    "a coding that is none": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a coding in HTTP/1.0": b"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a signed length": HEAD + b"Content-Length: +4\r\n\r\nabcd",
    "a length in hex": HEAD + b"Content-Length: 0x4\r\n\r\nabcd",
    "a negative length": HEAD + b"Content-Length: -4\r\n\r\nabcd",
    "a space before the colon": HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "a folded header": HEAD + b"X-A: b\r\n Transfer-Encoding: chunked\r\n\r\n",
    "LF alone": b"POST / HTTP/1.1\r\nHost: x\r\nX-A: b\nContent-Length: 4\r\n\r\nabcd",
    "LF alone at the end": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\n\nabcd",
    "CR alone": HEAD + b"X-A: b\rContent-Length: 4\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("shape", sorted(SMUGGLING))
def test_what_two_readers_may_read_in_two_ways_is_refused_and_the_connection_closed(port, shape):
    raw = Raw(port, SMUGGLING[shape])
    answer = raw.answer()
    assert (answer.status, answer.headers["connection"]) == (400, "close")
    assert json.loads(answer.body)["code"] == "malformed_http"
    assert raw.is_closed()
    assert raw.buffer == b"", "nothing is answered after it"
    raw.close()


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n", "illegal header line"),
        (b"nonsense 'b' \x01\r\n\r\n", "illegal request line"),
        (b"GET / HTTP/1.1\r\n\r\n", "Missing mandatory Host: header"),
    ],
)
def test_what_is_no_request_is_told_in_words_and_not_as_python_shows_it(port, sent, reason):
    raw = Raw(port, sent)
    assert json.loads(raw.answer().body)["detail"] == f"This is no HTTP request that is taken here: {reason}."
    raw.close()


@pytest.mark.parametrize("sent", [b"zz\r\n", b"4\nabcd\r\n"])
def test_a_chunk_that_is_none_is_refused_and_ends_the_connection(port, sent):
    raw = Raw(port, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + sent)
    answer = raw.answer()
    assert (answer.status, json.loads(answer.body)["code"]) == (400, "malformed_http")
    assert raw.is_closed()
    raw.close()


def test_a_chunk_that_is_none_after_the_answer_has_begun_cuts_it_off():
    async def begins(_scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
        await send({"type": "http.response.body", "body": b"ok", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass

    with serving(begins, CALM, wsgi=False) as port:
        raw = Raw(port, HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        while not raw.buffer.endswith(b"ok"):
            raw._more()
        raw.send(b"zz\r\n")
        assert raw.is_closed()
        assert b"400" not in raw.buffer
        raw.close()


def test_every_answer_is_dated(port):
    raw = Raw(port, HEAD + b"Content-Length: 2\r\n\r\nok")
    assert raw.answer().headers["date"].endswith(" GMT")
    raw.send(b"nonsense\r\n\r\n")
    assert raw.answer().headers["date"].endswith(" GMT")
    raw.close()


def test_who_asks_before_sending_too_much_is_told_at_once():
    with serving(echo, replace(CALM, body_bytes=1000)) as port:
        raw = Raw(port, b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n")
        answer = raw.answer()
        assert (answer.status, answer.headers["connection"]) == (413, "close")
        assert raw.is_closed()
        raw.close()


def test_ordinary_requests_pass_on_one_connection_whole_chunked_and_pipelined(port):
    raw = Raw(port, HEAD + b"Content-Length: 2\r\n\r\nok" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    assert raw.answer().body == b"ok"
    raw.send(b"1\r\no\r\n1\r\nk\r\n0\r\n\r\n")
    assert raw.answer().body == b"ok"
    raw.send(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    assert raw.answer().status == 100
    raw.send(b"ok")
    assert raw.answer().body == b"ok"
    raw.close()


def test_headers_that_are_too_large_are_refused(port):
    raw = Raw(port, b"GET / HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * (CALM.header_bytes + 1))
    answer = raw.answer()
    assert (answer.status, json.loads(answer.body)["code"]) == (431, "headers_too_large")
    assert raw.is_closed()
    raw.close()


@pytest.mark.parametrize("server", sorted(SERVERS))
def test_headers_that_do_not_come_are_not_waited_for(server):
    app, wsgi = SERVERS[server]
    # Long enough for a head that is sent at once to arrive on a busy machine.
    with serving(app, replace(CALM, header_seconds=0.5), wsgi=wsgi) as port:
        silent, begun = Raw(port), Raw(port, b"GET / HTTP/1.1\r\nHos")
        assert silent.is_closed()
        answer = begun.answer()
        assert (answer.status, json.loads(answer.body)["code"]) == (408, "request_timeout")
        assert begun.is_closed()
        # After an answer its next head has the same time, from its first byte on.
        again = Raw(port, HEAD + b"Content-Length: 2\r\n\r\nok")
        assert again.answer().body == b"ok"
        again.send(b"G")
        assert again.answer().status == 408
        for each in (silent, begun, again):
            each.close()


def test_a_connection_without_a_next_request_is_not_kept():
    with serving(echo, replace(CALM, idle_seconds=0.05)) as port:
        raw = Raw(port, BODY % 2 + b"ok")
        assert raw.answer().body == b"ok"
        assert raw.is_closed()
        raw.close()


def test_a_body_that_does_not_come_is_not_waited_for():
    with serving(echo, replace(CALM, body_seconds=0.05)) as port:
        raw = Raw(port, BODY % 3 + b"ab")
        answer = raw.answer()
        assert (answer.status, json.loads(answer.body)["code"]) == (408, "request_timeout")
        assert raw.is_closed()
        raw.close()


def test_a_body_that_is_too_large_is_refused_whether_its_length_is_said_or_not():
    with serving(echo, replace(CALM, body_bytes=1000)) as port:
        for head, body in (
            (BODY % 1001, b"x" * 1001),
            (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"3e9\r\n"),
        ):
            raw = Raw(port, head + body)
            if b"chunked" in head:
                raw.send(b"x" * 1001 + b"\r\n0\r\n\r\n")
            answer = raw.answer()
            assert (answer.status, json.loads(answer.body)["code"]) == (413, "too_large")
            assert answer.headers["content-type"] == "application/problem+json"
            assert raw.is_closed()
            raw.close()
        raw = Raw(port, BODY % 1000 + b"x" * 1000)
        assert raw.answer().body == b"x" * 1000
        raw.close()


def test_who_reads_nothing_is_cut_off_and_holds_no_thread():
    large, ended = b"x" * (16 * 2**20), threading.Event()

    def app(environ, start_response):
        start_response("200 OK", [])
        yield large if environ["PATH_INFO"] == "/large" else b"ok"
        ended.set()

    limits = replace(CALM, reader_seconds=0.2)
    sent = b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n"
    with served(app, limits, threads=1) as (port, server), many(port, 1, sent, window=4096):
        # The one thread has made the answer and is free, though nobody reads it.
        assert ended.wait(30)
        assert get(port).status == 200
        until(lambda: not server.server_state.connections, said="it is cut off")


def test_an_answer_is_streamed_whole_whatever_its_size():
    pieces = [bytes([65 + number % 26]) * 70_001 for number in range(60)]

    def app(environ, start_response):
        start_response("200 OK", [("Content-Length", str(sum(map(len, pieces))))])
        yield from pieces

    with serving(app, CALM) as port:
        assert get(port).body == b"".join(pieces)


def test_an_answer_that_breaks_off_is_told_as_a_problem_or_cut():
    def app(environ, start_response):
        start_response("200 OK", [("Content-Length", "300000")])
        yield b"x" * (200_000 if environ["PATH_INFO"] == "/begun" else 10)
        raise RuntimeError("it breaks")

    with serving(app, CALM) as port:
        early = get(port, "/")
        assert (early.status, json.loads(early.body)["code"]) == (500, "internal_error")
        with pytest.raises(ConnectionError):
            get(port, "/begun")


def test_headers_go_out_as_the_application_gave_them():
    def app(environ, start_response):
        start_response("204 No Content", [("Set-Cookie", " a=b; HttpOnly"), ("X-Name", "\xe4")])
        return []

    with serving(app, CALM) as port:
        headers = get(port).headers
    assert (headers["set-cookie"], headers["x-name"]) == ("a=b; HttpOnly", "\xe4")


def test_the_application_sees_what_was_sent_and_no_header_that_passes_for_another():
    seen = {}

    def app(environ, start_response):
        seen.update(environ)
        start_response("204 No Content", [])
        return []

    sent = b"GET /a%2Fb/%C3%A4%FF?x=%20 HTTP/1.1\r\nHost: x\r\nX_Forwarded_For: 10.9.9.9\r\nCookie: a=1\r\nCookie: b=2\r\n"
    with serving(app, CALM) as port, many(port, 1, sent + b"X-Forwarded-For: 192.0.2.1\r\n\r\n") as (raw,):
        assert raw.answer().status == 204
    assert seen["PATH_INFO"].encode("latin-1") == b"/a/b/\xc3\xa4\xff"
    assert (seen["QUERY_STRING"], seen["REMOTE_ADDR"]) == ("x=%20", "127.0.0.1")
    assert (seen["HTTP_X_FORWARDED_FOR"], seen["HTTP_COOKIE"]) == ("192.0.2.1", "a=1; b=2")


def test_a_request_whose_client_has_gone_before_its_turn_is_not_begun():
    free, busy, begun = threading.Event(), threading.Event(), []

    def app(environ, start_response):
        begun.append(environ["PATH_INFO"])
        busy.set()
        assert free.wait(30)
        start_response("204 No Content", [])
        return []

    with (
        served(app, CALM, threads=1) as (port, server),
        many(port, 1, b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\n") as (first,),
    ):
        assert busy.wait(30)
        with many(
            port, 1, b"POST /2 HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"
        ) as (gone,):
            assert gone.answer().status == 100
            gone.send(b"x")
        until(lambda: len(server.server_state.connections) == 1, said="its end is seen")
        # Refused without a thread, after the event loop has done all that was due.
        assert _status_of_too_large(port) == 413
        free.set()
        assert first.answer().status == 204
        assert get(port, "/3").status == 204
    assert begun == ["/1", "/3"]


def _status_of_too_large(port):
    with many(port, 1, BODY % (CALM.body_bytes * 99)) as (refused,):
        return refused.answer().status


def test_where_there_are_too_many_who_has_owed_a_request_for_longest_is_given_up():
    limits = replace(CALM, connections=4)
    with serving(echo, limits) as port, many(port, 4, b"POST / HTTP/1.1\r\n") as waiting:
        for each in waiting:
            each.send(b"Host: x\r\n")
        assert get(port).status == 200
        assert waiting[0].is_closed()
        for each in waiting[1:]:
            each.send(b"Content-Length: 2\r\n\r\nok")
            assert each.answer().body == b"ok"


def test_who_owes_a_body_is_given_up_before_anybody_is_turned_away():
    with serving(echo, replace(CALM, connections=4)) as port, many(port, 4, BODY % 2 + b"o") as waiting:
        until(lambda: get(port).status == 200, said="a connection that owes its body has made room")
        assert waiting[0].is_closed()
        waiting[3].send(b"k")
        assert waiting[3].answer().body == b"ok"


async def refuses(scope, receive, send):
    """As live does with a bad token: answers, and reads no body."""
    await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def test_who_was_answered_and_goes_on_sending_is_not_waited_for():
    limits = replace(CALM, header_seconds=1)
    with serving(refuses, limits, wsgi=False) as port, many(port, 2, BODY % 1_000_000 + b"x") as sending:
        for each in sending:
            assert each.answer().status == 401
            each.send(b"x")
        assert all(each.is_closed() for each in sending)


def test_who_was_answered_and_goes_on_sending_makes_room_first():
    limits = replace(CALM, connections=4)
    with serving(refuses, limits, wsgi=False) as port, many(port, 4, BODY % 1_000_000 + b"x") as sending:
        for each in sending:
            assert each.answer().status == 401
            each.send(b"x")
        until(lambda: get(port).status == 401, said="one of them has made room")


def test_a_body_that_was_not_asked_for_leaves_the_connection_as_it_was():
    with serving(refuses, CALM, wsgi=False) as port:
        raw = Raw(port, BODY % 3 + b"a")
        assert raw.answer().status == 401
        raw.send(b"bcGET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert raw.answer().status == 401
        raw.close()


def test_half_bodies_of_one_address_leave_room_for_those_of_others():
    limits = replace(CALM, body_bytes=WHOLE)
    half, most = BODY % WHOLE + b"x" * (WHOLE - 1), BODIES_MAX // 8
    with served(echo, limits) as (port, server), many(port, most, half) as halves:
        front = server.config.app
        until(lambda: front.bodies.held == 999 * most, said="all have sent what they send")
        with many(port, 1, BODY % WHOLE + b"x" * WHOLE) as (more,):
            refused = more.answer()
            assert (refused.status, json.loads(refused.body)["code"]) == (503, "too_many_connections")
        other = Raw(port, BODY % WHOLE + b"x" * WHOLE, source="127.0.0.2")
        assert other.answer().body == b"x" * WHOLE
        other.close()
        halves[0].send(b"x")
        assert halves[0].answer().body == b"x" * WHOLE
        assert get(port).status == 200
    until(lambda: front.bodies.held == 0, said="all was given back")


def test_half_bodies_of_all_whom_nobody_knows_leave_half_of_the_room():
    limits = replace(CALM, body_bytes=WHOLE)
    half = BODY % WHOLE + b"x" * (WHOLE - 1)
    with ExitStack() as stack:
        port, server = stack.enter_context(served(echo, limits))
        front = server.config.app
        for number in range(BODIES_MAX // 2):
            raw = Raw(port, half, source=f"127.0.1.{number + 1}")
            stack.callback(raw.close)
        until(lambda: front.bodies.held == 999 * BODIES_MAX // 2, said="all have sent what they send")
        one_more = Raw(port, BODY % WHOLE + b"x" * WHOLE, source="127.0.2.1")
        stack.callback(one_more.close)
        assert one_more.answer().status == 503
        small = Raw(port, BODY % 7 + b"x" * 7, source="127.0.2.1")
        stack.callback(small.close)
        assert small.answer().body == b"x" * 7
        assert front.bodies.has_room(HttpClient("user:7", is_known=True), 8000)


def test_where_all_are_being_answered_one_more_is_told_to_come_again():
    free, busy = threading.Event(), threading.Semaphore(0)

    def app(environ, start_response):
        busy.release()
        assert free.wait(30)
        start_response("200 OK", [("Content-Length", "0")])
        return []

    request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    limits = replace(CALM, connections=2)
    with serving(app, limits, threads=4) as port, many(port, 2, request) as served:
        for _ in served:
            assert busy.acquire(timeout=30)
        refused = get(port)
        assert (refused.status, json.loads(refused.body)["code"]) == (503, "too_many_connections")
        assert int(refused.headers["retry-after"]) >= 1
        free.set()
        assert [each.answer().status for each in served] == [200, 200]
