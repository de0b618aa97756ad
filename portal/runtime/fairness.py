"""Who has a thread next, who may send a body, and how fast a client that is refused is told so: nobody's requests make all
others wait.

All are used by one event loop alone, or behind a lock of who uses them.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from foundation.http.clients import HttpClient

REFUSALS_A_SECOND: Final = 50
"""Of one client; each costs the event loop, and the lock of the interpreter, a part of a millisecond."""
REFUSAL_SECONDS_MAX: Final = 1.0
"""No refused request waits longer for its answer."""
_CLIENTS_MAX: Final = 10_000


class ThreadTurns:
    """The threads as places: a client has at most half of them, and of those that wait who has fewest is next."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._most = max(1, places // 2)
        self._held: Counter[HttpClient] = Counter()
        # In the order in which they began to wait, or had their last turn.
        self._waiting: dict[HttpClient, deque[asyncio.Future[None]]] = {}

    async def begin(self, client: HttpClient) -> None:
        """Returns once the client has one place more; `end` gives it back."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        self._give()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._leave(client, turn)
            else:
                self.end(client)
            raise

    def end(self, client: HttpClient) -> None:
        self._free += 1
        self._held[client] -= 1
        if not self._held[client]:
            del self._held[client]
        self._give()

    def _give(self) -> None:
        while self._free:
            entitled = [client for client in self._waiting if self._held[client] < self._most]
            if not entitled:
                return
            client = min(entitled, key=self._held.__getitem__)
            turn = self._waiting[client][0]
            self._leave(client, turn)
            if client in self._waiting:
                self._waiting[client] = self._waiting.pop(client)
            if not turn.done():
                self._free -= 1
                self._held[client] += 1
                turn.set_result(None)

    def _leave(self, client: HttpClient, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(client)
        if turns is None or turn not in turns:
            return
        turns.remove(turn)
        if not turns:
            del self._waiting[client]


class ByteShares:
    """So many bytes for all together, of which a client has at most `of_client`, and all whom nobody knows half."""

    def __init__(self, most: int, *, of_client: int) -> None:
        self._most = most
        self._of_client = of_client
        self._held: Counter[HttpClient] = Counter()
        self._of_unknown = 0
        self.held = 0

    def has_room(self, client: HttpClient, count: int) -> bool:
        """Whether the client may have so many more."""
        if self.held + count > self._most or self._held[client] + count > self._of_client:
            return False
        return client.is_known or self._of_unknown + count <= self._most // 2

    def count(self, client: HttpClient, count: int) -> None:
        """The client has so many more, or less where that is negative."""
        self.held += count
        self._of_unknown += 0 if client.is_known else count
        self._held[client] += count
        if not self._held[client]:
            del self._held[client]

    @contextmanager
    def taken(self, client: HttpClient) -> Iterator[Callable[[int], bool]]:
        """A function that takes so many bytes more, and says whether there was room; all are given back as the block ends."""
        mine = 0

        def take(count: int) -> bool:
            nonlocal mine
            if not self.has_room(client, count):
                return False
            mine += count
            self.count(client, count)
            return True

        try:
            yield take
        finally:
            self.count(client, -mine)


class RefusalPace:
    """Spaces what is said to one client, so that one that never waits costs a process only so much."""

    def __init__(self) -> None:
        self._next: dict[HttpClient, float] = {}

    def wait_of(self, client: HttpClient, now: float) -> float:
        """Seconds until its next refusal is sent; `now` is the loop's time."""
        if client not in self._next and len(self._next) >= _CLIENTS_MAX:
            self._next = {each: at for each, at in self._next.items() if at > now}
            if len(self._next) >= _CLIENTS_MAX:
                self._next.clear()
        at = min(max(now, self._next.get(client, now)), now + REFUSAL_SECONDS_MAX)
        self._next[client] = at + 1 / REFUSALS_A_SECOND
        return at - now
