"""One watch, from a known resource version to where it ends. Listing again and backing off are the
caller's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cluster.client import ClusterClient
from cluster.errors import ClusterExpired, ClusterUnavailable
from cluster.kinds import ResourceKind
from cluster.transport import DEFAULT_TIMEOUT

# No object can be larger than etcd stores (1.5 MiB); a longer line is no event.
_LONGEST_LINE: Final = 16 * 2**20


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


def watch_once(
    client: ClusterClient,
    kind: ResourceKind,
    *,
    resource_version: str,
    namespace: str | None = None,
    label_selector: str = "",
    field_selector: str = "",
    timeout_seconds: int = 240,
    read_timeout_seconds: float = 90.0,
) -> Iterator[WatchEvent]:
    """Events after `resource_version`, bookmarks included, until the server ends the watch at
    `timeout_seconds`.

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
        with client.stream(path, query=query, timeout=(DEFAULT_TIMEOUT[0], read_timeout_seconds)) as chunks:
            for line in _lines(chunks):
                yield _event(line, kind)
    except WatchExpired:
        raise
    except ClusterExpired as error:
        raise WatchExpired(error.message) from error


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
