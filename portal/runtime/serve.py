"""`manage.py serve`: pages and REST on PORTAL_BIND, eight threads behind an event loop (portal.runtime.front)."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from typing import Final

from django.db import connections

from foundation.http import health
from foundation.http import metrics as counted
from portal.runtime import metrics_server as metrics
from portal.runtime.front import Front
from portal.runtime.http_server import Server
from portal.settings.env import Environment
from portal.wsgi import application

THREADS: Final = 8
GRACEFUL_SECONDS: Final = 20


def run(environment: Environment, *, threads: int = THREADS) -> None:
    """Serves until SIGTERM or SIGINT, and lets requests in hand finish. Raises OSError when an address is taken."""
    # The server raises the signal once more when it has ended in good order.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    front = Front(application, environment.http, threads=threads)
    server = Server(front, environment.http, graceful_seconds=GRACEFUL_SECONDS, lifespan="off")

    def ready() -> tuple[bool, bytes]:
        return _ready() if server.turns() else (False, b"the server does not turn\n")

    metrics.start(environment.metrics_bind, metrics.ProcessReport(metrics=_exposition, ready=ready))
    try:
        server.serve_on(environment.bind)
    finally:
        front.close()
        if front.in_hand:
            # Their time to finish is over, and the interpreter would wait for their threads.
            logging.shutdown()
            os._exit(0)


def _leave(*_: object) -> None:
    sys.exit(0)


def _exposition() -> bytes:
    """What the process has counted, and the figures that are read from the database."""
    try:
        return counted.exposition()
    finally:
        # The thread that asks is gone afterwards, and must leave no connection behind.
        connections.close_all()


def _ready() -> tuple[bool, bytes]:
    try:
        is_ready, said = health.readiness()
    finally:
        connections.close_all()
    return is_ready, f"{json.dumps(said)}\n".encode()
