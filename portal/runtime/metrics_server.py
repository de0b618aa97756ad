"""Metrics and health of a process, on PORTAL_METRICS_BIND: a separate address that no proxy hands on.

Prometheus and the kubelet ask by the address of a pod, over plain HTTP and without an account, so nothing here
looks at host names, schemes or tokens. It runs in a thread, and answers also where the process itself is stuck.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Gauge, generate_latest
from typing_extensions import override

from foundation.vitals import Vitals
from portal.settings.env import Bind

logger = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 10
CONNECTIONS_MAX: Final = 32
METRICS: Final = "/metrics"
HEALTH: Final = "/healthz"
READY: Final = "/readyz"
AGE = Gauge(
    "portal_sign_of_life_age_seconds", "Seconds since the loop of the process last turned.", ["process"]
)


@dataclass(frozen=True, kw_only=True)
class ProcessReport:
    """What a process reports: its metrics as text, why it counts as stuck (None where it does not), and whether it can be
    given requests, with a text that says more.
    """

    metrics: Callable[[], bytes]
    stuck: Callable[[], str | None] = lambda: None
    ready: Callable[[], tuple[bool, bytes]] = lambda: (True, b"ok\n")


def own_metrics() -> bytes:
    """What this process has counted since it began, and its CPU, memory and open files."""
    return generate_latest(REGISTRY)


def of_loop(
    vitals: Vitals, *, process: str, seconds_most: float, excused: Callable[[], bool] | None = None
) -> ProcessReport:
    """For a process whose loop gives signs of life: stuck after `seconds_most` without one, unless `excused`."""
    AGE.labels(process).set_function(vitals.age_seconds)

    def stuck() -> str | None:
        seconds = vitals.age_seconds()
        if seconds <= seconds_most or (excused is not None and excused()):
            return None
        return f"no sign of life for {seconds:.0f} s, of {seconds_most:.0f} s allowed"

    return ProcessReport(metrics=own_metrics, stuck=stuck)


def listen(bind: Bind) -> socket.socket:
    """The listening socket. Raises OSError when the address is taken."""
    if bind.fd is not None:
        return socket.socket(fileno=bind.fd)
    family = socket.AF_INET6 if ":" in bind.host else socket.AF_INET
    return socket.create_server((bind.host, bind.port), family=family)


def start(bind: Bind | None, report: ProcessReport) -> None:
    """Answer on `bind` from now on, in a thread that ends with the process; without an address it does nothing."""
    if bind is not None:
        answer(listen(bind), report)


def answer(listener: socket.socket, report: ProcessReport) -> ThreadingHTTPServer:
    """Answer on an open socket, which several processes may share: one of them takes a request."""

    class Handler(_Handler):
        source = report

    server = _Server(listener.getsockname(), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return server


class _Server(ThreadingHTTPServer):
    """Has a few connections at a time: one more ends the oldest, so that nobody keeps probes from being answered."""

    daemon_threads = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._open: list[Any] = []
        self._lock = threading.Lock()
        super().__init__(*args, **kwargs)

    @override
    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            while len(self._open) >= CONNECTIONS_MAX:
                with suppress(OSError):
                    self._open.pop(0).shutdown(socket.SHUT_RDWR)
            self._open.append(request)
        super().process_request(request, client_address)

    @override
    def shutdown_request(self, request: Any) -> None:
        with self._lock, suppress(ValueError):
            self._open.remove(request)
        super().shutdown_request(request)

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        logger.debug("metrics.request_failed", extra={"client": str(client_address)})


class _Handler(BaseHTTPRequestHandler):
    source: ProcessReport
    timeout = REQUEST_SECONDS

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].removesuffix("/")
        try:
            status, kind, body = self._said(path)
        except Exception:
            logger.exception("metrics.failed", extra={"path": path})
            status, kind, body = 503, "text/plain; charset=utf-8", b"it cannot be told now\n"
        self.send_response_only(status)
        for name, text in (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _said(self, path: str) -> tuple[int, str, bytes]:
        plain = "text/plain; charset=utf-8"
        if path == METRICS:
            return 200, CONTENT_TYPE_LATEST, self.source.metrics()
        if path == HEALTH:
            stuck = self.source.stuck()
            return (200, plain, b"ok\n") if stuck is None else (503, plain, f"{stuck}\n".encode())
        if path == READY:
            ready, said = self.source.ready()
            return 200 if ready else 503, plain, said
        return 404, plain, b"/metrics, /healthz and /readyz are here\n"

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Scrapes come every few seconds and are no news."""
