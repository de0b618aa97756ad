"""The one source of "now". Entry points read it once and pass the value on; domain code never reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

Source = Callable[[], datetime]


def _system() -> datetime:
    return datetime.now(UTC)  # noqa: TID251


_source: Source = _system


def now() -> datetime:
    """The current time, aware, in UTC."""
    return _source()


def set_source(source: Source | None) -> None:
    """Replace what `now` reads; None restores the system clock. Meant for tests and simulations."""
    global _source  # noqa: PLW0603
    _source = source or _system


@contextmanager
def freeze(at: datetime) -> Iterator[None]:
    """Make `now` answer `at` inside the block. A naive `at` is refused with ValueError."""
    if at.tzinfo is None:
        raise ValueError("a frozen clock needs an aware datetime")
    before = _source
    set_source(lambda: at.astimezone(UTC))
    try:
        yield
    finally:
        set_source(before)
