"""A server that evaluates queries as Prometheus does, over the samples that a test plants in its storage."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from devcluster.prometheus.api import PrometheusApi
from devcluster.prometheus.storage import Storage
from tests.waiting import result_of

TOKEN = "a-token"
"""What it asks for: PORTAL_PROMETHEUS_TOKEN of every test."""


@contextmanager
def planted_metrics(storage: Storage | None = None) -> Iterator[tuple[str, Storage]]:
    """The server's URL and what it has."""
    storage = Storage(keep_seconds=3600) if storage is None else storage
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(PrometheusApi(storage, TOKEN).app(), access_log=None)
    loop.run_until_complete(runner.setup())
    loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", 0).start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", storage
    finally:
        result_of(asyncio.run_coroutine_threadsafe(runner.cleanup(), loop))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
