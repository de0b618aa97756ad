"""`manage.py live`: server-sent events, log follow and the gateway, uvicorn on PORTAL_LIVE_BIND."""

from __future__ import annotations

import gc
import socket
from types import FrameType

import uvicorn
from typing_extensions import override

from gateway import asgi
from portal.runtime import metrics_server as metrics
from portal.settings.env import Bind

GRACEFUL_SECONDS = 10
KEEP_ALIVE_SECONDS = 75
BACKLOG = 2048


def run(bind: Bind, *, metrics_bind: Bind | None = None) -> None:
    """Serves until SIGTERM or SIGINT. Raises OSError when an address is taken."""
    metrics.start(metrics_bind, metrics.ProcessReport(metrics=exposition))
    config = uvicorn.Config(
        "portal.asgi:application",
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACEFUL_SECONDS,
    )
    _Server(config).run(sockets=[_listener(bind)])


def exposition() -> bytes:
    """What endpoints scale on by requests, and what the process itself has counted."""
    return metrics.own_metrics() + asgi.application.exposition()


class _Server(uvicorn.Server):
    """Ends the open streams first: a page that stays open would hold up the end for all of the grace time."""

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        # All that was loaded by now stays: the collector need not look at it again and again while requests wait.
        gc.collect()
        gc.freeze()

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        asgi.application.end_streams()
        super().handle_exit(sig, frame)


def _listener(bind: Bind) -> socket.socket:
    if bind.fd is not None:
        listener = socket.socket(fileno=bind.fd)
    else:
        family = socket.AF_INET6 if ":" in bind.host else socket.AF_INET
        listener = socket.create_server((bind.host, bind.port), family=family, backlog=BACKLOG)
    if listener.family != socket.AF_UNIX:
        # Connections inherit it. Else a body waits 40 ms for the acknowledgement of its headers; asyncio sets it only
        # where the socket says its protocol, which one of `create_server` does not.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
