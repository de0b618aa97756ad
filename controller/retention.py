"""Deletes rows of objects that have long gone from the cluster, in batches, once nothing needs them.

Usage and ledger rows are kept forever with all inputs of a bill: pod, node, times, units, price. A pod's row is kept
until its bill is settled and verified, and its log has expired.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from costs.ledger import check
from costs.models import UsageInterval
from foundation import leases
from foundation.models import PlatformSettings
from logs.store import NO_CONTAINER
from quotas.models import StartEstimate
from workloads.models import EventRecord, LogChunk, NodeRecord, ObjectRecord, PodRecord

BATCH: Final = 500
BATCHES_MAX: Final = 20
"""Of each kind of row in one call; the next one goes on."""


def forget(*, now: datetime) -> dict[str, int]:
    """Delete rows that are past the retention of the platform settings; returns how many of each kind."""
    settings = PlatformSettings.current()
    gone = now - timedelta(days=settings.record_retention_days)
    guessed = now - timedelta(days=settings.estimate_retention_days)
    return {
        "pods": _delete(_pods(gone), also=_let_go),
        "objects": _delete(ObjectRecord.objects.filter(gone_at__lt=gone).order_by("gone_at")),
        "events": _delete(EventRecord.objects.filter(last_at__lt=gone).order_by("last_at")),
        "nodes": _delete(NodeRecord.objects.filter(gone_at__lt=gone).order_by("gone_at")),
        "estimates": _delete(
            StartEstimate.objects.filter(made_at__lt=guessed, hit__isnull=False).order_by("made_at")
        ),
    }


def _pods(before: datetime) -> QuerySet[PodRecord]:
    unbilled = UsageInterval.objects.filter(UsageInterval.unsettled(), pod_uid=OuterRef("uid"))
    written = LogChunk.objects.filter(pod_uid=OuterRef("uid")).exclude(container=NO_CONTAINER)
    rows = PodRecord.objects.filter(~Exists(unbilled), ~Exists(written), gone_at__lt=before)
    return rows.order_by("gone_at")


def _let_go(keys: list[int]) -> list[int]:
    """Seal what these pod rows prove, and delete the log marks of those that may go, which are returned: not of what differs."""
    uids = dict(PodRecord.objects.filter(pk__in=keys).values_list("uid", "pk"))
    sealed = check.seal(uids)
    LogChunk.objects.filter(pod_uid__in=sealed, container=NO_CONTAINER).delete()
    return [uids[uid] for uid in sealed]


def _delete(rows: QuerySet[Any], *, also: Callable[[list[int]], list[int]] | None = None) -> int:
    """Delete the rows in separate small transactions; returns how many."""
    deleted, kept = 0, list[int]()
    for _ in range(BATCHES_MAX):
        keys = list(rows.exclude(pk__in=kept).values_list("pk", flat=True)[:BATCH])
        if not keys:
            break
        with transaction.atomic():
            leases.check()
            going = keys if also is None else also(keys)
            kept += set(keys).difference(going)
            # Filtered again: a pod that was seen again is kept.
            still = rows.filter(pk__in=going).order_by().values("pk")
            deleted += rows.model.objects.filter(pk__in=still).delete()[0]
    return deleted
