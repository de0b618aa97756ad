"""Servers that notices go to: one of HTTP that can fail in every way, and one of SMTP."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller

Answer = int | tuple[int, dict[str, str]] | None
"""A status, with headers or without; None hangs until the server ends."""


@dataclass(frozen=True)
class Got:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes
    answered: Answer

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """Notes every request and answers as `behave` says, from the number of requests so far."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        self.behave: Callable[[int], Answer] = lambda _: 204
        self.got: list[Got] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def accepted(self) -> list[Got]:
        """Those that it answered with success, in the order in which they came."""
        return [each for each in self.got if each.answered == 204]

    def start(self) -> None:
        """On the port that it had before."""
        receiver, self._over = self, threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                answer = receiver.note(
                    self.path, {name.lower(): text for name, text in self.headers.items()}, body
                )
                if answer is None:
                    receiver.wait()
                    return
                status, headers = answer if isinstance(answer, tuple) else (answer, {})
                self.send_response(status)
                for name, text in headers.items():
                    self.send_header(name, text)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def note(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        with self._lock:
            answer = self.behave(len(self.got))
            self.got.append(Got(path, headers, body, answer))
        return answer

    def wait(self) -> None:
        """Hangs for as long as the server is up."""
        self._over.wait()

    def stop(self) -> None:
        if self._server is not None:
            self._over.set()
            self._server.shutdown()
            self._server.server_close()
            self._server = None


class _OnAnyPort(Controller):
    def _trigger_server(self) -> None:
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


class Mailbox:
    """A real SMTP server; `mails` are the messages that it took, as (recipients, text)."""

    def __init__(self) -> None:
        self.mails: list[tuple[list[str], bytes]] = []
        self.refuses: set[str] = set()
        self._controller = _OnAnyPort(self, hostname="127.0.0.1", port=0, ready_timeout=30)
        self._controller.start()

    @property
    def port(self) -> int:
        return int(self._controller.port)

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if address in self.refuses:
            return "550 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.mails.append((envelope.rcpt_tos, envelope.content))
        return "250 OK"

    def stop(self) -> None:
        self._controller.stop()
