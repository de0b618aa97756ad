"""Requests for an endpoint that sleeps at zero replicas: they call it, and are held until it is awake."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from controller.routes import Route
from foundation.database import is_missed
from gateway.live.directory import Directory, Key
from gateway.live.metrics import Metrics

log = logging.getLogger(__name__)

CALL_SECONDS: Final = 3.0
LOOK_SECONDS: Final = 1.0

Call = Callable[[UUID], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldLimits:
    """How many requests are held in this process, for one endpoint, for those of a team and in all, and for how long at most."""

    of_endpoint: int = 100
    of_team: int = 250
    in_all: int = 500
    seconds: float = 300.0


class Waking:
    """All requests that are held."""

    def __init__(self, directory: Directory, call: Call, metrics: Metrics, limits: HoldLimits) -> None:
        self._directory = directory
        self._call = call
        self._metrics = metrics
        self._limits = limits
        self._held: Counter[UUID] = Counter()
        self._held_of_team: Counter[str] = Counter()
        self._called_at: dict[UUID, float] = {}
        self._calls: set[asyncio.Task[None]] = set()

    @contextmanager
    def place(self, endpoint: UUID, *, team: str) -> Iterator[bool]:
        """Whether one more request may be held; inside the block it then is."""
        limits = self._limits
        if (
            self._held[endpoint] >= limits.of_endpoint
            or self._held_of_team[team] >= limits.of_team
            or self._held.total() >= limits.in_all
        ):
            yield False
            return
        self._held[endpoint] += 1
        self._held_of_team[team] += 1
        self._metrics.hold(endpoint, 1)
        try:
            yield True
        finally:
            self._metrics.hold(endpoint, -1)
            self._held[endpoint] -= 1
            self._held_of_team[team] -= 1
            if not self._held[endpoint]:
                del self._held[endpoint]
            if not self._held_of_team[team]:
                del self._held_of_team[team]

    async def wait(self, key: Key, route: Route) -> Route | None:
        """The endpoint's route when it sleeps no longer, or as it was at the last look when its time is over.

        The time is the endpoint's own limit for a request, and 300 seconds at most; the answer gets its own.
        """
        current: Route | None = route
        with suppress(TimeoutError):
            async with asyncio.timeout(min(self._limits.seconds, route.timeout_seconds)):
                while current is not None and current.is_waking:
                    self._call_once(route.public_id)
                    await self._directory.news(LOOK_SECONDS)
                    current = await self._directory.get(key)
        return current

    async def stop(self) -> None:
        for task in tuple(self._calls):
            task.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)

    def _call_once(self, endpoint: UUID) -> None:
        """One of all that wait for the endpoint calls it, once in three seconds."""
        now = asyncio.get_running_loop().time()
        if now - self._called_at.get(endpoint, float("-inf")) < CALL_SECONDS:
            return
        self._called_at = {called: at for called, at in self._called_at.items() if now - at < CALL_SECONDS}
        self._called_at[endpoint] = now
        task = asyncio.create_task(self._called(endpoint))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _called(self, endpoint: UUID) -> None:
        try:
            await self._call(endpoint)
        except Exception as error:
            # The next call comes in three seconds, and a request that waits is answered when its time is over.
            if not is_missed(error):
                log.warning("waking.uncalled", exc_info=True, extra={"workload_id": str(endpoint)})
