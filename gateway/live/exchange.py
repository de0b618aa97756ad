"""One HTTP request and its answer on raw ASGI, without Django's request stack."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Final
from urllib.parse import parse_qs
from uuid import uuid4

from foundation.http.clients import network_of
from foundation.http.context import client_address
from foundation.http.problems import CONTENT_TYPE, Problem

Scope = dict[str, Any]
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = Iterable[tuple[str, str]]

BEARER_LENGTH_MAX: Final = 1000
REQUEST_ID = "X-Request-Id"
NO_STORE = ("Cache-Control", "no-store")
_SANE_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{8,64}")


class ClientGone(Exception):
    """The caller hung up while its request was still being read."""


class Exchange:
    """Reads one request, writes one answer. Every answer carries the request's id."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        # As sent, percent-encoded: once it is decoded, the sent text cannot be distinguished from what was meant.
        self.path = bytes(scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        self.query = bytes(scope.get("query_string", b"")).decode("latin-1")
        self.headers: list[tuple[str, str]] = [
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]
        ]
        # Where a header was sent twice, the first counts.
        self._first = {name.lower(): value for name, value in reversed(self.headers)}
        self._peer = str((scope.get("client") or ("",))[0])
        sent = self.header("x-request-id")
        self.request_id = sent if _SANE_REQUEST_ID.fullmatch(sent) else uuid4().hex
        self.status = 0
        self.also: list[tuple[str, str]] = []
        """Headers of whatever is answered."""
        self.hung_up = False
        """Whether the caller was gone before the whole body was read."""
        self._receive = receive
        self._send = send
        self._body_read = asyncio.Event()
        if not self.has_body:
            self._body_read.set()

    def header(self, name: str) -> str:
        """The first value of a header (named in lower case), "" if it was not sent."""
        return self._first.get(name, "")

    def argument(self, name: str) -> str:
        """The first value of a query argument, "" if it was not sent."""
        return next(iter(self.arguments(name)), "")

    def arguments(self, name: str) -> list[str]:
        """All values of a query argument."""
        return parse_qs(self.query, keep_blank_values=True).get(name, [])

    @property
    def bearer(self) -> str:
        """The bearer token that was sent, "" if none was."""
        scheme, _, credential = self.header("authorization").partition(" ")
        return (
            credential.strip() if scheme.lower() == "bearer" and len(credential) <= BEARER_LENGTH_MAX else ""
        )

    @property
    def network(self) -> str:
        """What the caller is taken for while nobody knows who it is: an IPv4 address, the /64 of an IPv6 one."""
        forwarded = ",".join(value for name, value in self.headers if name.lower() == "x-forwarded-for")
        return network_of(client_address(self._peer, forwarded))

    @property
    def has_body(self) -> bool:
        return bool(self.header("transfer-encoding")) or self.header("content-length") not in {"", "0"}

    async def read(self) -> bytes | None:
        """The next piece of the request's body, None at its end. Raises ClientGone.

        May be cancelled while it waits: nothing is lost then.
        """
        while not self._body_read.is_set():
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.hung_up = True
                raise ClientGone
            if not message.get("more_body", False):
                self._body_read.set()
            if chunk := message.get("body", b""):
                return bytes(chunk)
        return None

    async def gone(self) -> None:
        """Returns when the caller has hung up; looks only once the body is read."""
        await self._body_read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    # -- the answer ---------------------------------------------------------------------------------------------

    async def start(self, status: int, headers: Headers) -> None:
        self.status = status
        sent = [*((name, value) for name, value in headers if name.lower() != "x-request-id")]
        sent += [*self.also, (REQUEST_ID, self.request_id)]
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in sent]
        await self._send({"type": "http.response.start", "status": status, "headers": encoded})

    async def write(self, chunk: bytes) -> None:
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self, chunk: bytes = b"") -> None:
        await self._send({"type": "http.response.body", "body": chunk, "more_body": False})

    async def answer(
        self,
        status: int,
        body: bytes,
        *,
        content_type: str = "text/plain; charset=utf-8",
        headers: Headers = (),
    ) -> None:
        """A whole answer at once."""
        own = [("Content-Type", content_type), ("Content-Length", str(len(body))), NO_STORE]
        await self.start(status, [*own, *headers])
        await self.end(body)

    async def refuse(
        self, problem: Problem, *, headers: Headers = (), members: Mapping[str, str] | None = None
    ) -> None:
        """A problem document, with further `members` where given."""
        document = {**problem.body(request_id=self.request_id), **(members or {})}
        await self.answer(
            problem.status,
            json.dumps(document, ensure_ascii=False).encode("utf-8", "replace"),
            content_type=CONTENT_TYPE,
            headers=[*problem.headers.items(), *headers],
        )


class Body:
    """A request's body, which can be sent once more as long as it is small."""

    def __init__(self, exchange: Exchange, *, kept_max: int) -> None:
        self._exchange = exchange
        self._kept_max = kept_max
        self._kept: list[bytes] | None = []
        self._size = 0

    @property
    def can_be_sent(self) -> bool:
        """Whether `chunks` still begins at the beginning."""
        return self._kept is not None

    async def read_ahead(self) -> None:
        """Reads what may be kept and no more; only then a caller who hangs up is noticed before anything is sent.

        Raises ClientGone.
        """
        while self._kept is not None and self._size < self._kept_max:
            chunk = await self._exchange.read()
            if chunk is None:
                return
            self._size += len(chunk)
            self._kept.append(chunk)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body from its beginning, as it comes. Raises ClientGone."""
        for kept in tuple(self._kept or ()):
            yield kept
        while (chunk := await self._exchange.read()) is not None:
            self._size += len(chunk)
            if self._kept is not None and self._size <= self._kept_max:
                self._kept.append(chunk)
            else:
                self._kept = None
            yield chunk


async def while_connected(
    exchange: Exchange, work: Coroutine[Any, Any, None], *, until: Iterable[Awaitable[Any]] = ()
) -> bool:
    """Runs `work` until it ends, one of `until` ends or the caller hangs up; False in the last case only.

    Raises what `work` raises; whatever is left is cancelled, and awaited, before this returns.
    """
    working, gone = asyncio.ensure_future(work), asyncio.ensure_future(exchange.gone())
    tasks = [working, gone, *(asyncio.ensure_future(awaited) for awaited in until)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
        return working.done() or not gone.done()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
