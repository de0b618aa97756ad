"""HTTP by the byte: what slow and hostile clients send, over sockets of their own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from portal.runtime.front import Front
from portal.runtime.http_server import Server
from portal.settings.env import Bind
from portal.settings.http_limits import HttpLimits
from tests.waiting import until

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 90


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


class Raw:
    """One connection to a port of this machine, from `source`, one of its addresses."""

    def __init__(self, port: int, sent: bytes = b"", *, window: int = 0, source: str = "127.0.0.1") -> None:
        self.socket = socket.socket()
        self.socket.settimeout(PATIENCE_SECONDS)
        if window:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        self.socket.bind((source, 0))
        self.socket.connect(("127.0.0.1", port))
        self.socket.sendall(sent)
        self.buffer = b""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> Answer:
        """The next answer, by its Content-Length."""
        while b"\r\n\r\n" not in self.buffer:
            self._more()
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        line, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
        length = int(headers.get("content-length", "0"))
        while len(self.buffer) < length:
            self._more()
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return Answer(int(line.split()[1]), headers, body)

    def is_closed(self) -> bool:
        """Waits for the end of the connection; whatever comes before it is dropped."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionError:
            pass
        return True

    def close(self) -> None:
        self.socket.close()

    def _more(self) -> None:
        piece = self.socket.recv(65536)
        if not piece:
            raise ConnectionError(f"closed after {self.buffer!r}")
        self.buffer += piece


def get(port: int, path: str = "/") -> Answer:
    """One ordinary read on a connection of its own."""
    raw = Raw(port, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    try:
        return raw.answer()
    finally:
        raw.close()


@contextmanager
def many(
    port: int, count: int, sent: Callable[[int], bytes] | bytes, *, window: int = 0
) -> Iterator[list[Raw]]:
    with ExitStack() as stack:
        opened = [
            Raw(port, sent(number) if callable(sent) else sent, window=window) for number in range(count)
        ]
        for each in opened:
            stack.callback(each.close)
        yield opened


@contextmanager
def serving(app: Any, limits: HttpLimits, *, threads: int = 2, wsgi: bool = True) -> Iterator[int]:
    """The server of web (or, for an ASGI application, that of live) in a thread of this process; its port."""
    with served(app, limits, threads=threads, wsgi=wsgi) as (port, _):
        yield port


@contextmanager
def served(
    app: Any, limits: HttpLimits, *, threads: int = 2, wsgi: bool = True
) -> Iterator[tuple[int, Server]]:
    """The same, and the server itself, to see what it holds."""
    held = socket.create_server(("127.0.0.1", 0))
    front = Front(app, limits, threads=threads) if wsgi else None
    server = Server(front or app, limits, graceful_seconds=PATIENCE_SECONDS, lifespan="off")
    bind = Bind(fd=os.dup(held.fileno()))
    running = threading.Thread(target=server.serve_on, args=(bind,), name="server")
    running.start()
    try:
        until(lambda: server.started, PATIENCE_SECONDS, "the server serves")
        yield held.getsockname()[1], server
    finally:
        server.should_exit = True
        running.join(PATIENCE_SECONDS)
        if front is not None:
            front.close()
        held.close()


@contextmanager
def web_process(folder: Path, **variables: str) -> Iterator[tuple[subprocess.Popen[bytes], int, int]]:
    """A real `manage.py serve`, without any store: the process, its port, and that of its metrics and health."""
    with (
        socket.create_server(("127.0.0.1", 0), backlog=256) as web,
        socket.create_server(("127.0.0.1", 0)) as own,
    ):
        inherited = {name: text for name, text in os.environ.items() if not name.startswith("PORTAL_")}  # noqa: TID251
        given = {
            "PORTAL_DATA_DIR": str(folder),
            "PORTAL_BIND": f"fd://{web.fileno()}",
            "PORTAL_METRICS_BIND": f"fd://{own.fileno()}",
            **variables,
        }
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "manage.py"), "serve"],
            env=inherited | given,
            pass_fds=(web.fileno(), own.fileno()),
            stdin=subprocess.DEVNULL,
        )
        try:
            # The sockets are open before the process answers, so the first read waits for it.
            assert get(web.getsockname()[1], "/healthz").status == 200
            yield process, web.getsockname()[1], own.getsockname()[1]
        finally:
            process.kill()
            process.wait()
