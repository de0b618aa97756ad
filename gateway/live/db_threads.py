"""How the event loop asks the database: a few threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import close_old_connections, connections
from django.db.backends.base.base import BaseDatabaseWrapper

P = ParamSpec("P")
R = TypeVar("R")

THREADS = 4


class Rows:
    """Runs functions that use the ORM in threads, each of which keeps one connection."""

    def __init__(self, *, threads: int = THREADS) -> None:
        self._threads = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="rows")
        self._opened: set[BaseDatabaseWrapper] = set()

    async def ask(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """What `function` returns. Raises what it raises."""
        visit = sync_to_async(self._visit, thread_sensitive=False, executor=self._threads)
        return await visit(partial(function, *args, **kwargs))

    def _visit(self, call: Callable[[], R]) -> R:
        close_old_connections()
        try:
            return call()
        finally:
            self._opened.update(connections.all(initialized_only=True))
            close_old_connections()

    def close(self) -> None:
        """Waits for what is under way and closes the connections."""
        self._threads.shutdown()
        for connection in self._opened:
            connection.inc_thread_sharing()
            connection.close()
        self._opened.clear()
