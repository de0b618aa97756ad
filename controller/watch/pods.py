"""The watcher's handling of the portal's own pods: rows, usage, logs, and wake-ups of their workloads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from cluster.client import ClusterClient
from controller import wakeups
from controller.reconcile.sightings import absent_pods, miss_pods, see_pods
from controller.watch.capacity import foreign_use_changed
from controller.watch.sinks import lacking
from foundation.crashpoints import crash_point
from logs.collector import LogCollector
from workloads.models import PodRecord
from workloads.observations import PodSeen, forget_later, latest_version, news, record_foreign_pod
from workloads.strays import forget_strays, record_stray, workloads_of


@dataclass(frozen=True)
class PodSink:
    logs: LogCollector

    def seen(
        self, manifests: Sequence[Mapping[str, Any]], *, cluster: str, now: datetime, gone: bool
    ) -> None:
        self._record(manifests, cluster=cluster, as_of="", now=now, gone=gone)

    def listed(self, page: Sequence[Mapping[str, Any]], *, cluster: str, as_of: str, now: datetime) -> None:
        self._record(news(PodRecord, page), cluster=cluster, as_of=as_of, now=now, gone=False)

    def _record(
        self, manifests: Sequence[Mapping[str, Any]], *, cluster: str, as_of: str, now: datetime, gone: bool
    ) -> None:
        own = []
        for manifest, workload in zip(manifests, workloads_of(manifests), strict=True):
            if workload is None:
                # It has the portal's label but belongs to no workload: its resources are in use all the same.
                pod = {"apiVersion": "v1", "kind": "Pod", **manifest}
                record_stray(pod, cluster=cluster, now=now, gone=gone)
                nodes = record_foreign_pod(pod, cluster=cluster, now=now, gone=gone)
                foreign_use_changed(nodes, cluster=cluster, now=now)
            else:
                own.append(PodSeen(manifest, workload))
        with transaction.atomic():
            rows = see_pods(own, cluster=cluster, now=now, gone=gone, as_of=as_of)
            wakeups.wake_workloads((row.workload for row in rows), now=now)
        crash_point("usage-recorded")
        self._tell(rows)

    def _tell(self, rows: Iterable[PodRecord]) -> None:
        for row in rows:
            self.logs.pod_changed(row)

    def reached(self, *, cluster: str) -> str:
        return latest_version(PodRecord.objects.of(cluster))

    def went_back(self, *, cluster: str, version: str) -> None:
        forget_later(PodRecord.objects.of(cluster), version=version)

    def forget_absent(
        self, client: ClusterClient, present: set[str], *, as_of: str = "", now: datetime
    ) -> None:
        forget_strays(cluster=client.cluster, api_version="v1", kind="Pod", present=present)
        there = PodRecord.objects.of(client.cluster).filter(gone_at__isnull=True)
        for row in lacking(there, present):
            absent = absent_pods(client, [row])
            with transaction.atomic():
                gone = miss_pods(absent, as_of=as_of, now=now)
                wakeups.wake_workloads((record.workload for record in gone), now=now)
            self._tell(gone)
