"""The choke point: every synchronous request to the cluster passes `Transport._request`, and nothing else
sends one.

Nothing here logs a body, a header or a token.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final
from urllib.parse import urlencode

import urllib3
from typing_extensions import override

from cluster.breaker import Breaker
from cluster.connection import Connection, open_connection
from cluster.errors import ClusterError, ClusterUnavailable, error_of
from cluster.labels import MANAGER

Query = Mapping[str, str | int | None]
Timeout = tuple[float, float]

# Seconds to connect, and between two bytes. Below the time for which a worker may hold a row.
DEFAULT_TIMEOUT: Final[Timeout] = (3.0, 6.0)
WHOLE_ANSWER_SECONDS: Final = 30.0
"""For a whole answer, even if its bytes come steadily."""
JSON: Final = "application/json"
_STREAM_CHUNK: Final = 64 * 1024
_READING: Final = frozenset({"GET", "HEAD"})


class Transport:
    """A connection to one cluster, opened late, shared by threads, renewed when it must be."""

    def __init__(self, source: str, *, timeout: Timeout = DEFAULT_TIMEOUT) -> None:
        self.source = source
        self._timeout = timeout
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        self._answered_at = -math.inf
        self._breaker = Breaker()

    # -- connection ---------------------------------------------------------------------------------------------

    def connection(self, *, refused: Connection | None = None) -> Connection:
        """The connection in use, opened anew if its kubeconfig changed or if it is the one that was
        `refused`.
        """
        current = self._connection
        if current is not None and current is not refused and current.is_current():
            return current
        with self._lock:
            current = self._connection
            if current is None or current is refused or not current.is_current():
                self._connection = open_connection(self.source)
                if current is not None:
                    current.pool.clear()
            assert self._connection is not None  # noqa: S101 - for the type checker
            return self._connection

    def answered_within(self, seconds: float) -> bool:
        """Whether the cluster has answered this process anything at all in the last `seconds`."""
        return time.monotonic() - self._answered_at <= seconds

    def close(self) -> None:
        """Lets go of idle connections; the next call opens anew."""
        with self._lock:
            if self._connection is not None:
                self._connection.pool.clear()
            self._connection = None

    # -- the choke point ----------------------------------------------------------------------------------------

    def _request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        content_type: str = JSON,
        timeout: Timeout | None = None,
        stream: bool = False,
        headers: Mapping[str, str] | None = None,
        check: bool = True,
        own: bool = True,
    ) -> urllib3.BaseHTTPResponse:
        """Sends one request: nothing else in this class touches the network.

        `body` is bytes, or what becomes JSON. With `stream` the body is left to be read, and the caller
        releases the connection. `timeout` is (to connect, between two reads) in seconds. With `check=False`
        every status is an answer. `own` says that the API server answers itself: if it passes the request on, to
        a service or a node, the silence is theirs.
        """
        parameters = [(key, str(value)) for key, value in (query or {}).items() if value is not None]
        url = f"{path}?{urlencode(parameters)}" if parameters else path
        sent = {"Accept": JSON, "User-Agent": MANAGER, **(headers or {})}
        payload = body if isinstance(body, bytes | None) else json.dumps(body, separators=(",", ":")).encode()
        if payload is not None:
            sent["Content-Type"] = content_type
        limits = timeout or self._timeout

        def send(over: Connection) -> urllib3.BaseHTTPResponse:
            with self._heard(over, changing=method not in _READING, own=own):
                return self._ask(over, method, url, sent, payload, limits, stream=stream)

        connection = self.connection()
        if own:
            self._breaker.enter(whom=f"the cluster at {connection.host}")
        response = send(connection)
        if response.status < 500 and response.status != 429:
            self._answered_at = time.monotonic()
        if response.status == 401 and check:
            response.drain_conn()
            connection = self.connection(refused=connection)
            response = send(connection)
        if response.status >= 400 and check:
            raise self._refusal(response, method)
        return response

    @contextmanager
    def _heard(self, connection: Connection, *, changing: bool, own: bool) -> Iterator[None]:
        """Around an exchange: the breaker learns whether it came to an end. Raises ClusterUnavailable for what the
        network says.
        """
        late = False
        try:
            yield
        except (urllib3.exceptions.HTTPError, OSError) as error:
            late = _is_late(error)
            raise _unavailable(connection, error, changing=changing) from error
        finally:
            if own:
                (self._breaker.timed_out if late else self._breaker.answered)()

    def _ask(
        self,
        connection: Connection,
        method: str,
        url: str,
        headers: dict[str, str],
        payload: bytes | None,
        timeout: Timeout,
        *,
        stream: bool,
    ) -> urllib3.BaseHTTPResponse:
        token = connection.authorization()
        if token:
            headers = {**headers, "Authorization": token}
        # A kept connection may have been closed by the server at this moment: one repeat for reads only.
        for last in (method not in _READING, True):
            try:
                response = connection.pool.request(
                    method,
                    connection.host + url,
                    body=payload,
                    headers=headers,
                    timeout=urllib3.Timeout(connect=timeout[0], read=timeout[1]),
                    preload_content=False,
                    decode_content=not stream,
                )
                return response if stream else _whole(response)
            except urllib3.exceptions.ProtocolError:
                if last:
                    raise
        raise AssertionError("unreachable")

    @contextmanager
    def exchange(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, timeout: Timeout
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """Any request with any answer, whose body is left to be read; for the service proxy. `url` is
        quoted.
        """
        others = {name.title(): value for name, value in headers.items()}
        content_type = others.pop("Content-Type", "")
        response = self._request(
            method,
            url,
            headers=others,
            body=body,
            content_type=content_type or "application/octet-stream",
            timeout=timeout,
            stream=True,
            check=False,
            own=False,
        )
        try:
            yield response
        finally:
            response.close()

    def is_refused(self) -> bool:
        """Whether the server no longer accepts this client's credentials; if so, they are loaded again.

        For a 401 through its proxy, which may be the answer of a service: a request of `/version` asks the server itself.
        """
        refused = self._request("GET", "/version", check=False).status == 401
        if refused:
            self.renew()
        return refused

    def renew(self) -> None:
        """Opens the connection anew: for a caller whose credentials the server did not
        accept.
        """
        self.connection(refused=self._connection)

    def _refusal(self, response: urllib3.BaseHTTPResponse, method: str) -> ClusterError:
        try:
            raw = response.data
        except urllib3.exceptions.HTTPError:
            raw = b""
        return error_of(
            status=response.status,
            document=_status_document(raw),
            retry_after=_seconds(response.headers.get("Retry-After")),
            changing=method not in _READING,
        )

    def _json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        response = self._request(method, path, **options)
        try:
            document = json.loads(response.data)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise ClusterUnavailable(
                f"the cluster's answer to {method} {path} is not a JSON object",
                outcome_unknown=method != "GET",
            )
        return document

    @contextmanager
    def stream(
        self, path: str, *, query: Query | None = None, timeout: Timeout | None = None, own: bool = True
    ) -> Iterator[AnswerBody]:
        """A GET whose body is read as it comes; leaving the block closes the connection.

        The iterator ends where the server ends the body, and raises ClusterUnavailable if the connection
        breaks or is silent for longer than the read timeout.
        """
        response = self._request("GET", path, query=query, timeout=timeout, stream=True, own=own)
        try:
            yield AnswerBody(response)
        finally:
            response.close()


class AnswerBody(Iterator[bytes]):
    """The pieces of an answer's body, as they come."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response
        self._pieces = response.stream(_STREAM_CHUNK)

    @override
    def __next__(self) -> bytes:
        try:
            return next(self._pieces)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ClusterUnavailable(f"the stream from the cluster broke: {type(error).__name__}") from error

    def end(self) -> None:
        """Wake the thread that waits for the next piece: it is told that the body is over, or that it broke."""
        # The socket may be gone already, with whoever waited for it.
        with suppress(OSError, RuntimeError, ValueError):
            self._response.shutdown()


