"""Django's connections to a worker's database outlive whoever opened them, and serve the next who opens one.

PostgreSQL starts a process for each connection, which first reads the catalogue: tens of milliseconds for each thread,
each request to a live server and each test that commits. What a session has set is undone before another one gets the
connection. One that was cut, that is in use, or that belongs to an open `atomic` block is closed as ever.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Hashable
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from django.db import connection
from django.db.backends.postgresql.base import DatabaseWrapper
from psycopg.pq import TransactionStatus

Opened = psycopg.Connection[Any]

# PostgreSQL takes 120 connections, of all workers together.
_KEPT_BY_ALL = 48
_AS_NEW = "RESET ALL; UNLISTEN *; CLOSE ALL; DISCARD TEMP; SELECT pg_advisory_unlock_all()"
_USABLE = {TransactionStatus.IDLE, TransactionStatus.INTRANS, TransactionStatus.INERROR}

_lock = threading.Lock()
_kept: list[tuple[Hashable, Opened]] = []
_asked_for: WeakKeyDictionary[Opened, Hashable] = WeakKeyDictionary()
"""With which parameters a connection was opened."""


def keep_connections() -> None:
    """From now on those to the test database of this process are kept."""
    database = connection.creation._get_test_db_name()
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))  # noqa: TID251
    at_most, owner = max(2, _KEPT_BY_ALL // workers), os.getpid()
    opens, closes = DatabaseWrapper.get_new_connection, DatabaseWrapper._close
    keeping = threading.Event()
    keeping.set()

    def open_or_take(wrapper: DatabaseWrapper, parameters: dict[str, Any]) -> Opened:
        if parameters.get("dbname") != database or os.getpid() != owner:
            return opens(wrapper, parameters)
        key = tuple(sorted(parameters.items()))
        opened = _take(key) or opens(wrapper, parameters)
        _asked_for[opened] = key
        return opened

    def close_or_keep(wrapper: DatabaseWrapper) -> None:
        opened = wrapper.connection
        keeps = keeping.is_set() and os.getpid() == owner and not wrapper.in_atomic_block
        if not keeps or not _keep(opened, at_most):
            closes(wrapper)

    DatabaseWrapper.get_new_connection, DatabaseWrapper._close = open_or_take, close_or_keep
    connection.creation.destroy_test_db = _after_closing_kept(connection.creation.destroy_test_db, keeping)


def close_kept() -> None:
    """For a test that counts or cuts connections: there are none but those in use."""
    with _lock:
        kept = _kept.copy()
        _kept.clear()
    for _, opened in kept:
        opened.close()


def _after_closing_kept(destroy: Callable[..., None], keeping: threading.Event) -> Callable[..., None]:
    """Close the kept connections first, and keep no more: PostgreSQL does not drop a database that has connections.

    A request that is still running may close its connection after that.
    """

    def destroyed(*arguments: Any, **named: Any) -> None:
        keeping.clear()
        connection.close()
        close_kept()
        destroy(*arguments, **named)

    return destroyed


def _take(key: Hashable) -> Opened | None:
    """The one that was kept last of those that were opened so, and that still stands."""
    while True:
        with _lock:
            at = next((at for at in reversed(range(len(_kept))) if _kept[at][0] == key), None)
            if at is None:
                return None
            _, opened = _kept.pop(at)
        if not opened.closed and not _was_cut(opened):
            return opened
        opened.close()


def _was_cut(opened: Opened) -> bool:
    """A server that says something unasked says that it goes away."""
    socket = select.poll()
    socket.register(opened.fileno(), select.POLLIN)
    return bool(socket.poll(0))


def _keep(opened: Opened | None, at_most: int) -> bool:
    key = None if opened is None else _asked_for.get(opened)
    if opened is None or key is None or opened.closed or opened._notify_handlers or len(_kept) >= at_most:
        return False
    if opened.pgconn.transaction_status not in _USABLE:
        return False
    try:
        opened.rollback()
        opened.set_autocommit(True)
        opened.execute(_AS_NEW)
        # As a new one, it begins transactions until Django says otherwise.
        opened.set_autocommit(False)
    except psycopg.Error:
        return False
    with _lock:
        _kept.append((key, opened))
    return True
