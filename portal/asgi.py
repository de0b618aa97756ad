"""The ASGI application of the live process: the gateway's, or the health answer alone where there is none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Any

import django
from django.utils.module_loading import import_string

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

HEALTH_PATHS = frozenset({"/healthz", "/healthz/"})

django.setup(set_prefix=False)


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
        return
    await _answer(send, 404, b"not found\n")


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _answer(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


_inner: Callable[[Scope, Receive, Send], Awaitable[None]] = (
    import_string("gateway.asgi.application") if find_spec("gateway.asgi") else _nothing
)


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer `/healthz` here, without I/O; hand everything else to the gateway."""
    if scope["type"] == "http" and scope["path"] in HEALTH_PATHS:
        await _answer(send, 200, b"ok\n")
        return
    await _inner(scope, receive, send)
