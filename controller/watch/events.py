"""The watcher's copies of Kubernetes' events; nobody is woken by them, as what they tell is in an object's status too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from cluster.client import ClusterClient
from foundation.digits import whole_number
from teams.queries import namespaces_of_teams
from workloads.models import EventRecord
from workloads.pods.evidence import TEXT_LENGTH_MAX
from workloads.pods.pod_facts import parse_time

NODE: Final = "Node"
_CHANGES: Final = ["message", "count", "first_at", "last_at"]


@dataclass(frozen=True)
class EventSink:
    """Copies what is said. That an event is gone means nothing: the API server deletes each after an hour."""

    def seen(
        self, manifests: Sequence[Mapping[str, Any]], *, cluster: str, now: datetime, gone: bool
    ) -> None:
        if not gone:
            record_events(manifests, cluster=cluster, now=now)

    def listed(self, page: Sequence[Mapping[str, Any]], *, cluster: str, as_of: str, now: datetime) -> None:
        record_events(page, cluster=cluster, now=now)

    def forget_absent(
        self, client: ClusterClient, present: set[str], *, as_of: str = "", now: datetime
    ) -> None: ...

    def reached(self, *, cluster: str) -> str:
        return ""

    def went_back(self, *, cluster: str, version: str) -> None:
        """What was said was said."""


def record_events(manifests: Sequence[Mapping[str, Any]], *, cluster: str, now: datetime) -> int:
    """Write those that are of a team's namespace or warn of a node, where their rows say less; returns how many."""
    rows = {row.uid: row for row in _wanted(manifests, cluster=cluster, now=now)}
    if not rows:
        return 0
    kept = EventRecord.objects.filter(uid__in=list(rows)).values_list("uid", "count", "last_at")
    for uid, count, last_at in kept:
        # One that comes late, or again, makes nothing younger or fewer.
        if (count, last_at) >= (rows[uid].count, rows[uid].last_at):
            del rows[uid]
    EventRecord.objects.bulk_create(
        rows.values(), update_conflicts=True, unique_fields=["uid"], update_fields=_CHANGES
    )
    return len(rows)


def _wanted(manifests: Sequence[Mapping[str, Any]], *, cluster: str, now: datetime) -> Iterable[EventRecord]:
    rows = [_row(manifest, cluster=cluster, now=now) for manifest in manifests]
    namespaces = {row.namespace for row in rows if row.namespace}
    own = namespaces_of_teams(namespaces) if namespaces else frozenset()
    return [
        row
        for row in rows
        if (row.object_kind == NODE and row.warning) or (row.namespace and row.namespace in own)
    ]


def _row(manifest: Mapping[str, Any], *, cluster: str, now: datetime) -> EventRecord:
    about, series = manifest.get("involvedObject") or {}, manifest.get("series") or {}
    metadata = manifest["metadata"]
    first = parse_time(
        manifest.get("firstTimestamp") or manifest.get("eventTime") or metadata.get("creationTimestamp")
    )
    last = parse_time(series.get("lastObservedTime") or manifest.get("lastTimestamp")) or first
    source = manifest.get("reportingComponent") or (manifest.get("source") or {}).get("component")
    kind = str(about.get("kind") or "")[:63]
    return EventRecord(
        cluster=cluster,
        uid=metadata["uid"],
        namespace="" if kind == NODE else str(about.get("namespace") or "")[:63],
        object_kind=kind,
        object_name=str(about.get("name") or "")[:253],
        object_uid=str(about.get("uid") or "")[:64],
        reason=str(manifest.get("reason") or "")[:128],
        message=str(manifest.get("message") or "").replace("\x00", "")[:TEXT_LENGTH_MAX],
        warning=manifest.get("type") == "Warning",
        source=str(source or "")[:128],
        count=max(1, whole_number(str(series.get("count") or manifest.get("count") or 1)) or 1),
        first_at=first or now,
        last_at=last or now,
    )
