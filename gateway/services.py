"""The only writer of request counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection

from gateway.models import RequestCount
from workloads.models import Workload

KEEP = timedelta(days=8)

_ADD = """
INSERT INTO gateway_requestcount (endpoint_id, minute, status_class, count, milliseconds_sum)
VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (endpoint_id, minute, status_class) DO UPDATE SET
    count = gateway_requestcount.count + EXCLUDED.count,
    milliseconds_sum = gateway_requestcount.milliseconds_sum + EXCLUDED.milliseconds_sum
"""


@dataclass(frozen=True, slots=True, order=True)
class Bucket:
    """One endpoint, one minute, one class of status."""

    endpoint: UUID
    minute: datetime
    status_class: int


@dataclass(slots=True)
class Tally:
    count: int = 0
    milliseconds: int = 0


def add_request_counts(*, tallies: Mapping[Bucket, Tally]) -> None:
    """Adds to what is there, so that several processes may count the same minute.

    Counts of a workload that is gone are dropped.
    """
    ids = dict(
        Workload.objects.filter(public_id__in={bucket.endpoint for bucket in tallies}).values_list(
            "public_id", "pk"
        )
    )
    # In one order everywhere, so that two processes never wait for each other's rows.
    rows = [
        (ids[bucket.endpoint], bucket.minute, bucket.status_class, tally.count, tally.milliseconds)
        for bucket, tally in sorted(tallies.items())
        if bucket.endpoint in ids
    ]
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(_ADD, rows)


def forget_old_request_counts(*, now: datetime) -> int:
    """Deletes what is older than eight days; returns how many rows."""
    deleted, _ = RequestCount.objects.filter(minute__lt=now - KEEP).delete()
    return deleted
