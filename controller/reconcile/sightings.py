"""Records pods as present or gone, with their usage, in one transaction: for the watcher and reconciles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from cluster.client import ClusterClient
from cluster.errors import ObjectNotFound
from cluster.kinds import ObjectRef
from costs.ledger.services import record_usages
from foundation.crashpoints import crash_point
from workloads.models import NodeRecord, ObjectRecord, PodRecord, Workload
from workloads.models.observed import JOB_COMPLETION, NODE_GONE
from workloads.observations import PodSeen, mark_pods_missing, record_pods
from workloads.pods import evidence
from workloads.pods.pod_facts import attempt_of


def see_pods(
    seen: Sequence[PodSeen], *, cluster: str, now: datetime, gone: bool = False, as_of: str = ""
) -> list[PodRecord]:
    """Update rows and usage of these pods; returns the changed rows. `as_of` is the version of their list."""
    if not seen:
        return []
    with transaction.atomic():
        rows = record_pods(seen, cluster=cluster, now=now, gone=gone, as_of=as_of)
        crash_point("watch-recorded")
        _bound(rows)
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
        _bound(rows)
        record_usages(rows, now=now)
    return rows


def see_ends(seen: Iterable[tuple[Mapping[str, Any], Workload]], *, now: datetime) -> None:
    """Correct the usage of vanished pods by what these objects say of their end. Before anything else is locked."""
    for manifest, workload in seen:
        end, attempt = evidence.end_of_object(evidence.of_object(manifest)), attempt_of(manifest["metadata"])
        if end is None:
            continue
        with transaction.atomic():
            lost = PodRecord.objects.filter(workload=workload, attempt=attempt, gone_at__isnull=False)
            rows = lost.filter(finished_at__isnull=True).select_for_update(no_key=True, of=("self",))
            changed = _bound(rows.select_related("workload__flavor").order_by("uid"), {attempt: end})
            record_usages(changed, now=now)


def _bound(rows: Iterable[PodRecord], told: Mapping[int, datetime] | None = None) -> list[PodRecord]:
    """Bound the ends of those that vanished and left none, or were ended for their node, by what else the cluster shows of
    them; returns the changed rows. `told` are ends of attempts that no row has yet.
    """
    lost = [row for row in rows if (row.collected if row.finished_at else row.gone_at is not None)]
    if not lost:
        return []
    ends: dict[tuple[int, int], datetime] = {}
    for record in ObjectRecord.objects.filter(workload__in={row.workload_id for row in lost}).order_by():
        if (end := evidence.end_of_object(record.status)) is not None:
            ends[record.workload_id, record.attempt] = end
    nodes = NodeRecord.objects.of(lost[0].cluster).filter(name__in={row.node_name for row in lost} - {""})
    left = {node.name: node for node in nodes.filter(gone_at__isnull=False).order_by("gone_at")}
    changed = []
    for row in lost:
        end, node = (
            (told or {}).get(row.attempt) or ends.get((row.workload_id, row.attempt)),
            left.get(row.node_name),
        )
        bounds = []
        own = row.finished_at is not None
        if end is not None and not own and end >= (row.scheduled_at or row.created_at):
            # That it was there later is evidenced: an operator may say so before the last pod has stopped.
            bounds.append((max(end, row.seen_until or end), JOB_COMPLETION))
        if (
            node is not None
            and node.gone_at is not None
            and node.created_at <= row.created_at <= node.gone_at
        ):
            bounds.append((node.gone_at, NODE_GONE))
        found = min(bounds, default=(None, ""))
        if (row.bounded_at, row.bounded_by) != found:
            row.bounded_at, row.bounded_by = found
            changed.append(row)
    PodRecord.objects.bulk_update(changed, ["bounded_at", "bounded_by"])
    return changed


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