def _whole(response: urllib3.BaseHTTPResponse) -> urllib3.BaseHTTPResponse:
    """The same with its body read."""
    try:
        body = b"".join(_in_time(response.stream(_STREAM_CHUNK, decode_content=True)))
    except BaseException:
        response.close()
        raise
    response.release_conn()
    return urllib3.HTTPResponse(
        body=body, headers=response.headers, status=response.status, reason=response.reason
    )


def _in_time(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The read timeout limits the time between two bytes, this limit the time for all of them."""
    ends_at = time.monotonic() + WHOLE_ANSWER_SECONDS
    for chunk in chunks:
        yield chunk
        if time.monotonic() > ends_at:
            raise urllib3.exceptions.TimeoutError("the answer trickles")


def _is_late(error: Exception) -> bool:
    # urllib3 counts a refused connection among the timeouts.
    refused = isinstance(error, urllib3.exceptions.NewConnectionError)
    return isinstance(error, urllib3.exceptions.TimeoutError) and not refused


def _unavailable(connection: Connection, error: Exception, *, changing: bool) -> ClusterUnavailable:
    refused = isinstance(error, urllib3.exceptions.NewConnectionError)
    unsent = refused or isinstance(error, urllib3.exceptions.ConnectTimeoutError)
    fault = "did not answer in time" if _is_late(error) else "cannot be reached"
    if isinstance(error, urllib3.exceptions.SSLError):
        fault = "is not trusted, see certificate-authority in the kubeconfig"
    return ClusterUnavailable(
        f"the cluster at {connection.host} {fault} ({type(error).__name__})",
        outcome_unknown=changing and not unsent,
    )


def _status_document(raw: bytes) -> dict[str, Any]:
    try:
        document = json.loads(raw)
    except ValueError:
        text = raw[:300].decode(errors="replace").strip()
        return {"message": text} if text else {}
    return document if isinstance(document, dict) else {}


def _seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() else None
