"""The only writer of request counts; tokens of endpoints have a file of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Self
from uuid import UUID

from django.db import connection

from gateway import latency
from gateway.credentials import create_endpoint_token, revoke_endpoint_token
from gateway.models import RequestCount
from workloads.models import Workload

__all__ = [
    "add_request_counts",
    "create_endpoint_token",
    "forget_old_request_counts",
    "revoke_endpoint_token",
]

KEEP = timedelta(days=8)

_ADD = """
INSERT INTO gateway_requestcount (endpoint_id, revision, minute, status_class, count, milliseconds_sum, latency)
VALUES (%s, %s, %s, %s, %s, %s, %s::bigint[])
ON CONFLICT (endpoint_id, minute, revision, status_class) DO UPDATE SET
    count = gateway_requestcount.count + EXCLUDED.count,
    milliseconds_sum = gateway_requestcount.milliseconds_sum + EXCLUDED.milliseconds_sum,
    latency = ARRAY(
        SELECT coalesce(old, 0) + coalesce(new, 0)
        FROM unnest(gateway_requestcount.latency, EXCLUDED.latency) WITH ORDINALITY AS pairs (old, new, place)
        ORDER BY place
    )
"""


@dataclass(frozen=True, slots=True, order=True)
class Bucket:
    """One revision of an endpoint, one minute, one class of status."""

    endpoint: UUID
    revision: int
    minute: datetime
    status_class: int

    @classmethod
    def of(cls, endpoint: UUID, revision: int, *, status: int, now: datetime) -> Self:
        """Where a request counts that ended now."""
        return cls(endpoint, revision, now.replace(second=0, microsecond=0), min(max(status // 100, 1), 5))


@dataclass(slots=True)
class Tally:
    count: int = 0
    milliseconds: int = 0
    latency: list[int] = field(default_factory=list)

    def add(self, seconds: float, *, asked: bool) -> None:
        """One request more; its duration enters the latency only where the endpoint was `asked`."""
        self.count += 1
        self.milliseconds += round(seconds * 1000)
        if asked:
            latency.add(self.latency, seconds)


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
        (
            ids[bucket.endpoint],
            bucket.revision,
            bucket.minute,
            bucket.status_class,
            tally.count,
            tally.milliseconds,
            tally.latency,
        )
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
