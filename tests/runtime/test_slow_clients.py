"""Clients that send or read slowly, as many as they like, keep nobody from being answered."""

from __future__ import annotations

import signal

import pytest

from tests.runtime.raw_http import get, many, web_process

COUNT = 24
# The largest file that web serves, many times over on one connection: more than the system keeps for a reader.
_LARGE = b"GET /static/drf_spectacular_sidecar/swagger-ui-dist/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost\r\n\r\n"
SLOW = {
    "headers": (b"GET /api/v1/nothing/ HTTP/1.1\r\nHost: localhost\r\nX-Slow: a", 0),
    "bodies": (b"POST /sign-in/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\na", 0),
    "readers": (_LARGE * 4, 4096),
    "idlers": (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 0),
}


@pytest.fixture(scope="module")
def web(tmp_path_factory):
    with web_process(tmp_path_factory.mktemp("web")) as started:
        yield started


@pytest.mark.parametrize("kind", sorted(SLOW))
def test_slow_clients_keep_no_page_and_no_probe_from_being_answered(web, kind):
    _, port, own = web
    sent, window = SLOW[kind]
    with many(port, COUNT, sent, window=window) as slow:
        for _ in range(2):
            assert get(port, "/api/v1/nothing/").status == 404
            assert get(port, "/healthz").status == 200
            # One more byte, and still not all of it.
            for each in slow:
                each.send(b"a") if kind in {"headers", "bodies"} else each.socket.recv(1)
        assert get(own, "/healthz").status == 200
        # The databases are away here, which it says.
        assert get(own, "/readyz").status == 503


@pytest.mark.processes
def test_a_request_in_hand_is_finished_when_the_process_is_told_to_stop(tmp_path):
    """Its body was on its way: it is taken, answered, and then the process ends by itself."""
    begun = b"POST /api/v1/nothing/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    with web_process(tmp_path) as (process, port, _), many(port, 1, begun) as (slow,):
        assert slow.answer().status == 100
        with many(port, 1, b"GET / HTTP/1.1\r\nHost: loc") as (never,):
            process.send_signal(signal.SIGTERM)
            assert never.is_closed()
            slow.send(b"{}")
            assert slow.answer().status == 404
            assert process.wait(30) == 0
