"""One client's requests, slow or refused, leave the threads to others."""

from __future__ import annotations

import asyncio
import io
import json
import threading

import pytest
from django.conf import settings
from django.core.handlers.wsgi import WSGIRequest

from foundation.http import clients, metrics, rates
from foundation.http.clients import HttpClient
from portal.runtime.fairness import (
    REFUSAL_SECONDS_MAX,
    REFUSALS_A_SECOND,
    ByteShares,
    RefusalPace,
    ThreadTurns,
)
from portal.settings.http_limits import HttpLimits
from tests.runtime.raw_http import Raw, serving

CALM = HttpLimits(header_seconds=60, body_seconds=60, reader_seconds=60, idle_seconds=60)
PATH = "/api/v1/flavors/"
A, B, C, D = (HttpClient(f"user:{number}", is_known=True) for number in range(4))


def ask(token, path=PATH, *, method="GET", more="", body=""):
    return (
        f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n{more}\r\n{body}".encode()
    )


class Slow:
    """An application whose requests below /slow/ wait until they are let go; one below /refuse/ has its credential refused."""

    def __init__(self):
        self.begun, self.free = threading.Semaphore(0), threading.Event()

    def __call__(self, environ, start_response):
        if environ["PATH_INFO"].startswith("/slow/"):
            self.begun.release()
            assert self.free.wait(30)
        request = WSGIRequest(dict(environ))
        # As the throttle of REST does it.
        if environ["PATH_INFO"].startswith("/api/refuse/"):
            rates.remember(request, 30)
        if environ["PATH_INFO"].startswith("/sign-in/"):
            clients.know(request, environ["HTTP_AUTHORIZATION"])
        start_response("200 OK", [("Content-Length", "2")])
        return [b"ok"]


@pytest.fixture(autouse=True)
def _nobody_known():
    yield
    rates._refused.clear()
    clients._known.clear()


@pytest.fixture
def slow():
    app = Slow()
    yield app
    app.free.set()


def test_one_clients_slow_requests_leave_half_of_the_threads_to_others(slow):
    with serving(slow, CALM, threads=4) as port:
        theirs = [Raw(port, ask("theirs", "/slow/")) for _ in range(8)]
        for _ in range(2):
            assert slow.begun.acquire(timeout=30)
        ours = Raw(port, ask("ours"), source="127.0.0.2")
        assert ours.answer().status == 200
        assert not slow.begun.acquire(blocking=False)
        slow.free.set()
        assert [each.answer().status for each in theirs] == [200] * 8
        for each in (*theirs, ours):
            each.close()


def test_made_up_credentials_are_one_client_and_who_was_let_in_once_is_another(slow):
    with serving(slow, CALM, threads=4) as port:
        ours = Raw(port, ask("ours", "/sign-in/"))
        assert ours.answer().status == 200
        theirs = [Raw(port, ask(f"made-up-{number}", "/slow/")) for number in range(8)]
        for _ in range(2):
            assert slow.begun.acquire(timeout=30)
        ours.send(ask("ours"))
        assert ours.answer().status == 200
        assert not slow.begun.acquire(blocking=False)
        slow.free.set()
        for each in (*theirs, ours):
            each.close()


def test_all_credentials_of_one_user_are_one_client():
    of = HttpClient("user:7", is_known=True)
    requests = [WSGIRequest(_environ(HTTP_AUTHORIZATION=f"Bearer {number}")) for number in range(2)]
    assert [clients.client_of(each).is_known for each in requests] == [False, False]
    for each in requests:
        clients.know(each, "user:7")
    assert [clients.client_of(each) for each in requests] == [of, of]
    clients.unknow(requests[0])
    assert clients.client_of(requests[0]) == HttpClient("address:192.0.2.1", is_known=False)
    assert clients.client_of(requests[1]) == of


def test_of_a_page_the_cookie_is_the_credential_and_of_rest_a_bearer():
    cookie = {"HTTP_COOKIE": f"{settings.SESSION_COOKIE_NAME}=mine"}

    def of(path, **more):
        return clients.credential_of(WSGIRequest(_environ(PATH_INFO=path, **more)))

    page = of("/runs/", **cookie)
    assert of("/runs/", **cookie, HTTP_AUTHORIZATION="Bearer made-up") == page
    assert of(PATH, **cookie, HTTP_AUTHORIZATION="Basic made-up") == of(PATH, **cookie) == page
    assert of(PATH, **cookie, HTTP_AUTHORIZATION="bearer mine") != page
    assert of("/runs/", HTTP_AUTHORIZATION="Bearer made-up") == of("/runs/")


def test_who_is_known_is_forgotten_before_the_memory_grows(monkeypatch):
    monkeypatch.setattr(clients, "KNOWN_MAX", 3)
    requests = [WSGIRequest(_environ(HTTP_AUTHORIZATION=f"Bearer {number}")) for number in range(4)]
    for each in requests:
        clients.know(each, "user:7")
    assert [clients.client_of(each).is_known for each in requests] == [False, False, False, True]


