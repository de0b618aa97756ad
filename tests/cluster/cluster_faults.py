"""A small HTTP server on a real socket that answers as a test tells it to, also wrongly."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Exchange:
    """One request under way, and what the script may do with it."""

    def __init__(self, handler: BaseHTTPRequestHandler, request: Request, ended: threading.Event) -> None:
        self.request = request
        self._handler = handler
        self._ended = ended

    @property
    def peer(self) -> int:
        """The port that the request came from: one for each connection."""
        return self._handler.client_address[1]

    def reply(self, status, document=None, *, headers=(), body=b"", content_type="application/json"):
        payload = json.dumps(document).encode() if document is not None else body
        self._handler.send_response(status)
        self._handler.send_header("Content-Type", content_type)
        self._handler.send_header("Content-Length", str(len(payload)))
        for name, value in headers:
            self._handler.send_header(name, value)
        self._handler.end_headers()
        self._handler.wfile.write(payload)

    def start(self, *, length=None, content_type="application/json"):
        self._handler.send_response(200)
        self._handler.send_header("Content-Type", content_type)
        if length is None:
            self._handler.send_header("Transfer-Encoding", "chunked")
        else:
            self._handler.send_header("Content-Length", str(length))
        self._handler.end_headers()

    def chunk(self, data: bytes):
        self._handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self._handler.wfile.flush()

    def finish(self):
        self._handler.wfile.write(b"0\r\n\r\n")

    def raw(self, answer: bytes):
        self._handler.wfile.write(answer)

    def hang(self):
        """Silence with an open connection, until the server is closed; shorter than what clients bear by default."""
        self._ended.wait(20)
        self.cut()

    def cut(self):
        self._handler.close_connection = True
        with suppress(OSError):
            self._handler.connection.shutdown(2)


def status(code: int, reason: str, message: str, **details):
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


Script = Callable[[Exchange], None]


@dataclass
class FaultServer:
    """`script` answers every request; `requests` remembers them in order of arrival."""

    kubeconfig: Path
    script: Script = lambda exchange: exchange.reply(500, {})
    requests: list[Request] = field(default_factory=list)
    token: str = "right"

    def __post_init__(self) -> None:
        self._ended = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # An answer is written in parts, and the second would wait for a delayed acknowledgement of the first.
            disable_nagle_algorithm = True

            def _any(self) -> None:
                body = self._body()
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.command, self.path, headers, body)
                outer.requests.append(request)
                with suppress(OSError):
                    outer.script(Exchange(self, request, outer._ended))

            def _body(self) -> bytes:
                if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                    return self.rfile.read(int(self.headers.get("Content-Length", 0)))
                body = b""
                while size := int(self.rfile.readline() or b"0", 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return body

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _any  # noqa: N815 - named by the base

            def log_message(self, *args) -> None:
                pass

        self._handler = Handler
        self._listen(0)
        self.write_kubeconfig()

    def _listen(self, port: int) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def stop_listening(self) -> None:
        """New connections are refused from now on; those that are open stay."""
        self._server.shutdown()
        self._thread.join()
        self._server.socket.close()

    def listen_again(self) -> None:
        """At the same address."""
        self._listen(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def write_kubeconfig(self, *, server: str | None = None) -> None:
        self.kubeconfig.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "c", "cluster": {"server": server or self.url}}],
                    "users": [{"name": "u", "user": {"token": self.token}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )

    def close(self) -> None:
        self._ended.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
