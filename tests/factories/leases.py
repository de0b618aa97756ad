"""Periodic jobs that took longer than their lease, so that another process does them by now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F

from foundation import leases
from foundation.models import Lease

HOUR = timedelta(hours=1)


def run_out() -> None:
    """Let the time of every lease pass. The database's clock cannot be moved, so what it is compared with is."""
    Lease.objects.update(expires_at=F("expires_at") - HOUR)


def take_over(job: str) -> None:
    """Be the other process."""
    run_out()
    assert leases.acquire(name=f"periodic:{job}", holder="elsewhere", ttl_seconds=30) == 2


@contextmanager
def taken_over(job: str, *, after: str) -> Iterator[None]:
    """Somebody takes the job over once the first statement that begins so has been committed."""
    seen: list[str] = []

    def watch(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if sql.startswith(after) and not seen:
            seen.append(sql)
            transaction.on_commit(partial(take_over, job))
        return result

    with connection.execute_wrapper(watch):
        yield
    assert seen, "it never came to its first write"


@contextmanager
def overtaken(job: str, *, after: str = "") -> Iterator[None]:
    """What is done inside is that job, until somebody takes it over: at once, or after such a statement."""
    with leases.periodic(job, seconds=30) as ours:
        assert ours
        if after:
            with taken_over(job, after=after):
                yield
        else:
            take_over(job)
            yield
        pytest.fail("it went on")
