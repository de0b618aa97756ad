"""The running parts of one live process, and how they start and stop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping
from typing import Any

from cluster.client import ClusterClient
from cluster.proxy import ServiceProxy
from controller.logs import NOTIFY_CHANNEL as LOGS_CHANNEL
from foundation import clock
from gateway import queries, services
from gateway.live.audience import Audience
from gateway.live.counts import Counts
from gateway.live.hub import Hub, LogBell
from gateway.live.listener import Listener, connection_parameters
from gateway.live.passthrough import Gateway, GatewayLimits
from gateway.live.rows import Rows
from gateway.queries import Principal
from gateway.services import Bucket, Tally
from workloads.services import NOTIFY_CHANNEL as EVENTS_CHANNEL

LOG_THREADS = 2


class Live:
    """Everything that is shared by the requests of one process; made on its event loop."""

    def __init__(self, client: ClusterClient, limits: GatewayLimits) -> None:
        self.rows = Rows()
        # Reading a log may take long; checks of tokens must not wait for it.
        self.log_rows = Rows(threads=LOG_THREADS)
        self.hub = Hub()
        self.log_bell = LogBell()
        self.audience = Audience(self._visible_slugs)
        self.counts = Counts(self._write_counts)
        self.proxy = ServiceProxy(client)
        self.gateway = Gateway(self.rows, self.proxy, self.counts, limits)
        handlers = {EVENTS_CHANNEL: self._on_event, LOGS_CHANNEL: self.log_bell.ring}
        self.listener = Listener(handlers, on_gap=self._on_gap)
        self.stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        jobs = (
            self.listener.run(self._connection_parameters),
            self.audience.keep_checking(),
            self.counts.keep_writing(),
        )
        self._tasks = [asyncio.create_task(job) for job in jobs]

    async def stop(self) -> None:
        """Ends the streams, writes what was counted, closes every connection."""
        self.end_streams()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.counts.flush()
        await self.proxy.aclose()
        await asyncio.to_thread(self.rows.close)
        await asyncio.to_thread(self.log_rows.close)

    def end_streams(self) -> None:
        """Lets all event and log streams end now; their callers come back to another process, or later."""
        self.stopping.set()
        self.hub.end_all()
        self.log_bell.ring_all()

    def _on_event(self, payload: str) -> None:
        self.gateway.forget_routes_of(_team_of(payload))
        self.hub.publish(payload)

    def _on_gap(self) -> None:
        self.gateway.forget_routes_of(None)
        self.hub.resync()
        self.log_bell.ring_all()

    async def _connection_parameters(self) -> dict[str, Any]:
        return await self.rows.ask(connection_parameters)

    async def _visible_slugs(self, principals: Collection[Principal]) -> dict[Principal, frozenset[str]]:
        return await self.rows.ask(queries.visible_slugs, principals=principals, now=clock.now())

    async def _write_counts(self, tallies: Mapping[Bucket, Tally]) -> None:
        await self.rows.ask(services.add_request_counts, tallies=tallies)


def _team_of(payload: str) -> str | None:
    try:
        return str(json.loads(payload)["team"])
    except (ValueError, TypeError, KeyError):
        return None
