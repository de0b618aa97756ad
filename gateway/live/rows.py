"""How the event loop asks the database: a few threads, and answers that are remembered for a few seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Generic, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import close_old_connections, connections
from django.db.backends.base.base import BaseDatabaseWrapper

P = ParamSpec("P")
R = TypeVar("R")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

THREADS = 4
REMEMBERED_MAX = 10_000


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


@dataclass(slots=True)
class _Answer(Generic[V]):
    asked_at: float
    task: asyncio.Task[V]


class Remembered(Generic[K, V]):
    """Answers that may be a few seconds old; of callers with the same question at once only one asks.

    The age counts from when the question was asked, so an answer is never staler than `seconds_of` says of it.
    An error is not remembered.
    """

    def __init__(self, seconds_of: Callable[[V], float]) -> None:
        self._seconds_of = seconds_of
        self._answers: dict[K, _Answer[V]] = {}

    async def get(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        known = self._answers.get(key)
        if known is None or not self._is_fresh(known):
            self._make_room()
            known = _Answer(_monotonic(), asyncio.ensure_future(_await(ask)))
            self._answers[key] = known
        # One caller that hangs up must not take the answer from the others.
        return await asyncio.shield(known.task)

    def forget(self, is_meant: Callable[[K], bool]) -> None:
        """Drops answers, those that are just being fetched too, as they may be of before the change."""
        for key in [key for key in self._answers if is_meant(key)]:
            del self._answers[key]

    def _is_fresh(self, known: _Answer[V]) -> bool:
        if not known.task.done():
            return True
        if known.task.cancelled() or known.task.exception() is not None:
            return False
        return _monotonic() - known.asked_at < self._seconds_of(known.task.result())

    def _make_room(self) -> None:
        if len(self._answers) >= REMEMBERED_MAX:
            for key in list(islice(self._answers, REMEMBERED_MAX // 2)):
                del self._answers[key]


async def _await(ask: Callable[[], Awaitable[Any]]) -> Any:
    return await ask()


def _monotonic() -> float:
    return asyncio.get_running_loop().time()
