"""The other ends of a gateway: a server that answers at once, a pass-through on aiohttp, and independent callers.

`python -m benchmarks.worlds.wire server|through PORT` listens on 127.0.0.1 until it is ended; the pass-through forwards to the
server, whose URL is its third argument. Server and callers do as little as HTTP/1.1 lets them, so that what stands
between them is what is measured.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web
from typing_extensions import override

ANSWER = b'{"digit": 7, "probability": [0.01, 0.02, 0.01, 0.03, 0.01, 0.02, 0.01, 0.87, 0.01, 0.01]}'
_END_OF_HEAD = b"\r\n\r\n"
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "host", "content-length"})


class Messages(asyncio.Protocol):
    """Reads HTTP messages that say their length."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._buffer = b""
        self._wanted = -1

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while True:
            if self._wanted < 0:
                end = self._buffer.find(_END_OF_HEAD)
                if end < 0:
                    return
                self._wanted = end + len(_END_OF_HEAD) + _length(self._buffer[:end])
            if len(self._buffer) < self._wanted:
                return
            message, self._buffer = self._buffer[: self._wanted], self._buffer[self._wanted :]
            self._wanted = -1
            self.message(message)

    def message(self, message: bytes) -> None:
        """One whole message has come."""
        raise NotImplementedError


class Server(Messages):
    """Gives the same answer to everything."""

    _answer = (
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(ANSWER)}\r\n\r\n".encode()
        + ANSWER
    )

    @override
    def message(self, message: bytes) -> None:
        del message
        assert self.transport is not None
        self.transport.write(self._answer)


class Caller(Messages):
    """Sends one request after the other on one connection, as long as its crowd has some left."""

    def __init__(self, crowd: Crowd) -> None:
        super().__init__()
        self._crowd = crowd
        self._sent_at = 0.0

    def begin(self) -> None:
        if not self._crowd.take():
            return
        assert self.transport is not None
        self._sent_at = time.perf_counter()
        self.transport.write(self._crowd.request)

    @override
    def message(self, message: bytes) -> None:
        self._crowd.answered(message, (time.perf_counter() - self._sent_at) * 1000)
        self.begin()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd.lost()


class Crowd:
    """`count` requests over `connections` connections; what each took in milliseconds, and the seconds of all."""

    def __init__(self, request: bytes, *, count: int, ending: bytes = ANSWER) -> None:
        self.request = request
        self._ending = ending
        self.milliseconds: list[float] = []
        self._count = count
        self._left = count
        self._done = asyncio.Event()
        self._failure = ""

    def take(self) -> bool:
        self._left -= 1
        return self._left >= 0

    def answered(self, message: bytes, milliseconds: float) -> None:
        if not message.startswith(b"HTTP/1.1 200") or not message.endswith(self._ending):
            self._failure = message[:300].decode("latin-1")
        self.milliseconds.append(milliseconds)
        if len(self.milliseconds) == self._count or self._failure:
            self._done.set()

    def lost(self) -> None:
        if not self._done.is_set():
            self._failure = "the connection was closed"
            self._done.set()

    async def run(self, port: int, *, connections: int) -> float:
        """Seconds until all were answered. Raises SystemExit where one was not answered as it should be."""
        loop = asyncio.get_running_loop()
        made = [
            await loop.create_connection(lambda: Caller(self), "127.0.0.1", port) for _ in range(connections)
        ]
        began = time.perf_counter()
        for _, caller in made:
            caller.begin()
        await self._done.wait()
        seconds = time.perf_counter() - began
        for transport, _ in made:
            transport.close()
        if self._failure:
            raise SystemExit(f"a request was not answered: {self._failure}")
        return seconds


def request(path: str, *, token: str, body: bytes) -> bytes:
    """A POST as it stands on the wire."""
    head = (
        f"POST {path} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join(head).encode() + _END_OF_HEAD + body


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise ValueError(f"no length: {head!r}")


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", port)
    await server.serve_forever()


def _pass_through(upstream: str) -> web.Application:
    """The obvious way to write it: bodies and answers as streams, and no limits either."""

    async def session(app: web.Application) -> AsyncIterator[None]:
        app["client"] = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False)
        yield
        await app["client"].close()

    async def forward(request: web.Request) -> web.StreamResponse:
        headers = [(k, v) for k, v in request.headers.items() if k.lower() not in _HOP_BY_HOP]
        if "Content-Length" in request.headers:
            headers.append(("Content-Length", request.headers["Content-Length"]))
        client: aiohttp.ClientSession = request.app["client"]
        body = request.content if request.can_read_body else None
        async with client.request(
            request.method, upstream + request.path_qs, headers=headers, data=body, allow_redirects=False
        ) as answer:
            kept = [(k, v) for k, v in answer.headers.items() if k.lower() not in _HOP_BY_HOP]
            response = web.StreamResponse(status=answer.status, headers=kept)
            response.content_length = answer.content_length
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response

    app = web.Application()
    app.cleanup_ctx.append(session)
    app.router.add_route("*", "/{path:.*}", forward)
    return app


def main() -> None:
    role, port = sys.argv[1], int(sys.argv[2])
    if role == "server":
        asyncio.run(_serve(port))
    else:
        web.run_app(_pass_through(sys.argv[3]), host="127.0.0.1", port=port, print=None, access_log=None)


if __name__ == "__main__":
    main()
