"""What the watcher keeps of the portal's own objects, and whom they wake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from typing_extensions import override

from cluster.client import ClusterClient
from cluster.kinds import ObjectRef, ResourceKind
from controller import wakeups
from controller.watched_claims import still_there
from workloads.models import ObjectRecord
from workloads.observations import record_object, workload_of


@dataclass(frozen=True)
class ObjectSink:
    kind: ResourceKind

    def seen(self, manifest: Mapping[str, Any], *, now: datetime, gone: bool) -> None:
        workload = workload_of(manifest)
        if workload is None:
            return
        whole = {"apiVersion": self.kind.api_version, "kind": self.kind.kind, **manifest}
        record_object(whole, workload=workload, now=now, gone=gone)
        wakeups.wake_workload(workload, now=now)

    def forget_absent(self, client: ClusterClient, present: set[str], *, now: datetime) -> None:
        # Two groups may have a kind of the same name, and one be served while the other is not.
        own = {"api_version": self.kind.api_version, "kind": self.kind.kind}
        rows = ObjectRecord.objects.filter(gone_at__isnull=True, **own).exclude(uid__in=present)
        for record in rows.select_related("workload__team"):
            ref = ObjectRef(record.api_version, record.kind, record.namespace, record.name)
            if not still_there(client, ref, record.uid):
                ObjectRecord.objects.filter(pk=record.pk).update(gone_at=now)
                wakeups.wake_workload(record.workload, now=now)


@dataclass(frozen=True)
class CompanionSink(ObjectSink):
    """What stands beside a primary and says how it fares. A scaler writes its measurements all the time; only what
    changes for people wakes anybody.
    """

    told: dict[str, str] = field(default_factory=dict)

    @override
    def seen(self, manifest: Mapping[str, Any], *, now: datetime, gone: bool) -> None:
        uid, news = manifest["metadata"]["uid"], _news_of(manifest)
        if not gone and self.told.get(uid) == news:
            return
        super().seen(manifest, now=now, gone=gone)
        if gone:
            self.told.pop(uid, None)
        else:
            self.told[uid] = news


def _news_of(manifest: Mapping[str, Any]) -> str:
    """The spec's generation, the conditions without their times and texts, and what a scaler wants."""
    status = manifest.get("status") or {}
    conditions = [
        (each.get("type"), each.get("status"), each.get("reason")) for each in status.get("conditions") or ()
    ]
    wanted = [status.get(name) for name in ("currentReplicas", "desiredReplicas", "hpaName")]
    metadata = manifest["metadata"]
    return repr(
        (metadata.get("generation"), metadata.get("deletionTimestamp"), sorted(conditions, key=repr), wanted)
    )
