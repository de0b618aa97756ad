"""After a test that commits, the tables that have rows are emptied, and no others.

Django's `flush` truncates all of them, each with its indexes, and makes content types and permissions anew: a third of
a second, for a handful of rows.
"""

from __future__ import annotations

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import TransactionTestCase

# What migrations make is the same before each test; no test changes it.
KEPT = {"django_migrations", "django_content_type", "auth_permission"}


def instead_of_flush() -> None:
    """From now on Django's test cases that commit end so."""
    TransactionTestCase._fixture_teardown = _fixture_teardown


def _fixture_teardown(case: TransactionTestCase) -> None:
    for alias in case._databases_names(include_mirrors=False):
        empty(connections[alias])


def empty(connection: BaseDatabaseWrapper) -> None:
    """Delete all rows but those of migrations."""
    tables = sorted(
        {*connection.introspection.django_table_names(only_existing=True, include_views=False)} - KEPT
    )
    quoted = [connection.ops.quote_name(table) for table in tables]
    looks = (f"SELECT {at} WHERE EXISTS (SELECT FROM {table})" for at, table in enumerate(quoted))  # noqa: S608
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(looks))
        filled = [quoted[at] for (at,) in cursor.fetchall()]
        if filled:
            # Neither the order of foreign keys matters then, nor what may only be appended to.
            cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute("; ".join(f"DELETE FROM {table}" for table in filled))  # noqa: S608
