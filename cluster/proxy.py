"""Requests to a service of the cluster: through the API server's `services/proxy`, or by Service DNS inside
it.

`ServiceProxy.forward` streams both ways for the gateway; `invoke` is its small synchronous counterpart for trying
an endpoint out. Neither lets a caller's credentials, cookies or forwarding headers pass, nor a path leave the
service.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import urllib3
from yarl import URL

from cluster import proxy_rules as rules
from cluster.client import ClusterClient
from cluster.connection import IN_CLUSTER, Connection
from cluster.errors import ClusterUnavailable, ProxyFailed
from cluster.proxy_rules import Headers, Target
from cluster.proxy_sessions import Session

_CHUNK: Final = 64 * 1024
# How often the kubeconfig and the token are looked at again: both may need the disk, or a credential plugin.
_CREDENTIALS_SECONDS: Final = 1.0

Body = AsyncIterator[bytes] | bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyLimits:
    """What one proxied request may take; bytes and seconds."""

    request_bytes: int = 32 * 2**20
    response_bytes: int = 256 * 2**20
    total_seconds: float = 300.0
    connect_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class Invocation:
    """What a service answered; `truncated` if its body was longer than the limit."""

    status: int
    headers: Headers
    body: bytes
    truncated: bool
    duration_seconds: float
    first_byte_seconds: float = 0.0
    """The part of the duration until the status line arrived: the way to the service, and its work."""


class Upstream:
    """A service's answer whose body is still coming; `chunks()` may be read once."""

    def __init__(self, response: aiohttp.ClientResponse, first: bytes, limits: ProxyLimits) -> None:
        self.status = response.status
        self.headers = rules.response_headers(
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in response.raw_headers
        )
        self._response = response
        self._first = first
        self._limits = limits

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body's bytes as they come.

        Raises ProxyFailed if it grows beyond the limit, breaks or takes too long; as the status was sent by
        then, the caller cuts its own connection.
        """
        size = len(self._first)
        if self._first:
            yield self._first
        while True:
            try:
                chunk = await self._response.content.readany()
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise _failure(error) from error
            if not chunk:
                return
            size += len(chunk)
            if size > self._limits.response_bytes:
                raise rules.too_large("response", self._limits.response_bytes)
            yield chunk


class _Capped:
    """A request body that ends the request when it grows beyond the limit."""

    def __init__(self, body: AsyncIterator[bytes], limit: int) -> None:
        self._body = body
        self._limit = limit
        self.exceeded = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._body:
            size += len(chunk)
            if size > self._limit:
                self.exceeded = True
                raise rules.too_large("request", self._limit)
            yield chunk


@dataclass(frozen=True, slots=True)
class _Opened:
    connection: Connection
    session: Session
    token: str | None
    checked_at: float


class ServiceProxy:
    """Forwards requests on the running event loop; one a process. Close it with `aclose`."""

    def __init__(self, client: ClusterClient, *, limits: ProxyLimits | None = None) -> None:
        self._client = client
        self._limits = limits or ProxyLimits()
        self._opened: _Opened | None = None
        self._refused: Connection | None = None
        self._renewed_at = -math.inf
        self._direct: Session | None = None
        self._opening = asyncio.Lock()

    async def aclose(self) -> None:
        """Closes all connections."""
        sessions = (self._direct, self._opened.session if self._opened else None)
        self._direct = self._opened = None
        for session in sessions:
            if session is not None:
                await session.close()

    @asynccontextmanager
    async def forward(
        self,
        target: Target,
        *,
        method: str,
        path: str,
        query: str = "",
        headers: Iterable[tuple[str, str]] = (),
        body: Body = None,
        limits: ProxyLimits | None = None,
    ) -> AsyncIterator[Upstream]:
        """Sends the request and gives the answer as soon as its headers are there.

        `path` is the caller's, raw and percent-encoded, and begins with a slash. Raises ProxyFailed with the
        status for the caller if the service gave no answer; whatever status the service gave is an answer.
        Nothing is repeated; `unsent` of the error says whether it may be. Through the API server the body of an
        HTML answer has its links rewritten by that server.
        """
        allowed = limits or self._limits
        verb, tail = rules.safe_method(method), rules.safe_path(path, query)
        options = _request_options(tuple(headers), body, allowed)
        capped = options["data"] if isinstance(options["data"], _Capped) else None
        opened = None if self._is_direct(target) else await self._current()
        session = opened.session if opened else await self._direct_session()
        session.use()
        try:
            sending = _send(session, opened, target, verb, tail, options)
            response = await _sent(sending, capped, allowed)
            try:
                yield await self._answer(response, allowed, opened)
            finally:
                response.close()
        finally:
            await session.leave()

    def _is_direct(self, target: Target) -> bool:
        return self._client.source == IN_CLUSTER and isinstance(target.port, int)

    async def _direct_session(self) -> Session:
        session = self._direct
        if session is None or session.is_old:
            self._direct = Session(None)
            if session is not None:
                await session.retire()
        assert self._direct is not None  # noqa: S101 - for the type checker
        return self._direct

    async def _answer(
        self, response: aiohttp.ClientResponse, limits: ProxyLimits, opened: _Opened | None
    ) -> Upstream:
        if not 200 <= response.status <= 599:
            raise ProxyFailed(
                f"the service answered with the status {response.status}", status=502, reason="bad-status"
            )
        if (response.content_length or 0) > limits.response_bytes:
            raise rules.too_large("response", limits.response_bytes)
        first = b""
        if opened and response.status >= 400 and response.content_type == "application/json":
            try:
                while len(first) <= rules.LARGEST_STATUS and (chunk := await response.content.readany()):
                    first += chunk
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise _failure(error) from error
            refusal = rules.refusal_in(first, response.status)
            if refusal is not None and (response.status != 401 or await self._is_refused(opened)):
                raise refusal
        return Upstream(response, first, limits)

    async def _is_refused(self, opened: _Opened) -> bool:
        try:
            refused = await opened.session.is_refused(opened.token)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            message = "the cluster does not say whether it accepts the portal's credentials"
            raise ProxyFailed(message, status=503, reason="cluster-unavailable") from error
        if refused and self._opened is opened:
            self._refused = opened.connection
        return refused

    async def _current(self) -> _Opened:
        if self._opened and not self._must_look():
            return self._opened
        async with self._opening:
            if self._opened and not self._must_look():
                # Another coroutine did the same while this one waited for the lock.
                return self._opened
            refused, self._refused = self._refused, None
            if refused is not None:
                self._renewed_at = time.monotonic()
            try:
                connection, token = await asyncio.to_thread(_credentials, self._client, refused)
            except ClusterUnavailable as error:
                raise ProxyFailed(error.message, status=503, reason="cluster-unavailable") from error
            # From its end on: after a look that takes longer than an answer holds, all who waited would look again.
            checked_at = time.monotonic()
            previous = self._opened
            if previous and previous.connection is connection:
                self._opened = _Opened(connection, previous.session, token, checked_at)
            else:
                self._opened = _Opened(connection, Session(connection), token, checked_at)
                if previous:
                    await previous.session.retire()
            return self._opened

    def _must_look(self) -> bool:
        now = time.monotonic()
        if self._refused is not None and now - self._renewed_at >= _CREDENTIALS_SECONDS:
            return True
        return self._opened is None or now - self._opened.checked_at >= _CREDENTIALS_SECONDS


async def _sent(
    sending: Coroutine[Any, Any, aiohttp.ClientResponse], capped: _Capped | None, limits: ProxyLimits
) -> aiohttp.ClientResponse:
    try:
        return await sending
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        if capped is not None and capped.exceeded:
            raise rules.too_large("request", limits.request_bytes) from error
        raise _failure(error) from error


async def _send(
    session: Session, opened: _Opened | None, target: Target, method: str, tail: str, options: dict[str, Any]
) -> aiohttp.ClientResponse:
    """Through the API server that is `opened`, or to the service itself."""
    if opened is None:
        return await session.client.request(method, URL(target.direct_prefix + tail, encoded=True), **options)
    loaded = opened.connection.configuration
    if opened.token:
        options["headers"] = (*options["headers"], ("Authorization", opened.token))
    url = URL(opened.connection.host + target.proxy_prefix + tail, encoded=True)
    return await session.client.request(
        method, url, proxy=loaded.proxy, server_hostname=loaded.tls_server_name, **options
    )


def invoke(
    client: ClusterClient,
    target: Target,
    *,
    method: str,
    path: str,
    query: str = "",
    headers: Iterable[tuple[str, str]] = (),
    body: bytes | None = None,
    limits: ProxyLimits | None = None,
) -> Invocation:
    """One request to a service through the API server, with its whole answer, cut at the limit.

    Raises ProxyFailed as `ServiceProxy.forward` does. The duration counts from sending to the last byte read.
    """
    allowed = limits or ProxyLimits(response_bytes=2**20, total_seconds=30.0)
    verb, tail = rules.safe_method(method), rules.safe_path(path, query)
    if body is not None and len(body) > allowed.request_bytes:
        raise rules.too_large("request", allowed.request_bytes)
    sent = dict(rules.request_headers(headers))
    began = time.monotonic()
    try:
        with client.exchange(
            verb,
            target.proxy_prefix + tail,
            headers=sent,
            body=body,
            timeout=(allowed.connect_seconds, allowed.total_seconds),
        ) as response:
            first_byte = time.monotonic() - began
            answer, truncated = _read(response, allowed, began)
            refusal = None if truncated else rules.refusal_in(answer, response.status)
            if refusal is not None and (response.status != 401 or client.is_refused()):
                raise refusal
            return Invocation(
                status=response.status,
                headers=rules.response_headers(response.headers.items()),
                body=answer,
                truncated=truncated,
                duration_seconds=time.monotonic() - began,
                first_byte_seconds=first_byte,
            )
    except ClusterUnavailable as error:
        if isinstance(error.__cause__, urllib3.exceptions.ReadTimeoutError):
            raise _timed_out() from error
        raise ProxyFailed(error.message, status=503, reason="cluster-unavailable") from error


def _read(response: urllib3.BaseHTTPResponse, limits: ProxyLimits, began: float) -> tuple[bytes, bool]:
    parts: list[bytes] = []
    size = 0
    try:
        for chunk in response.stream(_CHUNK):
            parts.append(chunk)
            size += len(chunk)
            if size > limits.response_bytes:
                return b"".join(parts)[: limits.response_bytes], True
            if time.monotonic() - began > limits.total_seconds:
                raise _timed_out()
    except urllib3.exceptions.TimeoutError as error:
        raise _timed_out() from error
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise _broken(error) from error
    return b"".join(parts), False


def _request_options(headers: Headers, body: Body, limits: ProxyLimits) -> dict[str, Any]:
    length = len(body) if isinstance(body, bytes) else rules.declared_length(headers)
    if length is not None and length > limits.request_bytes:
        raise rules.too_large("request", limits.request_bytes)
    sent = tuple((name, _as_utf8(value)) for name, value in rules.request_headers(headers))
    data: Any = body
    if body is not None and not isinstance(body, bytes):
        data = _Capped(body, limits.request_bytes)
        # Many small servers cannot read a chunked body, so a known length is kept.
        if length is not None:
            sent = (*sent, ("Content-Length", str(length)))
    return {
        "headers": sent,
        "data": data,
        "allow_redirects": False,
        "timeout": aiohttp.ClientTimeout(total=limits.total_seconds, sock_connect=limits.connect_seconds),
    }


def _as_utf8(value: str) -> str:
    """A header's value, one character a byte, so that aiohttp, which encodes it as UTF-8, sends the same bytes."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


def _credentials(client: ClusterClient, refused: Connection | None) -> tuple[Connection, str | None]:
    connection = client.connection(refused=refused)
    return connection, connection.authorization()


def _failure(error: Exception) -> ProxyFailed:
    if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError):
        return _timed_out()
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return ProxyFailed("the service could not be reached", status=503, reason="unreachable", unsent=True)
    return _broken(error)


def _timed_out() -> ProxyFailed:
    return ProxyFailed("the service did not answer in time", status=504, reason="timeout")


def _broken(error: Exception) -> ProxyFailed:
    return ProxyFailed(
        f"the service's answer broke off ({type(error).__name__})", status=502, reason="broken"
    )
