"""Public identifiers: UUIDs that sort by the time they were made (RFC 9562, version 7)."""

from __future__ import annotations

import secrets
from uuid import UUID

from foundation import clock

RANDOM_END_START = 20
SHORT_ID_LENGTH = 8


def new_public_id() -> UUID:
    """A new version 7 UUID: 48 bits of milliseconds, then 74 random bits."""
    milliseconds = int(clock.now().timestamp() * 1000) & ((1 << 48) - 1)
    value = milliseconds << 80 | 0x7 << 76 | secrets.randbits(12) << 64 | 0b10 << 62 | secrets.randbits(62)
    return UUID(int=value)


def short_id(public_id: UUID) -> str:
    """Eight hex characters of the random end, so that ids made in the same second still differ."""
    return public_id.hex[RANDOM_END_START : RANDOM_END_START + SHORT_ID_LENGTH]
