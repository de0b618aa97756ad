"""One connection of web or live: HTTP/1.1 read strictly, with deadlines, and given up first where there are too many.

uvicorn's own protocol has no deadline for headers, none for a client that does not read, and takes some requests that a
proxy in front may read in another way (request smuggling): all of these are refused here, and the connection is closed.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Final, cast
from uuid import uuid4

import h11
from h11._receivebuffer import ReceiveBuffer
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from foundation.http.problems import CONTENT_TYPE, Problem
from portal.settings.http_limits import HttpLimits

_LENGTH: Final = b"content-length"
_CODING: Final = b"transfer-encoding"
_BARE_LINE: Final = re.compile(rb"(?<!\r)\n|\r(?!\n)")
_HTTP_1_0: Final = re.compile(rb"HTTP/1\.0\s*$")
_AGAIN_SECONDS: Final = 5


class _Head(ReceiveBuffer):
    """The bytes of a connection; refuses heads of requests (and trailers) that two readers may read in two ways."""

    _taken = bytearray()

    @override
    def _extract(self, count: int) -> bytearray:
        self._taken = super()._extract(count)
        return self._taken

    @override
    def maybe_extract_lines(self) -> list[bytearray] | None:
        if self._data[:1] == b"\n":
            raise h11.RemoteProtocolError("a line ends with LF alone")
        lines = super().maybe_extract_lines()
        if lines:
            _check(self._taken, lines)
        return lines


def _check(sent: bytearray, lines: list[bytearray]) -> None:
    """Of the bytes of a head, and its lines without their ends. Raises RemoteProtocolError."""
    if _BARE_LINE.search(sent):
        raise h11.RemoteProtocolError("a line ends with CR or LF alone")
    names = [bytes(line.partition(b":")[0]).lower() for line in lines[1:]]
    if any(line[:1].isspace() for line in lines):
        raise h11.RemoteProtocolError("a header is folded over several lines")
    if names.count(_LENGTH) + names.count(_CODING) > 1:
        raise h11.RemoteProtocolError("the length of the body is said more than once")
    if _CODING in names and _HTTP_1_0.search(bytes(lines[0])):
        raise h11.RemoteProtocolError("HTTP/1.0 has no Transfer-Encoding")
    if any(b"," in line for line, name in zip(lines[1:], names, strict=True) if name == _LENGTH):
        raise h11.RemoteProtocolError("the length of the body is said more than once")


def too_many() -> Problem:
    """What is told while there are as many connections, or bodies on their way, as may be."""
    detail = "The server has as many requests in hand as it takes."
    again = {"Retry-After": str(_AGAIN_SECONDS)}
    return Problem(status=503, code="too_many_connections", detail=detail, headers=again)


class LimitedConnection(H11Protocol):
    """Made by uvicorn, one for each connection, as the class that `protocol_with` returns."""

    limits = HttpLimits()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn._receive_buffer = _Head()  # noqa: SLF001 - h11 reads what it is told, and has no other place for a check
        self._head_timer: asyncio.TimerHandle | None = None
        self._reader_timer: asyncio.TimerHandle | None = None
        self._passes_over = False
        """Whether its request was answered before its body was here, of which the rest still comes."""
        self.waiting_since: float | None = None
        """Since when it has owed a whole request (the loop's time), None while one is answered."""

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()
        if len(self.connections) > self.limits.connections and not self._makes_room():
            self._refuse(too_many())

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.is_closing():
            return
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            if not self._passes_over:
                # The body has a time of its own; until it is whole, the request is owed.
                self._stop_timer_of_head()
        elif state is not h11.IDLE:
            self._passes_over = False
            self._stop_awaiting()
        elif self._passes_over:
            self._passes_over = False
            self._stop_timer_of_head()
            self._await_head()
        elif self._head_timer is None:
            self._await_head()

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE and self.waiting_since is None:
            # The time of its next head begins with the next byte: until then it may be idle.
            self.waiting_since = self.loop.time()
        elif self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing():
            # Many clients read no answer before all of the body was sent, but nobody waits for it for long.
            self._passes_over = True
            self.waiting_since = self.loop.time()
            self._head_timer = self.loop.call_later(self.limits.header_seconds, self.transport.close)

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._reader_timer = self.loop.call_later(self.limits.reader_seconds, self.transport.abort)

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reader_timer is not None:
            self._reader_timer.cancel()
            self._reader_timer = None

    @override
    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn while it handles what h11 raised."""
        error = sys.exc_info()[1]
        if isinstance(error, h11.RemoteProtocolError) and error.error_status_hint == 431:
            detail = f"The headers have more than {self.limits.header_bytes} bytes."
            self._refuse(Problem(status=431, code="headers_too_large", detail=detail))
        else:
            # h11 shows what it was sent as Python writes bytes, after its reason.
            reason = re.split(r":? ?(?:bytearray\()?b['\"]", str(error), maxsplit=1)[0]
            detail = f"This is no HTTP request that is taken here: {reason}."
            self._refuse(Problem(status=400, code="malformed_http", detail=detail))

    # -- the time of a head --------------------------------------------------------------------------------------

    def _await_head(self) -> None:
        self.waiting_since = self.loop.time()
        self._head_timer = self.loop.call_later(self.limits.header_seconds, self._head_is_late)

    def _stop_awaiting(self) -> None:
        self.waiting_since = None
        self._stop_timer_of_head()

    def _stop_timer_of_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self.conn.trailing_data[0]:
            detail = f"The headers did not arrive within {self.limits.header_seconds} seconds."
            self._refuse(Problem(status=408, code="request_timeout", detail=detail))
        else:
            self.transport.close()

    def _stop_timers(self) -> None:
        for timer in (self._head_timer, self._reader_timer):
            if timer is not None:
                timer.cancel()
        self._head_timer = self._reader_timer = None

    # -- too many, or not taken ----------------------------------------------------------------------------------

    def _makes_room(self) -> bool:
        """Gives up the connection that has owed a request for longest; False where all others are being answered."""
        others = [cast("LimitedConnection", each) for each in self.connections if each is not self]
        closing = next((each for each in others if each.transport.is_closing()), None)
        waiting = [each for each in others if each.waiting_since is not None]
        given_up = closing or min(waiting, key=lambda each: each.waiting_since or 0.0, default=None)
        if given_up is None:
            return False
        self.connections.discard(given_up)
        given_up.transport.abort()
        return True

    def _refuse(self, problem: Problem) -> None:
        """Answers with a problem document where no answer has begun, and ends the connection."""
        self._stop_awaiting()
        cycle: RequestResponseCycle | None = self.cycle
        answering = cycle is not None and not cycle.response_complete
        if cycle is not None and answering and not cycle.response_started:
            # Its body is what is wrong: whoever still waits for that learns that nobody is there, and answers nothing.
            cycle.disconnected, answering = True, False
            cycle.message_event.set()
        if answering or self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
            self.transport.abort()
            return
        status = HTTPStatus(problem.status)
        body = json.dumps(problem.body(request_id=uuid4().hex)).encode()
        head = [
            f"HTTP/1.1 {status.value} {status.phrase}",
            f"Content-Type: {CONTENT_TYPE}",
            f"Content-Length: {len(body)}",
            "Cache-Control: no-store",
            "Connection: close",
            f"Date: {formatdate(usegmt=True)}",
            *(f"{name}: {value}" for name, value in problem.headers.items()),
        ]
        self.transport.write("\r\n".join([*head, "", ""]).encode("ascii") + body)
        self.transport.close()


def protocol_with(limits: HttpLimits) -> type[LimitedConnection]:
    """The class of a server's connections."""
    return type("ConnectionOfServer", (LimitedConnection,), {"limits": limits})
