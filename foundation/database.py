"""Telling a database that is away from a statement that went wrong."""

from __future__ import annotations

import threading
import time
from typing import Any

import django.db
import psycopg

from foundation import outages

RETRY_SECONDS = 5
"""A caller that learns that it is away asks again after that time."""
# It is shutting down, has crashed, is starting up, or takes no more connections.
_LEAVING = frozenset({"57P01", "57P02", "57P03", "53300"})
_opened = threading.local()


def is_away(error: BaseException | None) -> bool:
    """Whether an exception means that PostgreSQL cannot be reached: no answer of it says so, but its absence."""
    if isinstance(error, django.db.InterfaceError | psycopg.InterfaceError):
        return _is_closed()
    cause = error.__cause__ if isinstance(error, django.db.OperationalError) else error
    if not isinstance(cause, psycopg.OperationalError):
        return False
    state = cause.sqlstate
    return state is None or state.startswith("08") or state in _LEAVING


def _is_closed() -> bool:
    """Whether this thread has no connection that is open. With one that is, using it wrongly is a fault of our own."""
    current = django.db.connection.connection
    return current is None or bool(current.closed)


def is_missed(error: BaseException) -> bool:
    """`is_away`, for a caller that goes on and asks again: this process logs the first of such errors, and no more until
    the database has answered (`outages.database`).
    """
    away = is_away(error)
    if away and not _was_cut_before():
        outages.database.missed(error)
    return away


def note_opened(**_signal: Any) -> None:
    """A receiver of `connection_created`: the thread it runs in has a new connection."""
    _opened.at = time.monotonic()


def _was_cut_before() -> bool:
    """Whether this thread's connection is older than the end of the last outage: that one cut it, and the thread has
    only now asked for something. The next connection has no such excuse.
    """
    opened_at, _opened.at = getattr(_opened, "at", None), None
    over_at = outages.database.over_at
    return opened_at is not None and over_at is not None and opened_at < over_at