def test_a_client_has_its_share_of_the_bytes_and_all_unknown_ones_have_half():
    shares = ByteShares(80, of_client=30)
    strangers = [HttpClient(f"address:192.0.2.{number}", is_known=False) for number in range(2)]
    shares.count(strangers[0], 30)
    assert not shares.has_room(strangers[0], 1)
    assert shares.has_room(strangers[1], 10)
    assert not shares.has_room(strangers[1], 11)
    assert shares.has_room(A, 30)
    shares.count(A, 30)
    assert shares.has_room(B, 20)
    assert not shares.has_room(B, 21)
    with shares.taken(B) as take:
        assert take(15)
        assert not take(6)
        assert shares.held == 75
    assert shares.held == 60


def test_who_is_refused_is_told_so_while_every_thread_is_held(slow):
    with serving(slow, CALM, threads=2) as port:
        refused = Raw(port, ask("many", "/api/refuse/"))
        assert refused.answer().status == 200
        holders = [
            Raw(port, ask(f"holder{number}", "/slow/"), source=f"127.0.0.{number + 2}") for number in range(2)
        ]
        for _ in holders:
            assert slow.begun.acquire(timeout=30)
        before = _counted()
        refused.send(ask("many", more="X-Request-ID: a-request-id\r\n"))
        answer = refused.answer()
        assert (answer.status, json.loads(answer.body)["code"]) == (429, "rate_limited")
        assert 1 <= int(answer.headers["retry-after"]) <= 30
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-request-id"] == json.loads(answer.body)["request_id"] == "a-request-id"
        assert _counted() == before + 1
        slow.free.set()
        # Another credential, what is no read, and what is no REST are not refused.
        for sent in (ask("other"), ask("many", method="DELETE"), ask("many", "/pages/")):
            refused.send(sent)
            assert refused.answer().status == 200
        for each in (refused, *holders):
            each.close()


@pytest.mark.parametrize(
    ("more", "body"),
    [("Content-Length: 5\r\n", "abcde"), ("Transfer-Encoding: chunked\r\n", "2\r\nab\r\n0\r\n\r\n")],
)
def test_the_body_of_a_refused_request_is_passed_over_and_the_connection_stays(slow, more, body):
    with serving(slow, CALM) as port:
        raw = Raw(port, ask("many", "/api/refuse/", method="DELETE"))
        assert raw.answer().status == 200
        raw.send(ask("many", method="POST", more=more, body=body))
        assert raw.answer().status == 429
        raw.send(ask("other"))
        assert raw.answer().status == 200
        raw.close()


def test_a_refused_body_that_waits_to_be_asked_for_is_not_and_the_connection_ends(slow):
    with serving(slow, CALM) as port:
        raw = Raw(port, ask("many", "/api/refuse/", method="DELETE"))
        assert raw.answer().status == 200
        raw.send(ask("many", method="POST", more="Expect: 100-continue\r\nContent-Length: 5\r\n"))
        answer = raw.answer()
        assert (answer.status, answer.headers["connection"]) == (429, "close")
        assert raw.is_closed()
        raw.close()


def test_who_has_fewest_threads_is_next_and_a_turn_given_up_is_the_next_ones():
    async def played():
        turns, order = ThreadTurns(4), []

        async def take(client):
            await turns.begin(client)
            order.append(client)

        tasks = [asyncio.ensure_future(take(client)) for client in (A, A, A, B, C, C, D)]
        await _settled()
        assert order == [A, A, B, C]
        tasks[5].cancel()
        await _settled()
        turns.end(B)
        await _settled()
        assert order[4:] == [D], "c waited longer and has one"
        turns.end(A)
        await _settled()
        assert order[5:] == [A]
        for client in (A, A, C, D):
            turns.end(client)
        await asyncio.gather(*tasks, return_exceptions=True)
        # All places are free again, and half of them still are one client's.
        again = [asyncio.ensure_future(take(client)) for client in (A, A, A, B, B)]
        await _settled()
        assert [each.done() for each in again] == [True, True, False, True, True]
        again[2].cancel()

    asyncio.run(played())


def test_a_turn_given_as_its_request_is_cancelled_is_given_back():
    async def played():
        turns = ThreadTurns(2)
        await turns.begin(A)
        waits = asyncio.ensure_future(turns.begin(A))
        await _settled()
        turns.end(A)
        waits.cancel()
        await _settled()
        await asyncio.wait_for(turns.begin(A), 30)

    asyncio.run(played())


def test_refusals_of_one_client_are_spaced_and_none_waits_longer_than_the_limit():
    pace = RefusalPace()
    waits = [pace.wait_of(A, 100.0) for _ in range(1000)]
    assert waits[:3] == pytest.approx([0, 1 / REFUSALS_A_SECOND, 2 / REFUSALS_A_SECOND])
    assert max(waits) == REFUSAL_SECONDS_MAX
    assert pace.wait_of(B, 100.0) == 0
    assert pace.wait_of(A, 200.0) == 0


def _environ(**more):
    return {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": PATH,
        "REMOTE_ADDR": "192.0.2.1",
        "wsgi.input": io.BytesIO(),
        **more,
    }


async def _settled():
    for _ in range(5):
        await asyncio.sleep(0)


def _counted():
    return metrics.REQUESTS.labels("GET", "unmatched", "429")._value.get()
