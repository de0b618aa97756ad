"""The service proxy, sync and async: the fault server stands where the API server and the service behind it
are.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from threading import Event
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from cluster_faults import status

from cluster import proxy, proxy_sessions, transport
from cluster.client import connect
from cluster.errors import ProxyFailed
from cluster.proxy import ProxyLimits, ServiceProxy, invoke
from cluster.proxy_rules import Target

TARGET = Target("team-a", "model", 80)
PREFIX = "/api/v1/namespaces/team-a/services/model:80/proxy"


async def stream(*pieces: bytes):
    for piece in pieces:
        yield piece


def forward(client, *, limits=None, target=TARGET, **options):
    """One request on a loop of its own: (status, headers, body)."""

    async def once():
        proxy = ServiceProxy(client, limits=limits)
        try:
            async with proxy.forward(target, **({"method": "GET", "path": "/"} | options)) as upstream:
                body = b"".join([chunk async for chunk in upstream.chunks()])
                return upstream.status, dict(upstream.headers), body
        finally:
            await proxy.aclose()

    return asyncio.run(once())


def twenty_at_once(client):
    """Their codes."""

    async def many():
        proxy = ServiceProxy(client)

        async def one():
            async with proxy.forward(TARGET, method="GET", path="/") as upstream:
                return upstream.status

        try:
            return await asyncio.gather(*(one() for _ in range(20)))
        finally:
            await proxy.aclose()

    return asyncio.run(many())


def tried(client, *, limits=None, target=TARGET, **options):
    found = invoke(client, target, limits=limits, **({"method": "GET", "path": "/"} | options))
    return found.status, dict(found.headers), found.body


both = pytest.mark.parametrize("call", [forward, tried])


@both
def test_a_request_reaches_the_service_and_its_answer_the_caller(faulty, faulty_client, call):
    faulty.script = lambda exchange: exchange.reply(
        201, {"y": 1}, headers=[("X-Own", "kept"), ("Set-Cookie", "a=b"), ("Audit-Id", "1")]
    )
    sent = [
        ("Content-Type", "application/json"),
        ("Authorization", "Bearer caller"),
        ("Cookie", "a=b"),
        ("X-Own", "1"),
    ]
    code, headers, body = call(
        faulty_client, method="post", path="/v1/predict", query="a=1&b=%20", headers=sent, body=b'{"x": 1}'
    )
    assert (code, body) == (201, b'{"y": 1}')
    assert headers["X-Own"] == "kept"
    assert not {"Set-Cookie", "Audit-Id"} & set(headers)
    seen = faulty.requests[0]
    assert (seen.method, seen.path, seen.body) == ("POST", f"{PREFIX}/v1/predict?a=1&b=%20", b'{"x": 1}')
    assert seen.headers["authorization"] == "Bearer right"
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["x-own"] == "1"
    assert "cookie" not in seen.headers


@both
def test_the_services_own_errors_are_answers(faulty, faulty_client, call):
    for code in (400, 401, 403, 404, 500, 503):
        faulty.script = lambda exchange, code=code: exchange.reply(code, {"error": "mine"})
        assert call(faulty_client)[::2] == (code, b'{"error": "mine"}')
    assert len(faulty.requests) == 6


@both
@pytest.mark.parametrize(
    ("code", "message", "expected", "reason"),
    [
        (503, 'no endpoints available for service "model"', 503, "no-endpoints"),
        (503, "error trying to reach service: dial tcp: connection refused", 503, "unreachable"),
        (502, "error trying to reach service: EOF", 502, "unreachable"),
        (504, "timeout", 504, "timeout"),
        (404, 'services "model" not found', 503, "no-service"),
        (403, "forbidden", 502, "cluster-refused"),
        (401, "Unauthorized", 503, "cluster-credentials"),
        (429, "too many", 503, "cluster-busy"),
    ],
)
def test_the_api_servers_refusals_are_not_taken_for_the_services(
    faulty, faulty_client, call, code, message, expected, reason
):
    faulty.script = lambda exchange: exchange.reply(code, status(code, "x", message))
    with pytest.raises(ProxyFailed) as caught:
        call(faulty_client)
    assert (caught.value.status, caught.value.reason) == (expected, reason)


@both
def test_a_cluster_that_is_gone_is_503(faulty, call):
    faulty.write_kubeconfig(server="http://127.0.0.1:1")
    with pytest.raises(ProxyFailed) as caught:
        call(connect(str(faulty.kubeconfig)))
    assert caught.value.status == 503
    assert caught.value.unsent or call is tried, "who forwards may ask again: nothing was sent"


@both
def test_a_service_that_does_not_answer_is_504(faulty, faulty_client, call):
    faulty.script = lambda exchange: exchange.hang()
    with pytest.raises(ProxyFailed) as caught:
        call(faulty_client, limits=ProxyLimits(total_seconds=0.3))
    # Without the limit the server would have cut it at last, which is no 504.
    assert caught.value.status == 504


@both
def test_an_answer_that_drips_for_ever_is_504(faulty, faulty_client, call):
    def script(exchange):
        exchange.start(content_type="text/plain")
        for _ in range(200):
            exchange.chunk(b"x")
            time.sleep(0.02)

    faulty.script = script
    with pytest.raises(ProxyFailed) as caught:
        call(faulty_client, limits=ProxyLimits(total_seconds=0.3))
    assert (caught.value.status, caught.value.reason) == (504, "timeout")


@both
def test_an_answer_that_breaks_off_is_502(faulty, faulty_client, call):
    def script(exchange):
        exchange.start(length=100, content_type="text/plain")
        exchange._handler.wfile.write(b"half")
        exchange.cut()

    faulty.script = script
    with pytest.raises(ProxyFailed) as caught:
        call(faulty_client)
    assert (caught.value.status, caught.value.reason) == (502, "broken")


@both
def test_a_request_beyond_the_limit_is_413_and_not_sent(faulty, faulty_client, call):
    with pytest.raises(ProxyFailed) as caught:
        call(faulty_client, method="POST", body=b"x" * 11, limits=ProxyLimits(request_bytes=10))
    assert caught.value.status == 413
    assert faulty.requests == []


@both
def test_a_redirect_is_the_services_answer(faulty, faulty_client, call):
    faulty.script = lambda exchange: exchange.reply(302, headers=[("Location", "http://elsewhere/")])
    assert call(faulty_client)[0] == 302
    assert len(faulty.requests) == 1


@both
def test_a_path_that_climbs_is_never_sent(faulty, faulty_client, call):
    with pytest.raises(ProxyFailed) as caught:
        call(faulty_client, path="/../../secrets")
    assert caught.value.status == 400
    assert faulty.requests == []


def test_what_is_tried_out_is_cut_at_the_limit_and_says_so(faulty, faulty_client):
    faulty.script = lambda exchange: exchange.reply(200, body=b"x" * 100_000, content_type="text/plain")
    found = invoke(faulty_client, TARGET, method="GET", path="/", limits=ProxyLimits(response_bytes=1000))
    assert (len(found.body), found.truncated) == (1000, True)
    assert found.duration_seconds > 0


def test_a_streamed_request_beyond_the_limit_is_413(faulty, faulty_client):
    faulty.script = lambda exchange: exchange.reply(200, {})
    with pytest.raises(ProxyFailed) as caught:
        forward(
            faulty_client,
            method="POST",
            body=stream(b"x" * 6, b"x" * 6),
            limits=ProxyLimits(request_bytes=10),
        )
    assert caught.value.status == 413


def test_a_streamed_request_arrives_whole_with_and_without_a_length(faulty, faulty_client):
    faulty.script = lambda exchange: exchange.reply(200, {})
    for headers in ((), [("Content-Length", "4")]):
        forward(faulty_client, method="POST", headers=headers, body=stream(b"ab", b"cd"))
    assert [request.body for request in faulty.requests] == [b"abcd", b"abcd"]
    assert "transfer-encoding" not in faulty.requests[1].headers


def test_a_streamed_answer_beyond_the_limit_is_cut(faulty, faulty_client):
    def script(exchange):
        exchange.start(content_type="text/plain")
        for _ in range(20):
            exchange.chunk(b"x" * 100)
        exchange.finish()

    faulty.script = script
    with pytest.raises(ProxyFailed) as caught:
        forward(faulty_client, limits=ProxyLimits(response_bytes=1000))
    assert (caught.value.status, caught.value.reason) == (502, "response-too-large")


def test_the_answers_first_bytes_come_before_its_last(faulty, faulty_client):
    seen = Event()

    def script(exchange):
        exchange.start(content_type="text/event-stream")
        exchange.chunk(b"first")
        assert seen.wait(30)
        exchange.chunk(b"last")
        exchange.finish()

    faulty.script = script

    async def once():
        proxy = ServiceProxy(faulty_client)
        async with proxy.forward(TARGET, method="GET", path="/") as upstream:
            pieces = []
            async for chunk in upstream.chunks():
                pieces.append(chunk)
                seen.set()
        await proxy.aclose()
        return pieces

    assert asyncio.run(once()) == [b"first", b"last"]


def test_compressed_answers_pass_as_they_are(faulty, faulty_client):
    faulty.script = lambda exchange: exchange.reply(
        200, body=b"\x1f\x8bnot really", headers=[("Content-Encoding", "gzip")]
    )
    for call in (forward, tried):
        code, headers, body = call(faulty_client)
        assert (code, headers["Content-Encoding"], body) == (200, "gzip", b"\x1f\x8bnot really")


def test_new_credentials_are_used_by_the_next_request(faulty, faulty_client):
    def script(exchange):
        if exchange.request.headers["authorization"] == "Bearer second":
            exchange.reply(200, {})
        else:
            exchange.reply(401, status(401, "Unauthorized", "Unauthorized"))

    faulty.script = script

    async def twice():
        proxy = ServiceProxy(faulty_client)
        try:
            with pytest.raises(ProxyFailed):
                async with proxy.forward(TARGET, method="GET", path="/"):
                    pass
            faulty.token = "second"
            faulty.write_kubeconfig()
            async with proxy.forward(TARGET, method="GET", path="/") as upstream:
                return upstream.status
        finally:
            await proxy.aclose()

    assert asyncio.run(twice()) == 200


# The words of the API server's own refusal, which a service may use as well.
OF_THE_API_SERVER = status(401, "Unauthorized", "Unauthorized")


def in_the_words_of_the_api_server(exchange):
    """The service answers 401; of the portal's own requests the API server refuses none."""
    of_service = exchange.request.path.startswith(PREFIX)
    exchange.reply(*((401, OF_THE_API_SERVER) if of_service else (200, {"gitVersion": "v1.33.0"})))


