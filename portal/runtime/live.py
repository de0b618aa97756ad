"""`manage.py live`: server-sent events, log follow and the gateway, uvicorn on PORTAL_LIVE_BIND."""

from __future__ import annotations

from typing import Final

from gateway import asgi
from portal.runtime import metrics_server as metrics
from portal.runtime.http_server import Server
from portal.settings.env import Environment

GRACEFUL_SECONDS: Final = 10


def run(environment: Environment) -> None:
    """Serves until SIGTERM or SIGINT. Raises OSError when an address is taken."""
    # Open streams end first: a page that stays open would hold up the end for all of the grace time.
    server = Server(
        "portal.asgi:application",
        environment.http,
        graceful_seconds=GRACEFUL_SECONDS,
        on_exit=asgi.application.end_streams,
    )

    def ready() -> tuple[bool, bytes]:
        return (True, b"ok\n") if server.turns() else (False, b"the server does not turn\n")

    metrics.start(environment.metrics_bind, metrics.ProcessReport(metrics=exposition, ready=ready))
    server.serve_on(environment.live_bind)


def exposition() -> bytes:
    """What endpoints scale on by requests, and what the process itself has counted."""
    return metrics.own_metrics() + asgi.application.exposition()
