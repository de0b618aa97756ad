"""Deletes objects without a workload, which remain after a restore from a backup older than the cluster."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from cluster.client import ClusterClient
from cluster.errors import ClusterError
from cluster.kinds import ObjectRef
from cluster.labels import MANAGED_BY, MANAGER, WORKLOAD_ID
from foundation.errors import Conflict, NotFound
from teams.actors import Actor
from teams.audit import record_audit
from workloads.models import StrayObject
from workloads.strays import workloads_of

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StrayOutcome:
    """`deleted` are being deleted; for `kept` the cluster refused the deletion, or did not answer."""

    deleted: int
    kept: int


def delete_strays(
    client: ClusterClient, *, uids: Collection[str], reason: str, actor: Actor, now: datetime
) -> StrayOutcome:
    """Delete these objects and their dependents. The caller has checked for the role of a platform admin.

    Raises NotFound if one is unknown in the client's cluster, and Conflict if one belongs to a workload again.
    """
    rows = list(StrayObject.objects.of(client.cluster).filter(uid__in=uids, owned=False).order_by("pk"))
    if len(rows) != len(set(uids)):
        raise NotFound("Not all of these are objects of no workload any more. Look again.")
    for row, workload in zip(rows, workloads_of([_labelled(row) for row in rows]), strict=True):
        if workload is not None:
            raise Conflict(f"{row} is of a workload that is there again. Look again.", code="not_stray")
    deleted = sum(_delete(client, row, reason, actor, now) for row in rows)
    return StrayOutcome(deleted=deleted, kept=len(rows) - deleted)


def _labelled(row: StrayObject) -> dict[str, Any]:
    """A manifest with the recorded object's labels and namespace, from which its workload is found."""
    labels = {MANAGED_BY: MANAGER, WORKLOAD_ID: row.said_workload}
    return {"metadata": {"labels": labels, "namespace": row.namespace}}


def _delete(client: ClusterClient, row: StrayObject, reason: str, actor: Actor, now: datetime) -> bool:
    with transaction.atomic():
        StrayObject.objects.filter(pk=row.pk).update(deleted_at=now)
        record_audit(
            actor=actor,
            action="stray-object.delete",
            target_kind="stray-object",
            target_id=row.uid,
            before={
                "kind": row.kind,
                "namespace": row.namespace,
                "name": row.name,
                "workload": row.said_workload,
                "created_at": row.created_at,
            },
            reason=reason,
            now=now,
        )
    try:
        client.delete(ObjectRef(row.api_version, row.kind, row.namespace, row.name), uid=row.uid)
    except ClusterError:
        logger.warning("stray.kept", exc_info=True, extra={"object": str(row), "uid": row.uid})
        StrayObject.objects.filter(pk=row.pk).update(deleted_at=None)
        return False
    return True