@pytest.fixture
def loads(monkeypatch):
    """One entry for every time that the credentials are loaded."""
    loads = []
    load = transport.open_connection
    monkeypatch.setattr(transport, "open_connection", lambda source: loads.append(source) or load(source))
    return loads


@both
@pytest.mark.parametrize("code", [400, 403, 500, 503])
def test_a_status_whose_code_is_not_the_answers_is_the_services_own(faulty, faulty_client, call, code):
    faulty.script = lambda exchange: exchange.reply(code, OF_THE_API_SERVER)
    assert call(faulty_client)[0] == code
    assert len(faulty.requests) == 1


@both
def test_a_service_that_answers_401_in_the_words_of_the_api_server_renews_nothing(
    faulty, faulty_client, call, loads
):
    """Only the API server's word about a request of the portal's own says whether it refuses the credentials."""
    faulty.script = in_the_words_of_the_api_server
    for _ in range(2):
        code, _, body = call(faulty_client)
        assert (code, json.loads(body)) == (401, OF_THE_API_SERVER)
    assert len(loads) == 1


def test_credentials_that_stay_refused_are_not_loaded_at_every_request(
    faulty, faulty_client, loads, monkeypatch
):
    monkeypatch.setattr(proxy, "_CREDENTIALS_SECONDS", 3600.0)
    faulty.script = lambda exchange: exchange.reply(401, OF_THE_API_SERVER)

    async def many():
        service = ServiceProxy(faulty_client)
        try:
            for _ in range(5):
                with pytest.raises(ProxyFailed, match="credentials"):
                    async with service.forward(TARGET, method="GET", path="/"):
                        pass
        finally:
            await service.aclose()

    asyncio.run(many())
    assert len(loads) == 2


