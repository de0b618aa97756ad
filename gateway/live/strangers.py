"""How fast the database is asked about tokens that nobody knows: one address with many has one place, and waits its turn.

It is not refused: whoever shares the address with a guesser is answered, only later.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from foundation.errors import NotSignedIn

A_SECOND: Final = 5.0
AT_ONCE: Final = 100.0
ADDRESSES_MAX: Final = 10_000
"""Above it those are forgotten that have come with nothing wrong for a while, and if that is none, all are."""


@dataclass(slots=True)
class _Address:
    left: float
    at: float
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Strangers:
    """By address: 100 tokens at once that open nothing, and 5 a second; who has come with more is asked about one by one."""

    def __init__(self) -> None:
        self._addresses: dict[str, _Address] = {}

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        """Around the look at a token that nobody knows yet; a NotSignedIn is counted."""
        known = self._addresses.get(address)
        try:
            if known is None or self._left(known) >= 1.0:
                yield
            else:
                async with known.turn:
                    yield
        except NotSignedIn:
            self._count(address)
            raise

    def _count(self, address: str) -> None:
        now = asyncio.get_running_loop().time()
        if address not in self._addresses and len(self._addresses) >= ADDRESSES_MAX:
            self._addresses = {
                name: each for name, each in self._addresses.items() if self._left(each) < AT_ONCE
            }
            if len(self._addresses) >= ADDRESSES_MAX:
                self._addresses.clear()
        known = self._addresses.setdefault(address, _Address(AT_ONCE, now))
        known.left, known.at = max(0.0, self._left(known) - 1.0), now

    @staticmethod
    def _left(known: _Address) -> float:
        return min(AT_ONCE, known.left + (asyncio.get_running_loop().time() - known.at) * A_SECOND)
