"""Requests to endpoints, counted in memory and written every ten seconds."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

from controller.routes import Route
from foundation.database import is_missed
from gateway import latency
from gateway.services import Bucket, Tally

log = logging.getLogger(__name__)

FLUSH_SECONDS = 10.0
# Each bucket is a revision of an endpoint, a minute and a class; beyond this many the database has been away for long.
BUCKETS_MAX = 20_000

Write = Callable[[Mapping[Bucket, Tally]], Awaitable[None]]


class Counts:
    """What has been counted since the last write. What cannot be written is kept and tried again."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._tallies: defaultdict[Bucket, Tally] = defaultdict(Tally)

    def add(self, route: Route, *, status: int, seconds: float, asked: bool, now: datetime) -> None:
        """Counts one request that has ended; its duration enters the latency only where the endpoint was `asked`."""
        bucket = Bucket.of(route.public_id, route.revision, status=status, now=now)
        if bucket not in self._tallies and len(self._tallies) >= BUCKETS_MAX:
            return
        self._tallies[bucket].add(seconds, asked=asked)

    async def keep_writing(self, *, every_seconds: float = FLUSH_SECONDS) -> None:
        """Writes again and again, until cancelled; the caller writes the rest with `flush`."""
        while True:
            await asyncio.sleep(every_seconds)
            await self.flush()

    async def flush(self) -> None:
        """Writes what there is. Never raises: counting must not stop requests."""
        taken, self._tallies = self._tallies, defaultdict(Tally)
        if not taken:
            return
        try:
            await self._write(taken)
        except Exception as error:
            if not is_missed(error):
                log.warning("request_counts.unwritten", exc_info=True, extra={"buckets": len(taken)})
            for bucket, tally in taken.items():
                if bucket not in self._tallies and len(self._tallies) >= BUCKETS_MAX:
                    continue
                kept = self._tallies[bucket]
                kept.count += tally.count
                kept.milliseconds += tally.milliseconds
                kept.latency = latency.merged((kept.latency, tally.latency))
