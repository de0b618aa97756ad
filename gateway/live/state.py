"""The running parts of one live process, and how they start and stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from cluster.client import ClusterClient
from cluster.proxy import ServiceProxy
from controller.services import call_for
from foundation import clock
from foundation.database import is_missed
from gateway import queries, services
from gateway.live.audience import Audience, Invokers, Waiters
from gateway.live.callers import Callers
from gateway.live.counts import Counts
from gateway.live.db_threads import Rows
from gateway.live.directory import Directory
from gateway.live.hub import Bell, Hub
from gateway.live.listener import Listener, connection_parameters
from gateway.live.metrics import Metrics
from gateway.live.passthrough import Gateway, GatewayLimits
from gateway.live.strangers import Strangers
from gateway.live.table import Ages
from gateway.live.waking import Waking
from gateway.services import Bucket, Tally
from logs.workload_logs import NOTIFY_CHANNEL as LOGS_CHANNEL
from teams.permissions import NOTIFY_CHANNEL as ACCESS_CHANNEL
from teams.tickets import Principal
from workloads.services import NOTIFY_CHANNEL as EVENTS_CHANNEL

log = logging.getLogger(__name__)

LOG_THREADS = 2
WAIT_THREADS = 2
CALL_THREADS = 1
TIDY_SECONDS = 60.0


class Live:
    """Everything that is shared by the requests of one process; made on its event loop."""

    def __init__(self, client: ClusterClient, limits: GatewayLimits) -> None:
        self.rows = Rows()
        # Reading a log or a whole workload may take long, and so may a broker that is away; checks of tokens must not wait for them.
        self.log_rows = Rows(threads=LOG_THREADS)
        self.wait_rows = Rows(threads=WAIT_THREADS)
        self.call_rows = Rows(threads=CALL_THREADS)
        self.hub = Hub()
        self.log_bell = Bell()
        self.move_bell = Bell()
        self.audience = Audience(self._visible_slugs)
        self.waiters = Waiters(self._visible_slugs)
        self.invokers = Invokers(self._visible_slugs)
        self.counts = Counts(self._write_counts)
        self.metrics = Metrics()
        self.proxy = ServiceProxy(client)
        self.strangers = Strangers()
        ages = Ages(fresh=limits.access_seconds, stale=limits.stale_seconds)
        self.callers = Callers(self.rows, self.strangers, ages=ages, calls_of_user=limits.calls_of_user)
        self.directory = Directory(self.rows, ages=ages)
        self.waking = Waking(self.directory, self._call_endpoint, self.metrics, limits.hold)
        self.gateway = Gateway(
            callers=self.callers,
            directory=self.directory,
            waking=self.waking,
            proxy=self.proxy,
            counts=self.counts,
            metrics=self.metrics,
            limits=limits,
        )
        handlers = {
            EVENTS_CHANNEL: self._on_event,
            LOGS_CHANNEL: self.log_bell.ring,
            ACCESS_CHANNEL: self.callers.on_access_changed,
        }
        self.listener = Listener(handlers, on_gap=self._on_gap)
        self.stopping = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        jobs = (
            self.listener.run(self._connection_parameters),
            self.audience.keep_checking(),
            self.waiters.keep_checking(),
            self.invokers.keep_checking(),
            self.callers.keep_fresh(),
            self.callers.keep_watching(),
            self.directory.keep_fresh(),
            self.counts.keep_writing(),
            self._keep_tidy(),
        )
        self._tasks = [asyncio.create_task(job) for job in jobs]

    async def stop(self) -> None:
        """Ends the streams, writes what was counted, closes every connection."""
        self.end_streams()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.waking.stop()
        await self.counts.flush()
        await self.proxy.aclose()
        for rows in (self.rows, self.log_rows, self.wait_rows, self.call_rows):
            await asyncio.to_thread(rows.close)

    def end_streams(self) -> None:
        """Lets all event and log streams and all waits end now; their callers come back to another process, or later."""
        self.stopping.set()
        self.hub.end_all()
        self.log_bell.ring_all()
        self.move_bell.ring_all()

    def _on_event(self, payload: str) -> None:
        self.directory.on_event(payload)
        self.hub.publish(payload)
        self.move_bell.ring(payload)
        # The last line of a log may be stored before its attempt has ended.
        self.log_bell.ring(payload)

    def _on_gap(self) -> None:
        self.callers.on_gap()
        self.directory.on_gap()
        self.hub.resync()
        self.log_bell.ring_all()
        self.move_bell.ring_all()

    async def _connection_parameters(self) -> dict[str, Any]:
        return await self.rows.ask(connection_parameters)

    async def _visible_slugs(self, principals: Collection[Principal]) -> dict[Principal, frozenset[str]]:
        return await self.rows.ask(queries.visible_slugs, principals=principals, now=clock.now())

    async def _write_counts(self, tallies: Mapping[Bucket, Tally]) -> None:
        await self.rows.ask(services.add_request_counts, tallies=tallies)

    async def _call_endpoint(self, endpoint: UUID) -> None:
        await self.call_rows.ask(call_for, public_id=endpoint, now=clock.now())

    async def _keep_tidy(self) -> None:
        """Forgets again and again what was counted of endpoints that are gone, until cancelled."""
        while True:
            await asyncio.sleep(TIDY_SECONDS)
            try:
                known = self.metrics.endpoints()
                live = await self.rows.ask(queries.live_endpoints, among=known)
                self.gateway.forget(known - live)
            except Exception as error:
                if not is_missed(error):
                    log.warning("gateway.untidied", exc_info=True)
