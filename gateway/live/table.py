"""Answers of the database that are kept in memory and asked again behind the callers' backs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import django.db

from foundation import outages
from foundation.database import is_missed
from gateway.errors import DatabaseAway

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Ask = Callable[[Collection[K]], Awaitable[Mapping[K, V]]]

ROWS_MAX: Final = 10_000
BATCH: Final = 500
AT_ONCE: Final = 2
"""Questions of the database at a time; what is wanted meanwhile is asked together, so that many keys make no queue."""
# A database that takes longer is away as far as a caller is concerned.
ANSWER_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ages:
    """Seconds. An answer is good for `fresh`, a refusal for `refusal`; whatever was used within `idle` is asked again
    in the background, so that no caller waits for it. While the database is away an answer that is no refusal is good
    for `stale`.
    """

    fresh: float = 4.0
    refusal: float = 1.0
    idle: float = 60.0
    stale: float = 300.0


@dataclass(slots=True)
class _Row(Generic[V]):
    value: V
    asked_at: float
    used_at: float


@dataclass(slots=True)
class _Batch(Generic[K, V]):
    """Keys that are asked together: their answers, and when these were asked for."""

    keys: list[K]
    answers: asyncio.Task[tuple[float, Mapping[K, V]]] | None = None


class Table(Generic[K, V]):
    """Ages count from when the question was asked, so that an answer is never older than it seems.

    Of callers with the same question at once only one asks. Where nothing changes and the database is there, a
    question that is asked often costs its callers no visit of the database at all.
    """

    def __init__(self, ask: Ask[K, V], *, ages: Ages, is_refusal: Callable[[V], bool]) -> None:
        self._ask = ask
        self._ages = ages
        self._is_refusal = is_refusal
        self._rows: dict[K, _Row[V]] = {}
        self._asking: dict[K, asyncio.Task[V]] = {}
        self._wanted: _Batch[K, V] | None = None
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._doubted: set[K] = set()
        self._stir = asyncio.Event()
        self._news = asyncio.Event()
        self._away = False

    def __len__(self) -> int:
        return len(self._rows)

    async def get(self, key: K) -> V:
        """The answer. Raises DatabaseAway where the database is away and the answer is unknown or too old."""
        row = self._rows.get(key)
        now = _monotonic()
        if row is not None:
            row.used_at = now
            if now - row.asked_at < self._seconds_of(row.value):
                return row.value
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.create_task(self._ask_one(key))
            asking.add_done_callback(lambda done: self._asked(key, done))
        try:
            # One caller that hangs up must not take the answer from the others.
            return await asyncio.shield(asking)
        except DatabaseAway:
            # Forgotten meanwhile, or a refusal: then it is not for us to say yes.
            if row is None or self._rows.get(key) is not row or self._is_refusal(row.value):
                raise
            if _monotonic() - row.asked_at >= self._ages.stale:
                raise
            return row.value

    def opens(self, key: K) -> bool:
        """Whether there was an answer, however old, that is no refusal."""
        row = self._rows.get(key)
        return row is not None and not self._is_refusal(row.value)

    def forget(self, is_meant: Callable[[K, V], bool]) -> None:
        """What is remembered opens nothing any more: it is asked again before it is used.

        Answers that are just being fetched are not remembered, as they may be of before the change.
        """
        for key in [key for key, row in self._rows.items() if is_meant(key, row.value)]:
            del self._rows[key]
        self._asking.clear()
        self._tell()

    def doubt(self, is_meant: Callable[[K, V], bool]) -> None:
        """What is remembered may have changed: it is asked again at once, and used until the answer is there."""
        keys = {key for key, row in self._rows.items() if is_meant(key, row.value)}
        if keys or self._asking:
            self._asking.clear()
            self._doubted |= keys
            self._stir.set()

    def values(self) -> Iterable[V]:
        return [row.value for row in self._rows.values()]

    async def news(self, seconds: float) -> None:
        """Returns when something was asked again or forgotten, after `seconds` at the latest."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    async def keep_fresh(self) -> None:
        """Asks again and again, until cancelled: all that is used every half of `fresh`, what is doubted at once."""
        due = _monotonic() + self._ages.fresh / 2
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._stir.wait()
            self._stir.clear()
            wanted, self._doubted = self._doubted, set()
            if _monotonic() >= due:
                due = _monotonic() + self._ages.fresh / 2
                wanted |= self._used()
            try:
                await self._refresh(wanted)
            except DatabaseAway as error:
                if not is_missed(error.__cause__ or error):
                    log.warning("table.unrefreshed", extra={"rows": len(self._rows)})
            except Exception:
                log.exception("table.unrefreshed")

    # -- asking -------------------------------------------------------------------------------------------------

    async def _ask_one(self, key: K) -> V:
        asked_at, answers = await asyncio.shield(self._together(key))
        value = answers[key]
        if self._asking.get(key) is asyncio.current_task():
            self._make_room()
            self._rows[key] = _Row(value, asked_at, asked_at)
        return value

    def _together(self, key: K) -> asyncio.Task[tuple[float, Mapping[K, V]]]:
        batch = self._wanted
        if batch is None or batch.answers is None or len(batch.keys) >= BATCH:
            batch = self._wanted = _Batch([])
            batch.answers = asyncio.create_task(self._ask_batch(batch))
        batch.keys.append(key)
        return batch.answers

    async def _ask_batch(self, batch: _Batch[K, V]) -> tuple[float, Mapping[K, V]]:
        async with self._turns:
            if self._wanted is batch:
                self._wanted = None
            asked_at = _monotonic()
            return asked_at, await self._answers(batch.keys)

    def _asked(self, key: K, task: asyncio.Task[V]) -> None:
        if self._asking.get(key) is task:
            del self._asking[key]
        if not task.cancelled():
            # Looked at, whether or not a caller still waits for it.
            task.exception()

    async def _refresh(self, keys: Collection[K]) -> None:
        held = [(key, row) for key in keys if (row := self._rows.get(key)) is not None]
        for first in range(0, len(held), BATCH):
            batch = held[first : first + BATCH]
            asked_at = _monotonic()
            answers = await self._answers([key for key, _ in batch])
            for key, row in batch:
                if self._rows.get(key) is row:
                    row.value, row.asked_at = answers[key], asked_at
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _answers(self, keys: Collection[K]) -> Mapping[K, V]:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answers = await self._ask(keys)
        except (django.db.OperationalError, django.db.InterfaceError, OSError, TimeoutError) as error:
            self._away = True
            raise DatabaseAway("The portal cannot ask its database now.") from error
        self._away = False
        outages.database.answered()
        return answers

    # -- ages ---------------------------------------------------------------------------------------------------

    def _seconds_of(self, value: V) -> float:
        if self._is_refusal(value):
            return min(self._ages.refusal, self._ages.fresh)
        return self._ages.stale if self._away else self._ages.fresh

    def _used(self) -> set[K]:
        """Keys that are in use; what is too old even for a database that is away goes."""
        now = _monotonic()
        for key in [key for key, row in self._rows.items() if now - row.asked_at >= self._ages.stale]:
            del self._rows[key]
        return {
            key
            for key, row in self._rows.items()
            # Who was refused asks again by themselves: a stranger who makes up tokens costs no question twice.
            if now - row.used_at < self._ages.idle and not self._is_refusal(row.value)
        }

    def _make_room(self) -> None:
        """Refusals go first: any caller can have as many of them as they like."""
        if len(self._rows) < ROWS_MAX:
            return
        by_worth = sorted(
            self._rows, key=lambda key: (not self._is_refusal(self._rows[key].value), self._rows[key].used_at)
        )
        for key in by_worth[: ROWS_MAX // 2]:
            del self._rows[key]


def _monotonic() -> float:
    return asyncio.get_running_loop().time()
