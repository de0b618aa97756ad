"""Records pods as present or gone, with their usage, in one transaction: for the watcher and reconciles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from cluster.client import ClusterClient
from cluster.errors import ObjectNotFound
from cluster.kinds import ObjectRef
from costs.ledger.services import record_usages
from foundation.crashpoints import crash_point
from workloads.models import PodRecord
from workloads.observations import PodSeen, mark_pods_missing, record_pods


def see_pods(
    seen: Sequence[PodSeen], *, cluster: str, now: datetime, gone: bool = False, as_of: str = ""
) -> list[PodRecord]:
    """Update rows and usage of these pods; returns the changed rows. `as_of` is the version of their list."""
    if not seen:
        return []
    with transaction.atomic():
        rows = record_pods(seen, cluster=cluster, now=now, gone=gone, as_of=as_of)
        crash_point("watch-recorded")
        record_usages(rows, now=now)
    return rows


def absent_pods(client: ClusterClient, lacking: Iterable[PodRecord]) -> list[PodRecord]:
    """The rows missing from a list whose pods a read by name does not find either: a list may be partial, or
    older than the row, and proves nothing alone.
    """
    return [row for row in lacking if not still_there(client, ref_of_pod(row), row.uid)]


def miss_pods(absent: Sequence[PodRecord], *, as_of: str, now: datetime) -> list[PodRecord]:
    """Mark the absent pods gone, unless they were seen since; `as_of` is the version of the list that lacked
    them. Returns the rows that are gone now.
    """
    if not absent:
        return []
    with transaction.atomic():
        rows = mark_pods_missing(absent, as_of=as_of, now=now)
        record_usages(rows, now=now)
    return rows


def standing_as(client: ClusterClient, ref: ObjectRef, uid: str) -> dict[str, Any] | None:
    """The object of this name as it is now; None if there is none, or if it is another one."""
    try:
        item = client.get(ref)
    except ObjectNotFound:
        return None
    return item if item["metadata"]["uid"] == uid else None


def still_there(
    client: ClusterClient, ref: ObjectRef, uid: str, *, lacking: frozenset[str] = frozenset()
) -> bool:
    """Whether the object exists and is in none of the `lacking` phases."""
    item = standing_as(client, ref, uid)
    return item is not None and (item.get("status") or {}).get("phase") not in lacking


def ref_of_pod(row: PodRecord) -> ObjectRef:
    return ObjectRef("v1", "Pod", row.namespace, row.name)
