"""What was cut is cut: a stream that goes on unnoticed would make tests of lost connections wait for nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.cluster.cluster_faults import Exchange, FaultServer
from tests.controller.fault_proxy import FaultProxy
from tests.waiting import result_of

WATCH = "/api/v1/pods?watch=1"


class Upstream:
    """Answers a watch once the test lets it."""

    def __init__(self, folder: Path) -> None:
        self.asked, self.may_answer = threading.Event(), threading.Event()
        self.server = FaultServer(folder / "upstream", self._answer)

    def _answer(self, exchange: Exchange) -> None:
        if "watch=" in exchange.request.path:
            self.asked.set()
            self.may_answer.wait(30)
        exchange.reply(200, {})


@pytest.fixture
def upstream(tmp_path: Path) -> Iterator[Upstream]:
    upstream = Upstream(tmp_path)
    yield upstream
    upstream.may_answer.set()
    upstream.server.close()


@pytest.fixture
def proxy(tmp_path: Path, upstream: Upstream) -> Iterator[FaultProxy]:
    proxy = FaultProxy(tmp_path, str(upstream.server.kubeconfig))
    yield proxy
    proxy.close()


def connected(proxy: FaultProxy) -> closing[HTTPConnection]:
    return closing(HTTPConnection(urlsplit(proxy.server.url).netloc, timeout=30))


def ask(connection: HTTPConnection, path: str) -> int:
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def test_a_stream_that_is_being_opened_is_cut_too(proxy, upstream):
    with connected(proxy) as connection, ThreadPoolExecutor() as pool:
        asking = pool.submit(ask, connection, WATCH)
        assert upstream.asked.wait(30)
        proxy.cut()
        with pytest.raises((HTTPException, OSError)):
            result_of(asking)


def test_a_connection_that_was_kept_serves_nobody_while_connections_are_refused(proxy, upstream):
    upstream.may_answer.set()
    with connected(proxy) as kept:
        assert ask(kept, "/api/v1/pods") == 200
        proxy.refuse_connections()
        with pytest.raises((HTTPException, OSError)):
            ask(kept, WATCH)
    proxy.listen_again()
    with connected(proxy) as another:
        assert ask(another, WATCH) == 200
