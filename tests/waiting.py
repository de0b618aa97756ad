"""The one place where tests wait: they look again and again until something is so, and tell what stood at the end."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

SECONDS = 30.0
# What a thread does for a test takes longer than a look; pytest's own limit, which names who hangs, is longer still.
PATIENCE_SECONDS = 120.0
# What is so at once costs no pause, and what takes long costs few looks.
FIRST_PAUSE_SECONDS = 0.005
LONGEST_PAUSE_SECONDS = 0.1
GROWTH = 1.5


def until(
    look: Callable[[], T],
    seconds: float = SECONDS,
    said: str | Callable[[], object] = "",
    *,
    longest: float = LONGEST_PAUSE_SECONDS,
) -> T:
    """The first true answer of `look`; fails after so long, with what is `said` and the last answer."""
    return _matching(look, bool, seconds, said, longest)


def until_equal(look: Callable[[], T], expected: T, seconds: float = SECONDS) -> None:
    """Waits for that answer of `look`; fails with the last one."""
    _matching(look, lambda seen: bool(seen == expected), seconds, f"{expected!r}", LONGEST_PAUSE_SECONDS)


def result_of(future: Future[T]) -> T:
    """What it gives or raises, however busy the machine is; TimeoutError if it hangs."""
    return future.result(PATIENCE_SECONDS)


def _matching(
    look: Callable[[], T],
    match: Callable[[T], bool],
    seconds: float,
    said: str | Callable[[], object],
    longest: float,
) -> T:
    deadline, pause = time.monotonic() + seconds, FIRST_PAUSE_SECONDS
    while not match(seen := look()):
        if time.monotonic() > deadline:
            what = said() if callable(said) else said
            name = getattr(look, "__qualname__", repr(look))
            raise AssertionError(f"not within {seconds:.0f} s: {what or name}; the last answer was {seen!r}")
        time.sleep(pause)
        pause = min(pause * GROWTH, longest)
    return seen


def until_blocked(number: int = 1, *, unless: Future[Any] | None = None) -> None:
    """Waits until so many transactions on the test's database wait for a lock, or what is under way has ended."""
    from django.db import connection

    def blocked() -> bool:
        with connection.cursor() as cursor:
            # What a transaction has seen of the others' activity it keeps.
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            return bool(cursor.fetchone()[0] >= number)

    until(lambda: blocked() or (unless is not None and unless.done()), said="somebody waits for a lock")
