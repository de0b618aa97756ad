"""uvicorn as web and live run it: connections with limits, an inherited or an own socket, an orderly end."""

from __future__ import annotations

import asyncio
import gc
import resource
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import uvicorn
from typing_extensions import override

from portal.runtime.connections import protocol_with
from portal.settings.env import Bind
from portal.settings.http_limits import HttpLimits

BACKLOG: Final = 2048
# What a process opens besides connections: databases, files, endpoints that are called.
_OTHER_FILES: Final = 2048
_TURN_SECONDS: Final = 2.0


class Server(uvicorn.Server):
    """Serves an ASGI application until SIGTERM or SIGINT; requests in hand are finished, for `graceful_seconds` at most.

    `on_exit` is called when the first of these signals comes, before anything is ended.
    """

    def __init__(
        self,
        app: Any,
        limits: HttpLimits,
        *,
        graceful_seconds: int,
        lifespan: Any = "auto",
        on_exit: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_exit = on_exit
        self._limits = limits
        self._loop: asyncio.AbstractEventLoop | None = None
        config = uvicorn.Config(
            app,
            http=protocol_with(limits),
            ws="none",
            lifespan=lifespan,
            log_config=None,
            access_log=False,
            server_header=False,
            # Who is behind a proxy is for foundation.http.context to say, by the proxies that are trusted.
            proxy_headers=False,
            timeout_keep_alive=limits.idle_seconds,
            timeout_graceful_shutdown=graceful_seconds,
            h11_max_incomplete_event_size=limits.header_bytes,
        )
        super().__init__(config)

    def turns(self) -> bool:
        """Whether the event loop does what it is asked; for another thread, which waits for 2 seconds at most."""
        if self._loop is None:
            return False
        turn = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop)
        try:
            turn.result(_TURN_SECONDS)
        except TimeoutError:
            turn.cancel()
            return False
        return True

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets=sockets)
        # All that was loaded by now stays: the collector need not look at it again and again while requests wait.
        gc.collect()
        gc.freeze()

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._on_exit()
        super().handle_exit(sig, frame)

    def serve_on(self, bind: Bind) -> None:
        """Returns when it has ended. Raises OSError when the address is taken."""
        _allow_files(self._limits.connections + _OTHER_FILES)
        self.run(sockets=[listener(bind)])


def listener(bind: Bind) -> socket.socket:
    """The listening socket. Raises OSError when the address is taken."""
    if bind.fd is not None:
        opened = socket.socket(fileno=bind.fd)
    else:
        family = socket.AF_INET6 if ":" in bind.host else socket.AF_INET
        opened = socket.create_server((bind.host, bind.port), family=family, backlog=BACKLOG)
    if opened.family != socket.AF_UNIX:
        # Connections inherit it. Else a body waits 40 ms for the acknowledgement of its headers; asyncio sets it only
        # where the socket says its protocol, which one of `create_server` does not.
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def _allow_files(wanted: int) -> None:
    """As many open files as the limit of connections needs, where the system allows them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