def test_of_many_answers_401_of_a_service_one_is_looked_into(faulty, faulty_client, monkeypatch):
    monkeypatch.setattr(proxy_sessions, "_VERDICT_SECONDS", 3600.0)
    faulty.script = in_the_words_of_the_api_server
    assert twenty_at_once(faulty_client) == [401] * 20
    assert len([each for each in faulty.requests if not each.path.startswith(PREFIX)]) == 1


def test_inside_the_cluster_the_service_is_reached_by_its_dns_name_without_a_token(
    faulty, faulty_client, monkeypatch
):
    """Only the name's resolution is the test's: `*.svc` is known inside a cluster alone."""
    asked = []
    resolve = socket.getaddrinfo

    def getaddrinfo(host, *args, **kwargs):
        asked.append(host)
        return resolve("127.0.0.1", *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(faulty_client, "source", "in-cluster")
    faulty.script = lambda exchange: exchange.reply(403, status(403, "Forbidden", "the service's own words"))
    target = Target("team-a", "model", urlsplit(faulty.url).port)
    code, _, body = forward(faulty_client, target=target, path="/v1/x")
    assert code == 403
    assert b"own words" in body
    assert asked == ["model.team-a.svc"]
    assert faulty.requests[0].path == "/v1/x"
    assert "authorization" not in faulty.requests[0].headers


def test_inside_the_cluster_nothing_is_sent_on_an_old_connection_and_no_answer_on_one_is_cut(
    faulty, faulty_client, monkeypatch
):
    """An old connection leads to a pod that may be about to go, and may still carry a long answer."""
    resolve, ports, go_on = socket.getaddrinfo, [], Event()

    arrived = Event()

    def script(exchange):
        ports.append(exchange.peer)
        if exchange.request.path == "/long":
            arrived.set()
            exchange.start()
            exchange.chunk(b"first")
            assert go_on.wait(30)
            exchange.chunk(b"last")
            exchange.finish()
        else:
            exchange.reply(200, {})

    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *a, **k: resolve("127.0.0.1", *a, **k))
    monkeypatch.setattr(faulty_client, "source", "in-cluster")
    faulty.script = script
    target = Target("team-a", "model", urlsplit(faulty.url).port)

    async def ask(proxy, path="/"):
        async with proxy.forward(target, method="GET", path=path) as upstream:
            return b"".join([chunk async for chunk in upstream.chunks()])

    async def scenario():
        proxy = ServiceProxy(faulty_client)
        monkeypatch.setattr(proxy_sessions, "DIRECT_SECONDS", 3600.0)
        await ask(proxy)
        await ask(proxy)
        long = asyncio.create_task(ask(proxy, "/long"))
        assert await asyncio.to_thread(arrived.wait, 10)
        monkeypatch.setattr(proxy_sessions, "DIRECT_SECONDS", 0.0)
        await ask(proxy)
        go_on.set()
        assert await long == b"firstlast"
        await proxy.aclose()

    asyncio.run(scenario())
    assert ports[0] == ports[1] == ports[2]
    assert ports[3] != ports[0]


def test_of_many_requests_at_once_one_looks_at_the_credentials_however_long_it_looks(
    faulty, faulty_client, monkeypatch
):
    """The clock is the test's: it stands still but while one looks."""
    faulty.script = lambda exchange: exchange.reply(200, {})
    looks = []
    look = faulty_client.connection

    def long_look(**asked):
        looks.append(1)
        return look(**asked)

    monkeypatch.setattr(faulty_client, "connection", long_look)
    monkeypatch.setattr("cluster.proxy.time", SimpleNamespace(monotonic=lambda: 60.0 * len(looks)))
    assert twenty_at_once(faulty_client) == [200] * 20
    assert len(looks) == 1
