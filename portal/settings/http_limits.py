"""What web and live take of one connection, so that slow clients and large requests cost nobody else anything."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Bytes and seconds of one connection, and how many there may be in one process.

    `header_seconds` is the time from the first byte of a request, or from the beginning of its connection, to the end of
    its headers; `body_seconds` from there to the end of its body (web alone: the gateway streams bodies, and an
    endpoint's own limit of time holds there). `reader_seconds`: within that time a client takes 48 KiB of what waits for
    it, or is cut off. `idle_seconds`: how long a connection may wait for its next request.
    """

    connections: int = 1000
    header_bytes: int = 32 * 1024
    header_seconds: int = 10
    body_bytes: int = 4 * 2**20
    body_seconds: int = 30
    reader_seconds: int = 60
    idle_seconds: int = 75


RANGES = {
    "connections": (16, 100_000),
    "header_bytes": (4 * 1024, 2**20),
    "header_seconds": (1, 600),
    "body_bytes": (2 * 2**20, 2**30),
    "body_seconds": (1, 3600),
    "reader_seconds": (1, 3600),
    "idle_seconds": (1, 3600),
}
"""By name of a limit: the least and the most that may be set. Views take bodies up to 2 MiB."""
