"""A log reader's cursor: one position per container's log, as an opaque string (pure)."""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Final

from foundation.http.query import refuse

_VERSION: Final = 1
_HEAD: Final = struct.Struct(">BIQ")
_ITEM: Final = struct.Struct(">6sII")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

Position = tuple[int, int]
"""Sequence of a chunk, and the byte in it, from which to read on."""


def stream_key(pod_uid: str, container: str) -> bytes:
    """The short name of a container's log in cursors."""
    return blake2b(f"{pod_uid}/{container}".encode(), digest_size=6).digest()


@dataclass(slots=True, kw_only=True)
class LogCursor:
    """A position in the logs of one attempt. `since` also leaves out older lines of pods that start writing later."""

    attempt: int
    since: datetime | None = None
    positions: dict[bytes, Position] = field(default_factory=dict)

    def encode(self) -> str:
        """The cursor as a URL-safe string, about 19 characters per container."""
        since = (self.since - _EPOCH) // _MICROSECOND if self.since else 0
        raw = _HEAD.pack(_VERSION, self.attempt, max(0, since))
        raw += b"".join(_ITEM.pack(key, *place) for key, place in sorted(self.positions.items()))
        return urlsafe_b64encode(raw).rstrip(b"=").decode()

    @classmethod
    def decode(cls, text: str) -> LogCursor:
        """Decode a cursor. Raises Malformed for any other text."""
        try:
            raw = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
            version, attempt, since = _HEAD.unpack_from(raw)
            items = list(_ITEM.iter_unpack(raw[_HEAD.size :]))
            at = _EPOCH + since * _MICROSECOND if since else None
        except (ValueError, struct.error, OverflowError):
            raise refuse("cursor", "is not a cursor of this log.") from None
        if version != _VERSION:
            raise refuse("cursor", "is of another version; read the log anew.")
        return cls(attempt=attempt, since=at, positions={key: (seq, byte) for key, seq, byte in items})
