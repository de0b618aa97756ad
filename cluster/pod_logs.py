"""One container's log as bytes, as they come, in a memory that does not grow with the length of a line.

`ClusterClient.read_log` and `follow_log` are for small answers; this is for collecting: pieces of at most 64
KiB, and another thread can end a read that waits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlencode

import urllib3

from cluster import kinds
from cluster.client import ClusterClient
from cluster.errors import ClusterError, ClusterUnavailable, error_of

PIECE_BYTES: Final = 64 * 1024
_CONNECT_SECONDS: Final = 5.0


class PodLog:
    """The log of one container; one read at a time."""

    def __init__(self, client: ClusterClient, *, namespace: str, pod: str, container: str) -> None:
        self._client = client
        self._path = kinds.POD.path(namespace=namespace, name=pod, sub="log")
        self._container = container
        self._response: urllib3.BaseHTTPResponse | None = None
        self._closed = False

    def pieces(
        self,
        *,
        since: datetime | None,
        follow: bool,
        previous: bool = False,
        silence_seconds: float = 30.0,
    ) -> Iterator[bytes]:
        """The log from the second of `since` on, each line behind its RFC 3339 time.

        Ends where the server ends the body, or after `close`. A body may end, or break, in the middle of a
        line. Raises ObjectNotFound, ClusterRejected while the container has not started, and
        ClusterUnavailable when the connection breaks or is silent for `silence_seconds`, as a quiet container
        and a dead connection look alike.
        """
        url = f"{self._path}?{urlencode(self._query(since, follow=follow, previous=previous))}"
        for renewed in (False, True):
            if self._closed:
                return
            with self._client.exchange(
                "GET", url, headers={}, body=None, timeout=(_CONNECT_SECONDS, silence_seconds)
            ) as response:
                if response.status == 401 and not renewed:
                    self._client.renew()
                    continue
                if response.status >= 400:
                    raise _refusal(response)
                yield from self._read(response)
                return

    def close(self) -> None:
        """End the read under way, from any thread, and every later one."""
        self._closed = True
        response = self._response
        if response is not None:
            # Already ended: that is what was wanted.
            with suppress(ValueError, RuntimeError, OSError):
                response.shutdown()

    def _read(self, response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        self._response = response
        try:
            if not self._closed:
                yield from response.stream(PIECE_BYTES)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            if not self._closed:
                raise ClusterUnavailable(f"the log's stream broke: {type(error).__name__}") from error
        finally:
            self._response = None

    def _query(self, since: datetime | None, *, follow: bool, previous: bool) -> dict[str, str]:
        query = {"container": self._container, "timestamps": "true"}
        if since is not None:
            query["sinceTime"] = since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if follow:
            query["follow"] = "true"
        if previous:
            query["previous"] = "true"
        return query


def _refusal(response: urllib3.BaseHTTPResponse) -> ClusterError:
    try:
        document = json.loads(response.read(PIECE_BYTES))
    except (ValueError, urllib3.exceptions.HTTPError, OSError):
        document = {}
    return error_of(
        status=response.status,
        document=document if isinstance(document, dict) else {},
        retry_after=None,
        changing=False,
    )
