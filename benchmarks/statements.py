"""How many SQL statements a submission takes until its object is made, as PostgreSQL's own log tells."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from tests.crash.fleet import Fleet

_LINE = re.compile(r"^\S+ \S+ \S+ \[(?P<process>\d+)\] LOG: +(?:statement|execute [^:]*): (?P<text>.*)$")
_FRAME = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE", "SET ")
_SUBMITTED = 'INSERT INTO "workloads_workload"'
_OPENED = 'INSERT INTO "workloads_attempt"'
# The first thing that the worker does once the API server has answered.
_MADE = "workloads_objectrecord"
MARK = "SELECT 'the submission begins'"
SETTLE_SECONDS = 0.5


@dataclass(frozen=True)
class Count:
    """Statements that read or write, and those that only begin or end a transaction."""

    web: int
    worker: int
    frames: int


def count(fleet: Fleet, database: psycopg.Connection, submit: Callable[[], object]) -> Count:
    """The statements of one submission on an idle portal.

    `submit` executes MARK before it sends, and returns when the object is there.
    """
    path = fleet.folders.logs / "postgres.log"
    with _logged(database):
        begin = path.stat().st_size
        submit()
        time.sleep(SETTLE_SECONDS)
        with path.open("rb") as log:
            log.seek(begin)
            matches = [match for line in log if (match := _LINE.match(line.decode(errors="replace")))]
    marked = next(place for place, match in enumerate(matches) if MARK in match["text"])
    return _of(matches[marked + 1 :])


def _of(lines: list[re.Match[str]]) -> Count:
    web = _until_told(lines, _process_of(lines, _SUBMITTED), end=None)
    worker = _until_told(lines, _process_of(lines, _OPENED), end=_MADE)
    return Count(
        web=sum(not statement.startswith(_FRAME) for statement in web),
        worker=sum(not statement.startswith(_FRAME) for statement in worker),
        frames=sum(statement.startswith(_FRAME) for statement in (*web, *worker)),
    )


def _process_of(lines: list[re.Match[str]], statement: str) -> str:
    process = next((line["process"] for line in lines if statement in line["text"]), None)
    if process is None:
        raise SystemExit(f"PostgreSQL's log does not show {statement}")
    return str(process)


def _until_told(lines: list[re.Match[str]], process: str, *, end: str | None) -> list[str]:
    """What that process executed, up to the statement that says `end`."""
    texts = [line["text"] for line in lines if line["process"] == process]
    last = next((place for place, text in enumerate(texts) if end and end in text), len(texts))
    return texts[:last]


@contextmanager
def _logged(database: psycopg.Connection) -> Iterator[None]:
    database.execute("ALTER SYSTEM SET log_statement = 'all'")
    database.execute("SELECT pg_reload_conf()")
    time.sleep(SETTLE_SECONDS)
    try:
        yield
    finally:
        database.execute("ALTER SYSTEM RESET log_statement")
        database.execute("SELECT pg_reload_conf()")
