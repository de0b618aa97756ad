"""A WSGI application behind an event loop: a thread has a request only once all of it is here, and has it no longer
than it takes to make the answer. Slow clients cost a socket and never a thread.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import IO, Any, Final
from urllib.parse import unquote_to_bytes
from uuid import uuid4

from django.http.response import HttpResponseBase

from foundation.digits import whole_number
from foundation.http.arrival import arrival
from foundation.http.clients import HttpClient
from foundation.http.problems import CONTENT_TYPE, UNEXPECTED, Problem
from portal.runtime.answers import Answer, ReaderGoneError, Spool
from portal.runtime.connections import too_many
from portal.runtime.fairness import ByteShares, RefusalPace, ThreadTurns
from portal.settings.http_limits import HttpLimits

log = logging.getLogger(__name__)

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
WSGIApplication = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

MEMORY_BYTES: Final = 64 * 1024
BODIES_MAX: Final = 64
"""The bodies that are here have this many times the disk of the largest together; one more is told to come again."""
# Of a body that is too large, this many times the limit.
_PASSED_OVER: Final = 16
_CLOSE: Final = (b"connection", b"close")


class BodyRefusedError(Exception):
    """The request's body is not taken; `problem` says why, `more` whether there is more of it that should be passed over."""

    def __init__(self, problem: Problem, *, more: bool = False) -> None:
        super().__init__(problem.detail)
        self.problem = problem
        self.more = more


class ClientGoneError(Exception):
    """The client hung up before its request was whole."""


