"""The process's one LISTEN connection, made again whenever it breaks."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

import psycopg
from django.db import connection as django_connection
from psycopg import sql

from foundation import outages
from foundation.database import is_missed

log = logging.getLogger(__name__)

# A broken connection may look like a silent one, so silence is asked about.
SILENCE_SECONDS = 10.0
ANSWER_SECONDS = 5.0
RETRY_SECONDS_MIN = 0.1
RETRY_SECONDS_MAX = 5.0

Handler = Callable[[str], None]


class Listener:
    """Hands every notification of the given channels to its handler, on the event loop.

    PostgreSQL keeps nothing for a listener that is away: `on_gap` is called after each (re)connection, from which on
    nothing is missed again.
    """

    def __init__(self, handlers: Mapping[str, Handler], *, on_gap: Callable[[], None]) -> None:
        self._handlers = handlers
        self._on_gap = on_gap
        self.connected = asyncio.Event()

    async def run(self, parameters: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        """Listens until cancelled."""
        wait = RETRY_SECONDS_MIN
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(
                    **await parameters(), autocommit=True
                ) as connection:
                    await self._subscribe(connection)
                    wait = RETRY_SECONDS_MIN
                    await self._read(connection)
            except (psycopg.Error, OSError) as error:
                if not is_missed(error):
                    log.warning("listen.broken", extra={"error": type(error).__name__, "retry_seconds": wait})
            finally:
                self.connected.clear()
            await asyncio.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load, hides nothing
            wait = min(wait * 2, RETRY_SECONDS_MAX)

    async def _subscribe(self, connection: psycopg.AsyncConnection[Any]) -> None:
        for channel in self._handlers:
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        self.connected.set()
        outages.database.answered()
        self._on_gap()

    async def _read(self, connection: psycopg.AsyncConnection[Any]) -> None:
        while True:
            async with aclosing(connection.notifies(timeout=SILENCE_SECONDS)) as notes:
                async for note in notes:
                    self._handlers[note.channel](note.payload)
            async with asyncio.timeout(ANSWER_SECONDS):
                await connection.execute("SELECT 1")


def connection_parameters() -> dict[str, Any]:
    """How to reach Django's database, for psycopg itself."""
    parameters = dict(django_connection.get_connection_params())
    for of_django in ("cursor_factory", "context"):
        parameters.pop(of_django, None)
    return {**parameters, "application_name": "portal-live-listen"}
