"""One watch, from a known resource version to where it ends. Listing again and backing off are the
caller's.

A thread reads while the caller writes, so that the next batch holds all that came meanwhile: a caller whose writes cost
less together than one by one keeps up with any server.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cluster.client import ClusterClient
from cluster.errors import ClusterExpired, ClusterUnavailable
from cluster.kinds import ResourceKind
from cluster.transport import DEFAULT_TIMEOUT, AnswerBody

# No object can be larger than etcd stores (1.5 MiB); a longer line is no event.
_LONGEST_LINE: Final = 16 * 2**20
_MOST_AT_ONCE: Final = 500


class WatchExpired(ClusterExpired):
    """The resource version is no longer kept: list again and watch from there."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """`type` is ADDED, MODIFIED, DELETED or BOOKMARK; a bookmark's object carries only the resource
    version.
    """

    type: str
    object: dict[str, Any]
    resource_version: str


def watch_batches(
    client: ClusterClient,
    kind: ResourceKind,
    *,
    resource_version: str,
    namespace: str | None = None,
    label_selector: str = "",
    field_selector: str = "",
    timeout_seconds: int = 240,
    read_timeout_seconds: float = 90.0,
) -> Iterator[list[WatchEvent]]:
    """Events after `resource_version` in their order, bookmarks included, until the server ends the watch at
    `timeout_seconds`: each list, of 1 to 500, is what has come since the one before was taken.

    After a normal end, watch on from the last event's version at once; if no event came at all, wait a moment
    first. Raises WatchExpired (list again), and ClusterUnavailable (back off, then watch on from the last
    version) when the connection breaks, is silent for `read_timeout_seconds` (servers send a bookmark about
    once a minute), or ends in the middle of an event.
    """
    query: dict[str, str | int | None] = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": resource_version,
        "timeoutSeconds": timeout_seconds,
        "labelSelector": label_selector or None,
        "fieldSelector": field_selector or None,
    }
    path = kind.path(namespace=namespace)
    try:
        with client.stream(path, query=query, timeout=(DEFAULT_TIMEOUT[0], read_timeout_seconds)) as body:
            yield from _read_ahead(body, kind)
    except WatchExpired:
        raise
    except ClusterExpired as error:
        raise WatchExpired(error.message) from error


class _Told:
    """What was read and not yet taken; whoever reads waits while that is as much as is given at once."""

    def __init__(self) -> None:
        self._events: deque[WatchEvent] = deque()
        self._news = threading.Condition()
        self._over = False
        self._failure: Exception | None = None

    def put(self, event: WatchEvent) -> bool:
        """Whether anybody still wants it."""
        with self._news:
            self._news.wait_for(lambda: self._over or len(self._events) < _MOST_AT_ONCE)
            if not self._over:
                self._events.append(event)
                self._news.notify_all()
            return not self._over

    def end(self, failure: Exception | None = None) -> None:
        with self._news:
            self._failure = self._failure or failure
            self._over = True
            self._news.notify_all()

    def batches(self) -> Iterator[list[WatchEvent]]:
        """What came before the end is given before the failure is raised."""
        while True:
            with self._news:
                self._news.wait_for(lambda: self._over or self._events)
                batch = list(self._events)
                self._events.clear()
                self._news.notify_all()
            if batch:
                yield batch
            elif self._failure:
                raise self._failure
            else:
                return


def _read_ahead(body: AnswerBody, kind: ResourceKind) -> Iterator[list[WatchEvent]]:
    told = _Told()
    reader = threading.Thread(target=_read, args=(body, kind, told), name=f"read-{kind.plural}", daemon=True)
    reader.start()
    try:
        yield from told.batches()
    finally:
        told.end()
        body.end()
        reader.join()


def _read(body: AnswerBody, kind: ResourceKind, told: _Told) -> None:
    try:
        for line in _lines(body):
            if not told.put(_event(line, kind)):
                return
    except Exception as error:  # noqa: BLE001 (raised where the events are taken)
        told.end(error)
    finally:
        told.end()


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            whole = b"".join([*parts, line])
            parts, size = [], 0
            if whole.strip():
                yield whole
        parts.append(rest)
        size += len(rest)
        if size > _LONGEST_LINE:
            raise ClusterUnavailable("the watch sent a line that is too long to be an event")
    if b"".join(parts).strip():
        raise ClusterUnavailable("the watch was cut in the middle of an event")


def _event(line: bytes, kind: ResourceKind) -> WatchEvent:
    try:
        decoded = json.loads(line)
        name, item = str(decoded["type"]), decoded["object"]
    except (ValueError, KeyError, TypeError) as error:
        raise ClusterUnavailable("the watch sent a line that is not an event") from error
    if not isinstance(item, dict):
        raise ClusterUnavailable("the watch sent an event without an object")
    if name == "ERROR":
        raise _failure(item)
    item.setdefault("apiVersion", kind.api_version)
    item.setdefault("kind", kind.kind)
    metadata = item.get("metadata") or {}
    return WatchEvent(type=name, object=item, resource_version=str(metadata.get("resourceVersion", "")))


def _failure(status: Mapping[str, Any]) -> ClusterExpired | ClusterUnavailable:
    message = str(status.get("message") or "the watch failed")
    if status.get("code") == 410 or status.get("reason") in {"Expired", "Gone"}:
        return WatchExpired(message)
    seconds = (status.get("details") or {}).get("retryAfterSeconds")
    return ClusterUnavailable(message, retry_after=float(seconds) if seconds else None)
