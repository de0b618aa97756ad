"""Telling a database that is away from a statement that went wrong."""

from __future__ import annotations

import django.db
import psycopg

from foundation import outages

RETRY_SECONDS = 5
"""Who is told that it is away asks again after that time."""
# It is shutting down, has crashed, is starting up, or takes no more connections.
_LEAVING = frozenset({"57P01", "57P02", "57P03", "53300"})


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
    """`is_away`, for who goes on and asks again: this process says so at the first of such errors, and no more until the
    database has answered (`outages.database`).
    """
    away = is_away(error)
    if away:
        outages.database.missed(error)
    return away
