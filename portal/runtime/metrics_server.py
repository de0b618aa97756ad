"""Metrics and health of a process, on PORTAL_METRICS_BIND: a separate address that no proxy hands on.

Prometheus and the kubelet ask by the address of a pod, over plain HTTP and without an account, so nothing here
looks at host names, schemes or tokens. It runs in a thread, and answers also where the process itself is stuck.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, Gauge, generate_latest
from typing_extensions import override

from foundation.vitals import Vitals
from portal.settings.env import Bind

logger = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 10
METRICS: Final = "/metrics"
HEALTH: Final = "/healthz"
AGE = Gauge(
    "portal_sign_of_life_age_seconds", "Seconds since the loop of the process last turned.", ["process"]
)


@dataclass(frozen=True, kw_only=True)
class ProcessReport:
    """What a process reports: its metrics as text, and why it counts as stuck, None where it does not."""

    metrics: Callable[[], bytes]
    stuck: Callable[[], str | None] = lambda: None


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
    daemon_threads = True

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
        return 404, plain, b"/metrics and /healthz are here\n"

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Scrapes come every few seconds and are no news."""