class Front:
    """An ASGI application that runs a WSGI one in `threads` threads, of which one client has at most half.

    Who is refused for its rate is told so here: it costs neither a thread nor a place in the queue.
    """

    def __init__(self, application: WSGIApplication, limits: HttpLimits, *, threads: int) -> None:
        self._application = application
        self._limits = limits
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="web")
        self._turns = ThreadTurns(threads)
        self._pace = RefusalPace()
        self.in_hand = 0
        """How many requests the threads have, or will have."""
        bodies = (limits.body_bytes - MEMORY_BYTES) * BODIES_MAX
        self.bodies = ByteShares(bodies, of_client=bodies // 8)
        """Of the bodies that are here, whole or not, what is on the disk. The first 64 KiB, all of most, are every connection's own."""
        self.spool = Spool()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES) as body:
            environ = environ_of(scope, body)
            arrived = arrival(environ)
            if arrived.refusal is not None:
                await self._refuse(scope, arrived.client, arrived.refusal, receive, send)
                return
            with self.bodies.taken(arrived.client) as take:
                try:
                    length = await self._read(scope, receive, body, take=take)
                except BodyRefusedError as error:
                    if error.more:
                        await self._pass_over(receive)
                    await _tell(error.problem, send)
                    return
                except ClientGoneError:
                    return
                body.seek(0)
                # However the body came, it is whole now.
                environ["CONTENT_LENGTH"] = str(length) if length else ""
                await self._answered(environ, arrived.client, receive, send)

    def close(self) -> None:
        """No further request is begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _read(
        self, scope: Scope, receive: Receive, body: IO[bytes], *, take: Callable[[int], bool]
    ) -> int:
        """Reads the whole body, and returns its bytes. Raises BodyRefusedError or ClientGoneError."""
        headers = dict(scope["headers"])
        said = headers.get(b"content-length", b"0").decode("latin-1")
        most, seconds = self._limits.body_bytes, self._limits.body_seconds
        # Of more digits than this it is no number here, and too large in any case.
        length = whole_number(said, digits=18)
        if length == 0 and b"transfer-encoding" not in headers:
            return 0
        if length is None or length > most:
            # Who waits to be asked for it sends nothing meanwhile.
            more = b"expect" not in headers and length is not None and length <= most * _PASSED_OVER
            raise BodyRefusedError(_too_large(most), more=more)
        try:
            async with asyncio.timeout(seconds):
                return await _taken(receive, body, most=most, take=take)
        except TimeoutError:
            detail = f"The body did not arrive within {seconds} seconds."
            raise BodyRefusedError(Problem(status=408, code="request_timeout", detail=detail)) from None

    async def _refuse(
        self, scope: Scope, client: HttpClient, refusal: HttpResponseBase, receive: Receive, send: Send
    ) -> None:
        """Its body is not kept, and not even asked for; what of it cannot be passed over ends the connection."""
        names = {name for name, _ in scope["headers"]}
        has_body = not names.isdisjoint({b"content-length", b"transfer-encoding"})
        is_whole = not has_body or (b"expect" not in names and await self._pass_over(receive))
        await asyncio.sleep(self._pace.wait_of(client, asyncio.get_running_loop().time()))
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in refusal.items()]
        headers += [] if is_whole else [_CLOSE]
        await send({"type": "http.response.start", "status": refusal.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": b"".join(refusal)})

    async def _pass_over(self, receive: Receive) -> bool:
        """Takes what is left of a body, and says whether that was all: many clients read no answer before all of it was sent."""
        left = self._limits.body_bytes * _PASSED_OVER
        with suppress(TimeoutError):
            async with asyncio.timeout(self._limits.body_seconds):
                while left > 0:
                    message = await receive()
                    if not message.get("more_body", False):
                        return True
                    left -= len(message["body"])
        return False

    async def _answered(
        self, environ: dict[str, Any], client: HttpClient, receive: Receive, send: Send
    ) -> None:
        loop = asyncio.get_running_loop()
        answer = Answer(loop, self.spool, client)
        self.in_hand += 1
        gone = asyncio.ensure_future(_gone(receive))
        gone.add_done_callback(lambda _: answer.give_up())
        try:
            await self._turns.begin(client)
            working = loop.run_in_executor(self._pool, self._work, environ, answer)
            # The thread is free then, however long the answer is on its way.
            working.add_done_callback(lambda _: self._turns.end(client))
            try:
                await self._sent(answer, send)
            finally:
                answer.give_up()
                # The thread ends at its next piece; until then its files are needed.
                await asyncio.shield(working)
        finally:
            gone.cancel()
            self.in_hand -= 1
            answer.close()

    async def _sent(self, answer: Answer, send: Send) -> None:
        begun, more = False, True
        while more:
            piece, more = await answer.next()
            if answer.failed and not more:
                # What is unfinished is cut off by the server, which tells the truth; before that there is a better way.
                if not begun:
                    await _tell(Problem(status=500, code="internal_error", detail=UNEXPECTED), send)
                return
            if not begun:
                begun = True
                await send(
                    {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
                )
            await send({"type": "http.response.body", "body": piece, "more_body": more})

    def _work(self, environ: dict[str, Any], answer: Answer) -> None:
        """In a thread of the pool: one request, from its first byte to the last one of its answer."""
        try:
            if not answer.reader_is_gone:
                _run(self._application, environ, answer)
        except ReaderGoneError:
            answer.failed = True
        except Exception:
            log.exception("web.failed", extra={"path": environ["PATH_INFO"]})
            answer.failed = True
        finally:
            answer.end()


def environ_of(scope: Scope, body: IO[bytes]) -> dict[str, Any]:
    """The WSGI environment of an ASGI request; the length of its body is said once that was read."""
    server, client = scope.get("server") or ("localhost", 80), scope.get("client") or ("", 0)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(scope["raw_path"]).decode("latin-1"),
        "RAW_URI": scope["raw_path"].decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1] or 80),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": client[0],
        "REMOTE_PORT": str(client[1]),
        "CONTENT_LENGTH": "",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": body,
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        # With an underscore it would pass for the header with a hyphen, which only a proxy may write.
        if "_" in name or name in {"transfer-encoding", "content-length"}:
            continue
        key = name.replace("-", "_").upper()
        key = key if key == "CONTENT_TYPE" else f"HTTP_{key}"
        joint = "; " if key == "HTTP_COOKIE" else ","
        environ[key] = f"{environ[key]}{joint}{value}" if key in environ else value
    return environ


def _run(application: WSGIApplication, environ: dict[str, Any], answer: Answer) -> None:
    def start_response(
        status: str, headers: list[tuple[str, str]], _error: Any = None
    ) -> Callable[[bytes], None]:
        answer.start(int(status.split(" ", 1)[0]), headers)
        return answer.write

    chunks = application(environ, start_response)
    try:
        for chunk in chunks:
            if chunk:
                answer.write(chunk)
    finally:
        close = getattr(chunks, "close", None)
        if close is not None:
            close()


async def _taken(receive: Receive, body: IO[bytes], *, most: int, take: Callable[[int], bool]) -> int:
    length, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        piece, more = message.get("body", b""), message.get("more_body", False)
        length += len(piece)
        if length > most:
            raise BodyRefusedError(_too_large(most), more=more)
        if length > MEMORY_BYTES and not take(min(len(piece), length - MEMORY_BYTES)):
            raise BodyRefusedError(too_many())
        body.write(piece)
    return length


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _tell(problem: Problem, send: Send) -> None:
    """Answers for the application, and ends the connection: the rest of a body may still be on its way."""
    body = json.dumps(problem.body(request_id=uuid4().hex)).encode()
    headers = [
        (b"content-type", CONTENT_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        _CLOSE,
        *((name.lower().encode(), value.encode()) for name, value in problem.headers.items()),
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _too_large(most: int) -> Problem:
    return Problem(status=413, code="too_large", detail=f"The request body is larger than {most} bytes.")
