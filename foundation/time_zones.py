"""Time zones: which there are, and in which one the reader of the page that is being written reads times. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

_reader: ContextVar[tzinfo] = ContextVar("reader", default=UTC)


def is_time_zone(text: str) -> bool:
    """Whether it is the name of one of the IANA database, as that is written."""
    return text in _names()


@cache
def time_zones() -> tuple[str, ...]:
    """Those that people choose among: UTC, then every place by its region."""
    regions = (
        "Africa/",
        "America/",
        "Antarctica/",
        "Asia/",
        "Atlantic/",
        "Australia/",
        "Europe/",
        "Indian/",
        "Pacific/",
    )
    return ("UTC", *sorted(name for name in _names() if name.startswith(regions)))


@cache
def _names() -> frozenset[str]:
    """Read from the disk, once."""
    return frozenset(available_timezones())


@contextmanager
def times_in(name: str) -> Iterator[None]:
    """Inside, `as_read` gives times in this zone of the IANA database."""
    token = _reader.set(ZoneInfo(name))
    try:
        yield
    finally:
        _reader.reset(token)


def reader_zone() -> tzinfo:
    """The zone of the reader; UTC where nobody said which that is."""
    return _reader.get()


def as_read(moment: datetime) -> datetime:
    """The same moment in the reader's zone; in UTC where nobody said which that is."""
    return moment.astimezone(_reader.get())


def exactly(moment: datetime) -> str:
    """`2026-03-01 12:00:00 CET`: to the second and with its zone, as the title of every shorter one."""
    return f"{as_read(moment):%Y-%m-%d %H:%M:%S %Z}"


def last_day_words(until: datetime) -> str:
    """The last day of what ends by then: midnight is the end of the day before; any other time is said too. In UTC."""
    ends_with_day = until.time() == time()
    return f"{until - timedelta(days=1):%Y-%m-%d}" if ends_with_day else f"{until:%Y-%m-%d %H:%M}"
