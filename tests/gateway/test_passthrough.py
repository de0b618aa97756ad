"""Requests through the gateway, with a fault server as API server and endpoint."""

from __future__ import annotations

import http.client
import socket
import threading
from dataclasses import replace

import pytest

from foundation import clock
from gateway.models import RequestCount
from teams.actors import Actor
from telemetry.served_metrics import REQUESTS_IN_FLIGHT
from tests.cluster.cluster_faults import status
from tests.factories.teams import make_member, make_team, make_token, make_user
from tests.gateway.live_server import LIMITS, LiveServer
from tests.waiting import until
from workloads.services import notify

PREFIX = "/api/v1/namespaces/team-vision/services/digits:8080/proxy"
ACTOR = Actor.system("tests")


def forget_ids(answer):
    return {key: value for key, value in answer.json.items() if key != "request_id"}


def test_a_request_and_its_answer_pass_through_unchanged(live, bench, upstream):
    def script(exchange):
        exchange.reply(418, body=b"\x00teapot", content_type="application/x-tea", headers=[("X-Model", "v2")])

    upstream.script = script
    answer = live.send(
        "POST",
        "/vision/digits/v1/predict%20it?a=b&c=%2F",
        token=bench.token,
        body=b"\x00\xff" * 1000,
        headers={"Content-Type": "application/x-pixels", "X-Request-Id": "caller-chose-this"},
    )
    assert (answer.status, answer.body) == (418, b"\x00teapot")
    assert answer.headers["content-type"] == "application/x-tea"
    assert answer.headers["x-model"] == "v2"
    assert answer.headers["x-request-id"] == "caller-chose-this"
    (request,) = upstream.requests
    assert (request.method, request.path) == ("POST", f"{PREFIX}/v1/predict%20it?a=b&c=%2F")
    assert request.body == b"\x00\xff" * 1000
    assert request.headers["content-type"] == "application/x-pixels"
    assert request.headers["x-request-id"] == "caller-chose-this"


def test_an_endpoint_without_a_path_is_its_root(live, bench, upstream):
    assert live.get("/vision/digits", token=bench.token).status == 200
    assert live.get("/vision/digits/", token=bench.token).status == 200
    assert [request.path for request in upstream.requests] == [f"{PREFIX}/", f"{PREFIX}/"]


def test_an_answer_is_passed_on_while_it_is_still_being_written(live, bench, upstream):
    first_was_read = threading.Event()

    def script(exchange):
        exchange.start()
        exchange.chunk(b"token one\n")
        assert first_was_read.wait(30)
        exchange.chunk(b"token two\n")
        exchange.finish()

    upstream.script = script
    stream = live.stream("/vision/digits/generate", Authorization=f"Bearer {bench.token}")
    assert stream.response.readline() == b"token one\n"
    first_was_read.set()
    assert stream.response.read() == b"token two\n"


def test_no_credential_cookie_or_forwarding_header_reaches_the_endpoint(live, bench, upstream):
    canary = {
        "Cookie": "portal-session=canary",
        "X-Forwarded-For": "canary",
        "X-Forwarded-Host": "canary",
        "Forwarded": "for=canary",
        "X-Real-Ip": "canary",
        "Impersonate-User": "canary",
        "X-Remote-User": "canary",
        "Proxy-Authorization": "Basic canary",
        "Connection": "X-Hop",
        "X-Hop": "canary",
        "X-Kept": "yes",
    }
    assert live.get("/vision/digits/", token=bench.token, headers=canary).status == 200
    (request,) = upstream.requests
    assert request.headers["x-kept"] == "yes"
    # What the API server itself is given; it does not hand it on.
    assert request.headers.pop("authorization") == "Bearer right"
    sent = repr((request.path, request.headers))
    assert "canary" not in sent
    assert bench.token not in sent
    assert bench.token.split("_")[2] not in sent


