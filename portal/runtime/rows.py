"""The heartbeat rows, read and written without Django: `up` and beat stay small by not loading it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import psycopg


def has_beaten(database: Mapping[str, Any], since: datetime, process: str) -> bool:
    """Whether `process` has reported since then that it is alive; False also while the table is unreachable."""
    query = "SELECT 1 FROM foundation_heartbeat WHERE process = %s AND at >= %s"
    try:
        with _connect(database) as connection:
            return connection.execute(query, [process, since]).fetchone() is not None
    except psycopg.Error:
        return False


def beat(database: Mapping[str, Any], *, process: str, now: datetime) -> None:
    """What foundation.heartbeats.beat does. Raises psycopg.Error."""
    query = """
        INSERT INTO foundation_heartbeat (process, at, detail) VALUES (%s, %s, '{}')
        ON CONFLICT (process) DO UPDATE SET at = EXCLUDED.at, detail = EXCLUDED.detail
    """
    with _connect(database) as connection:
        connection.execute(query, [process, now])


def _connect(database: Mapping[str, Any]) -> psycopg.Connection[tuple[Any, ...]]:
    """A connection to the server of Django's DATABASES entry."""
    parameters = {
        "dbname": database["NAME"],
        "user": database["USER"],
        "password": database["PASSWORD"],
        "host": database["HOST"],
        "port": database["PORT"],
        **database["OPTIONS"],
    }
    return psycopg.connect(**{name: value for name, value in parameters.items() if value != ""})
