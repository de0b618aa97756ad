"""Objects of ended workloads: deleted by UID, after their logs were fetched a last time."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q, QuerySet

from cluster.client import ClusterClient
from cluster.errors import ClusterError, ObjectNotFound
from cluster.kinds import ObjectRef
from controller.reconcile.adapters import adapters
from foundation import leases
from logs import workload_logs
from workloads.models import ObjectRecord
from workloads.observations import record_object

logger = logging.getLogger(__name__)

KEEP_ENDED = timedelta(minutes=10)
BATCH_MAX = 200


def delete_ended(client: ClusterClient, *, now: datetime) -> int:
    """Delete primaries whose attempt ended a while ago, those of a team that is closed at once, with the objects they own.
    Returns how many.
    """
    while_ago = Q(workload__attempts__ended_at__lte=now - KEEP_ENDED)
    closed = Q(workload__attempts__ended_at__isnull=False, workload__team__closing_since__isnull=False)
    old = _primaries(client.cluster).filter(while_ago | closed, workload__attempts__number=F("attempt"))
    # In random order: objects whose deletion is refused must not fill every batch.
    return sum(_delete(client, record, now) for record in old.order_by("?")[:BATCH_MAX])


def delete_objects(client: ClusterClient, *, workload_id: int, now: datetime) -> int:
    """Delete the primaries of one ended workload at once. Returns how many."""
    own = _primaries(client.cluster).filter(workload_id=workload_id)
    return sum(_delete(client, record, now) for record in own)


def _primaries(cluster: str) -> QuerySet[ObjectRecord]:
    """The primaries that still exist in the cluster; each owns all other objects of its attempt."""
    kinds = {kind.kind for adapter in adapters() for kind in adapter.primaries}
    rows = ObjectRecord.objects.of(cluster).filter(gone_at__isnull=True, kind__in=kinds)
    return rows.select_related("workload__team", "workload__flavor")


def _delete(client: ClusterClient, record: ObjectRecord, now: datetime) -> bool:
    ref = ObjectRef(record.api_version, record.kind, record.namespace, record.name)
    leases.check()
    try:
        workload_logs.fetch_last(client, record.workload, attempt=record.attempt, now=now)
        item = client.get(ref)
        if item["metadata"]["uid"] != record.uid:
            _mark_gone(record, now)
            return False
        client.delete(ref, uid=record.uid, propagation="Background")
    except ObjectNotFound:
        _mark_gone(record, now)
        return False
    except ClusterError:
        logger.warning("garbage.kept", exc_info=True, extra={"workload_id": str(record.workload.public_id)})
        return False
    with transaction.atomic():
        leases.check()
        record_object(item, workload=record.workload, cluster=client.cluster, now=now)
    return True


def _mark_gone(record: ObjectRecord, now: datetime) -> None:
    there = ObjectRecord.objects.filter(
        workload=record.workload_id, attempt=record.attempt, gone_at__isnull=True
    )
    with transaction.atomic():
        leases.check()
        there.update(gone_at=now)