def test_an_endpoint_sets_no_cookie_and_orders_no_proxy(live, bench, upstream):
    told = [
        ("Set-Cookie", "a=b"),
        ("X-Accel-Redirect", "/secret"),
        ("X-Sendfile", "/etc/passwd"),
        ("X-Ok", "1"),
    ]
    upstream.script = lambda exchange: exchange.reply(200, {}, headers=told)
    answer = live.get("/vision/digits/", token=bench.token)
    assert answer.headers["x-ok"] == "1"
    assert not {"set-cookie", "x-accel-redirect", "x-sendfile"} & answer.headers.keys()


def test_an_answer_has_one_date(live, bench, upstream):
    old = [("Date", "Sun, 06 Nov 1994 08:49:37 GMT")]
    upstream.script = lambda exchange: exchange.reply(200, {}, headers=old)
    answer = live.get("/vision/digits/", token=bench.token)
    assert [name.lower() for name, _ in answer.raw_headers].count("date") == 1


@pytest.mark.parametrize("declared", [True, False])
def test_a_request_body_beyond_the_limit_is_refused(live, bench, declared):
    size = LIMITS.request_bytes + 1
    body = b"x" * size if declared else (b"x" * 4096 for _ in range(size // 4096 + 1))
    answer = live.send("POST", "/vision/digits/", token=bench.token, body=body, chunked=not declared)
    assert answer.status == 413
    assert answer.json["code"] == "request_too_large"
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_declared_answer_beyond_the_limit_is_a_502(live, bench, upstream):
    upstream.script = lambda exchange: exchange.reply(200, body=b"x" * (LIMITS.response_bytes + 1))
    answer = live.get("/vision/digits/", token=bench.token)
    assert (answer.status, answer.json["code"]) == (502, "response_too_large")


def test_an_answer_that_grows_beyond_the_limit_is_cut_and_not_ended_properly(live, bench, upstream):
    def script(exchange):
        exchange.start()
        for _ in range(LIMITS.response_bytes // 4096 + 20):
            exchange.chunk(b"x" * 4096)
        exchange.finish()

    upstream.script = script
    stream = live.stream("/vision/digits/", Authorization=f"Bearer {bench.token}")
    with pytest.raises(http.client.IncompleteRead):
        stream.response.read()


def test_a_slow_endpoint_is_a_504(live, bench, upstream):
    bench.timeout_seconds = 0.2
    upstream.script = lambda exchange: exchange.hang()
    answer = live.get("/vision/digits/", token=bench.token)
    assert (answer.status, answer.json["code"]) == (504, "timeout")


def test_an_endpoint_that_hangs_up_is_a_502(live, bench, upstream):
    upstream.script = lambda exchange: exchange.cut()
    answer = live.get("/vision/digits/", token=bench.token)
    assert (answer.status, answer.json["code"]) == (502, "broken")


def test_no_ready_replica_is_a_503_with_the_phase(live, bench, upstream):
    told = status(503, "ServiceUnavailable", 'no endpoints available for service "digits"')
    upstream.script = lambda exchange: exchange.reply(503, told)
    answer = live.get("/vision/digits/", token=bench.token)
    assert (answer.status, answer.json["code"]) == (503, "no_endpoints")
    assert (answer.json["phase"], answer.json["reason"]) == ("Running", "Ready")
    assert int(answer.headers["retry-after"]) >= 1


def test_a_caller_without_a_good_token_is_asked_for_one(live, bench, upstream):
    for token in (None, "mlp_wrong", bench.expired_token()):
        answer = live.get("/vision/digits/", token=token)
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == "Bearer"
    assert live.get("/vision/digits/", headers={"Cookie": "portal-session=x"}).status == 401
    assert upstream.requests == []


def test_a_token_that_may_not_read_is_refused(live, bench):
    token = make_token(bench.user, scopes=("manage",), name="m")
    answer = live.get("/vision/digits/", token=token)
    assert (answer.status, answer.json["code"]) == (403, "scope_missing")


def test_a_stranger_cannot_tell_an_endpoint_from_nothing(live, bench, upstream):
    stranger = make_token(make_user())
    seen = live.get("/vision/digits/", token=stranger)
    assert seen.status == 404
    unknown = live.get("/vision/nothing/", token=bench.token)
    no_team = live.get("/nobody/digits/", token=bench.token)
    no_path = live.get("/Vision", token=bench.token)
    assert forget_ids(seen) == forget_ids(unknown) == forget_ids(no_team) == forget_ids(no_path)
    names = {name for name in seen.headers if name != "date"}
    assert names == {name for name in unknown.headers if name != "date"}
    assert upstream.requests == []


def test_a_token_of_one_team_opens_no_endpoint_of_another(live, bench):
    other = make_member("lead", team=make_team("speech"), user=bench.user).team
    bench.make_endpoint("voices", team=other)
    bound = make_token(bench.user, name="bound", team=other)
    assert live.get("/speech/voices/", token=bound).status == 200
    assert live.get("/vision/digits/", token=bound).status == 404


def test_an_endpoint_that_is_not_live_says_why_and_opens_when_it_is(live, bench):
    loading = bench.make_endpoint("loading", phase="Starting")
    answer = live.get("/vision/loading/", token=bench.token)
    assert (answer.status, answer.json["code"]) == (503, "endpoint_not_live")
    assert (answer.json["phase"], answer.json["reason"]) == ("Starting", "Loading")
    bench.set_phase(loading, "Running", "Ready")
    notify(loading)
    until(lambda: live.get("/vision/loading/", token=bench.token).status == 200)


def test_an_endpoint_that_is_over_is_not_found(live, bench):
    bench.endpoint.finished_at = clock.now()
    bench.endpoint.phase = "Cancelled"
    bench.endpoint.save()
    assert live.get("/vision/digits/", token=bench.token).status == 404


@pytest.mark.filterwarnings("ignore:.*upgrade.*")
def test_a_path_with_dots_is_refused_in_words_that_name_them(live, bench):
    refused = live.get("/vision/digits/a/../b", token=bench.token)
    assert (refused.status, refused.json["code"]) == (400, "bad_request")
    assert refused.json["detail"] == "The path may hold no . or .. segment and no control character."


def test_websockets_are_refused_clearly(live, bench):
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    answer = live.get("/vision/digits/ws", token=bench.token, headers=upgrade)
    assert (answer.status, answer.json["code"]) == (501, "websockets_not_supported")


@pytest.mark.parametrize("path", ["/../secret", "/%2e%2e/secret", "/a%2fb", "/a%5cb"])
def test_a_path_cannot_leave_the_endpoint(live, bench, upstream, path):
    assert live.get(f"/vision/digits{path}", token=bench.token).status == 400
    assert upstream.requests == []


def test_a_caller_that_hangs_up_ends_the_request_to_the_endpoint(live, bench, upstream):
    arrived, ended = threading.Event(), threading.Event()

    def script(exchange):
        exchange.start()
        arrived.set()
        try:
            while True:
                exchange.chunk(b"x" * 100)
        except OSError:
            ended.set()
            raise

    upstream.script = script
    caller = socket.create_connection(("127.0.0.1", live.port))
    caller.sendall(
        f"GET /vision/digits/ HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {bench.token}\r\n\r\n".encode()
    )
    assert arrived.wait(30)
    caller.close()
    assert ended.wait(30)


def test_requests_are_counted_by_endpoint_minute_and_status_class(live, bench, upstream):
    for _ in range(3):
        live.get("/vision/digits/", token=bench.token)
    upstream.script = lambda exchange: exchange.reply(500, {})
    live.get("/vision/digits/", token=bench.token)
    live.get("/vision/unknown/", token=bench.token)
    live.stop()
    rows = RequestCount.objects.all()
    assert {row.endpoint for row in rows} == {bench.endpoint}
    assert sum(row.count for row in rows if row.status_class == 2) == 3
    assert sum(row.count for row in rows if row.status_class == 5) == 1
    assert all(row.minute.second == 0 for row in rows)


def test_a_caller_that_hangs_up_within_its_body_is_no_failure_of_the_endpoint(live, bench, upstream):
    caller = socket.create_connection(("127.0.0.1", live.port))
    head = f"POST /vision/digits/ HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {bench.token}\r\n"
    caller.sendall(f"{head}Content-Length: 1000\r\n\r\nthe first bytes".encode())
    until(lambda: live.metric(REQUESTS_IN_FLIGHT) == 1)
    caller.close()
    until(lambda: live.metric(REQUESTS_IN_FLIGHT) == 0)
    live.stop()
    (row,) = RequestCount.objects.all()
    assert (row.status_class, row.count, row.latency) == (4, 1, [])


@pytest.mark.parametrize("length", [3, 50])
def test_a_chunked_body_is_as_long_as_its_chunks_say(live, bench, upstream, length):
    """Of two lengths the chunks' counts, as RFC 9112 has it; the other one would cut the body."""
    head = f"POST /vision/digits/ HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {bench.token}\r\nConnection: close\r\n"
    lengths = f"Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", live.port)) as caller:
        caller.sendall(f"{head}{lengths}a\r\n0123456789\r\n0\r\n\r\n".encode())
        assert caller.recv(100).startswith(b"HTTP/1.1 200")
    assert upstream.requests[0].body == b"0123456789"


@pytest.mark.parametrize("name", ["naïve.png", "日本.png"])
def test_headers_pass_as_the_bytes_they_are(live, bench, upstream, name):
    def script(exchange):
        exchange.raw(f"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-File: {name}\r\n\r\n{{}}".encode())

    upstream.script = script
    answer = live.get("/vision/digits/", token=bench.token, headers={"X-Asked": name.encode()})
    assert answer.status == 200
    assert answer.headers["x-file"].encode("latin-1") == name.encode()
    assert upstream.requests[0].headers["x-asked"].encode("latin-1") == name.encode()


@pytest.mark.parametrize("status_line", ["101 Switching Protocols", "999 Whatever"])
def test_a_status_that_cannot_be_passed_on_is_a_502(live, bench, upstream, status_line):
    upstream.script = lambda exchange: exchange.raw(
        f"HTTP/1.1 {status_line}\r\nContent-Length: 2\r\n\r\n{{}}".encode()
    )
    answer = live.get("/vision/digits/", token=bench.token)
    assert (answer.status, answer.json["code"]) == (502, "bad_status")
    assert len(upstream.requests) == 1


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_what_may_have_changed_something_is_never_sent_twice(live, bench, upstream, method):
    def script(exchange):
        if exchange.request.method == method:
            exchange.cut()
        else:
            exchange.reply(200, {})

    upstream.script = script
    live.get("/vision/digits/", token=bench.token)
    assert live.send(method, "/vision/digits/", token=bench.token).status == 502
    assert [request.method for request in upstream.requests] == ["GET", method]


def test_a_caller_that_stops_reading_keeps_no_request_open(bench, upstream):
    bench.timeout_seconds = 1.0
    ended = threading.Event()

    def script(exchange):
        exchange.start()
        try:
            while True:
                exchange.chunk(b"x" * 65536)
        except OSError:
            ended.set()
            raise

    upstream.script = script
    live = LiveServer(replace(LIMITS, response_bytes=2**30))
    caller = socket.create_connection(("127.0.0.1", live.port))
    try:
        caller.sendall(
            f"GET /vision/digits/ HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {bench.token}\r\n\r\n".encode()
        )
        assert ended.wait(30)
        until(lambda: live.metric(REQUESTS_IN_FLIGHT) == 0)
    finally:
        caller.close()
        live.stop()
