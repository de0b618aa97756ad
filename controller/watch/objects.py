"""The watcher's rows of the portal's own objects, and the workloads that their changes wake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction
from typing_extensions import override

from cluster.client import ClusterClient
from cluster.kinds import ObjectRef, ResourceKind
from controller import wakeups
from controller.reconcile.sightings import see_ends, still_there
from controller.watch.sinks import lacking
from workloads.models import ObjectRecord
from workloads.observations import forget_later, latest_version, news, record_objects
from workloads.strays import forget_strays, record_stray, workloads_of


@dataclass(frozen=True)
class ObjectSink:
    kind: ResourceKind

    def seen(
        self, manifests: Sequence[Mapping[str, Any]], *, cluster: str, now: datetime, gone: bool
    ) -> None:
        self._record(manifests, cluster=cluster, as_of="", now=now, gone=gone)

    def listed(self, page: Sequence[Mapping[str, Any]], *, cluster: str, as_of: str, now: datetime) -> None:
        self._record(news(ObjectRecord, page), cluster=cluster, as_of=as_of, now=now, gone=False)

    def _record(
        self, manifests: Sequence[Mapping[str, Any]], *, cluster: str, as_of: str, now: datetime, gone: bool
    ) -> None:
        kind = {"apiVersion": self.kind.api_version, "kind": self.kind.kind}
        owners = zip(manifests, workloads_of(manifests), strict=True)
        own = []
        for manifest, workload in owners:
            if workload is None:
                record_stray({**kind, **manifest}, cluster=cluster, now=now, gone=gone)
            else:
                own.append(({**kind, **manifest}, workload))
        with transaction.atomic():
            # Pods and usage before workloads, as where pods are seen.
            see_ends(own, now=now)
            # Same lock order as a worker that made the object: it holds the workload when it writes the object's row.
            wakeups.wake_workloads((workload for _, workload in own), now=now)
            record_objects(own, cluster=cluster, now=now, gone=gone, as_of=as_of)

    def reached(self, *, cluster: str) -> str:
        own = {"api_version": self.kind.api_version, "kind": self.kind.kind}
        return latest_version(ObjectRecord.objects.of(cluster).filter(**own))

    def went_back(self, *, cluster: str, version: str) -> None:
        """What was deleted since then may be there again: a row is gone anew when a read by name says so."""
        own = {"api_version": self.kind.api_version, "kind": self.kind.kind}
        forget_later(ObjectRecord.objects.of(cluster).filter(**own), version=version, gone_at=None)

    def forget_absent(
        self, client: ClusterClient, present: set[str], *, as_of: str = "", now: datetime
    ) -> None:
        # Two API groups may have a kind of the same name, of which only one is served.
        own = {"api_version": self.kind.api_version, "kind": self.kind.kind}
        forget_strays(**own, cluster=client.cluster, present=present)
        there = ObjectRecord.objects.of(client.cluster).filter(gone_at__isnull=True, **own)
        for record in lacking(there, present).select_related("workload__team"):
            ref = ObjectRef(record.api_version, record.kind, record.namespace, record.name)
            if not still_there(client, ref, record.uid):
                ObjectRecord.objects.filter(pk=record.pk).update(gone_at=now)
                wakeups.wake_workload(record.workload, now=now)


@dataclass(frozen=True)
class CompanionSink(ObjectSink):
    """Companions of primaries, whose status matters. A scaler writes measurements all the time; only a change that
    users see sends a wake-up.
    """

    last_news: dict[str, str] = field(default_factory=dict)

    @override
    def seen(
        self, manifests: Sequence[Mapping[str, Any]], *, cluster: str, now: datetime, gone: bool
    ) -> None:
        news = {manifest["metadata"]["uid"]: _news_of(manifest) for manifest in manifests}
        changed = {uid for uid, now_said in news.items() if gone or self.last_news.get(uid) != now_said}
        if changed:
            told = [item for item in manifests if item["metadata"]["uid"] in changed]
            super().seen(told, cluster=cluster, now=now, gone=gone)
        if gone:
            for uid in changed:
                self.last_news.pop(uid, None)
        else:
            self.last_news.update(news)

    @override
    def listed(self, page: Sequence[Mapping[str, Any]], *, cluster: str, as_of: str, now: datetime) -> None:
        super().listed(page, cluster=cluster, as_of=as_of, now=now)
        self.last_news.update({item["metadata"]["uid"]: _news_of(item) for item in page})


def _news_of(manifest: Mapping[str, Any]) -> str:
    """The relevant status: spec generation, conditions without times and texts, and the scaler's desired replicas."""
    status = manifest.get("status") or {}
    conditions = [
        (condition.get("type"), condition.get("status"), condition.get("reason"))
        for condition in status.get("conditions") or ()
    ]
    wanted = [status.get(name) for name in ("currentReplicas", "desiredReplicas", "hpaName")]
    metadata = manifest["metadata"]
    return repr(
        (metadata.get("generation"), metadata.get("deletionTimestamp"), sorted(conditions, key=repr), wanted)
    )
