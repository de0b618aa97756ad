"""After a test that commits, the tables that have rows are emptied, and no others.

Django's `flush` truncates all of them, each with its indexes, and makes content types and permissions anew: a third of
a second, for a handful of rows.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import TransactionTestCase

# What migrations make is the same before each test; no test changes it.
KEPT = {"django_migrations", "django_content_type", "auth_permission"}

_LOOK = "filled_tables"
_prepared: WeakSet[Any] = WeakSet()
"""Open connections in which that statement has been prepared."""


def instead_of_flush() -> None:
    """From now on Django's test cases that commit end so."""
    TransactionTestCase._fixture_teardown = _fixture_teardown


def _fixture_teardown(case: TransactionTestCase) -> None:
    for alias in case._databases_names(include_mirrors=False):
        empty(connections[alias])


def empty(connection: BaseDatabaseWrapper) -> None:
    """Delete all rows but those of migrations."""
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        if connection.connection not in _prepared:
            # Planning it for a hundred tables takes ten times as long as running it.
            cursor.execute(f"PREPARE {_LOOK} AS {_look_into_all(connection)}")
            _prepared.add(connection.connection)
        cursor.execute(f"EXECUTE {_LOOK}")
        filled = [table for (table,) in cursor.fetchall()]
        if filled:
            # Neither the order of foreign keys matters then, nor what may only be appended to.
            cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute("; ".join(f"DELETE FROM {table}" for table in filled))  # noqa: S608


def _look_into_all(connection: BaseDatabaseWrapper) -> str:
    """A statement that returns the quoted names of all tables that have rows."""
    every = {*connection.introspection.django_table_names(only_existing=True, include_views=False)}
    quoted = (connection.ops.quote_name(table) for table in sorted(every - KEPT))
    return " UNION ALL ".join(f"SELECT '{table}' WHERE EXISTS (SELECT FROM {table})" for table in quoted)  # noqa: S608
