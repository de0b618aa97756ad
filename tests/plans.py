"""What PostgreSQL reads to answer: rows, not milliseconds, so that a test says the same on any machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

_ASKED = ("SELECT", "WITH")


@contextmanager
def _as_if_large() -> Iterator[None]:
    """Plans as of a large table: a test's few rows would be read in whole, whatever index there is."""
    with connection.cursor() as cursor:
        # What other tests have left in a table, or nobody has counted yet, is no reason for another plan.
        cursor.execute("ANALYZE workloads_workload, workloads_podrecord, workloads_noderecord")
        cursor.execute("SET enable_seqscan = off")
        try:
            yield
        finally:
            cursor.execute("RESET enable_seqscan")


def rows_answered(call: Callable[[], object]) -> int:
    """Rows that all SELECTs of the call hand to this process."""
    found = 0

    def count(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        nonlocal found
        result = execute(sql, params, many, context)
        found += max(0, context["cursor"].rowcount) if sql.lstrip().startswith(_ASKED) else 0
        return result

    with connection.execute_wrapper(count):
        call()
    return found


def rows_read(call: Callable[[], object], *, is_large: bool = False) -> int:
    """Rows that all SELECTs of the call read from tables, those included that no condition lets through.

    `is_large` says that the test has made the tables large itself: then plans are taken as they are.
    """
    with nullcontext() if is_large else _as_if_large():
        with CaptureQueriesContext(connection) as seen:
            call()
        return sum(_rows(node) for node in _plans(seen))


def tables_read_whole(call: Callable[[], object]) -> set[str]:
    """Tables that the call reads from end to end even where that is made dear: no index answers it."""
    with _as_if_large():
        with CaptureQueriesContext(connection) as seen:
            call()
        return {node["Relation Name"] for node in _plans(seen) if node["Node Type"] == "Seq Scan"}


def _plans(seen: CaptureQueriesContext) -> Iterator[dict[str, Any]]:
    asked = [query["sql"] for query in seen.captured_queries if query["sql"].lstrip().startswith(_ASKED)]
    for statement in asked:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}")
            found = cursor.fetchone()[0]
        plans = json.loads(found) if isinstance(found, str) else found
        yield from _nodes(plans[0]["Plan"])


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from _nodes(below)


def _rows(node: dict[str, Any]) -> int:
    if "Relation Name" not in node:
        return 0
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return round((node["Actual Rows"] + removed) * node["Actual Loops"])
