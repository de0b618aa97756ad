"""list + watch per kind → rows → wake-ups. Restartable at any moment: rows are upserts, a list repairs all.

One thread per kind, each with its own connection to PostgreSQL. What is known is as old as
`WatchCursor.seen_at` says; a half-open connection is noticed because bookmarks stop coming.
"""

from __future__ import annotations

import logging
import random
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from django.db import DatabaseError, InterfaceError, OperationalError, close_old_connections
from typing_extensions import override

from cluster import kinds
from cluster.client import ClusterClient, get_client
from cluster.errors import ClusterError, ObjectNotFound
from cluster.kinds import ObjectRef, ResourceKind
from cluster.labels import selector
from cluster.watch import WatchExpired, watch_once
from controller import wakeups
from controller.adapters import adapters
from controller.log_collector import LogCollector
from costs.services import record_usage
from foundation import clock, heartbeats
from foundation.crashpoints import crash_point
from workloads.models import NodeRecord, ObjectRecord, PodRecord, WatchCursor
from workloads.observations import record_node, record_object, record_pod, workload_of

logger = logging.getLogger(__name__)

BACKOFF_SECONDS_MAX = 30.0
CURSOR_EVERY_SECONDS = 5
HEARTBEAT_SECONDS = 10


class Sink(Protocol):
    """What is done with the objects of one kind."""

    def seen(self, manifest: Mapping[str, Any], *, now: datetime, gone: bool) -> None:
        """Record one object."""
        ...

    def forget_absent(self, client: ClusterClient, present: set[str], *, now: datetime) -> None:
        """After a whole list: what the rows know and the list does not, once a read by name agrees."""
        ...


@dataclass(frozen=True)
class PodSink:
    logs: LogCollector

    def seen(self, manifest: Mapping[str, Any], *, now: datetime, gone: bool) -> None:
        workload = workload_of(manifest)
        if workload is None:
            return
        record = record_pod(manifest, workload=workload, now=now, gone=gone)
        crash_point("watch-recorded")
        record_usage(record, now=now)
        crash_point("usage-recorded")
        self.logs.pod_changed(record)
        wakeups.wake_workload(workload, now=now)

    def forget_absent(self, client: ClusterClient, present: set[str], *, now: datetime) -> None:
        rows = PodRecord.objects.filter(gone_at__isnull=True).exclude(uid__in=present)
        for record in rows.select_related("workload__flavor", "workload__team"):
            if _still_there(client, ObjectRef("v1", "Pod", record.namespace, record.name), record.uid):
                continue
            PodRecord.objects.filter(pk=record.pk, gone_at__isnull=True).update(gone_at=now, ready=False)
            record.refresh_from_db()
            record_usage(record, now=now)
            self.logs.pod_changed(record)
            wakeups.wake_workload(record.workload, now=now)


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
        rows = ObjectRecord.objects.filter(gone_at__isnull=True, kind=self.kind.kind).exclude(uid__in=present)
        for record in rows.select_related("workload__team"):
            ref = ObjectRef(record.api_version, record.kind, record.namespace, record.name)
            if not _still_there(client, ref, record.uid):
                ObjectRecord.objects.filter(pk=record.pk).update(gone_at=now)
                wakeups.wake_workload(record.workload, now=now)


@dataclass(frozen=True)
class NodeSink:
    def seen(self, manifest: Mapping[str, Any], *, now: datetime, gone: bool) -> None:
        record_node(manifest, now=now, gone=gone)

    def forget_absent(self, client: ClusterClient, present: set[str], *, now: datetime) -> None:
        for record in NodeRecord.objects.filter(gone_at__isnull=True).exclude(uid__in=present):
            if not _still_there(client, ObjectRef("v1", "Node", "", record.name), record.uid):
                NodeRecord.objects.filter(pk=record.pk).update(gone_at=now, ready=False)


def _still_there(client: ClusterClient, ref: ObjectRef, uid: str) -> bool:
    try:
        return bool(client.get(ref)["metadata"]["uid"] == uid)
    except ObjectNotFound:
        return False


class KindWatcher(threading.Thread):
    """Follows one kind until `stop` is set."""

    def __init__(
        self,
        *,
        kind: ResourceKind,
        sink: Sink,
        client: Callable[[], ClusterClient],
        stop: threading.Event,
        own_only: bool,
    ) -> None:
        super().__init__(name=f"watch-{kind.plural}", daemon=True)
        self.kind = kind
        self.sink = sink
        self.client = client
        self.stopping = stop
        self.label_selector = selector() if own_only else ""
        self.resource_version = ""
        self.failures = 0
        self._written_at: datetime | None = None

    @override
    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                self.follow()
                self.failures = 0
            except WatchExpired:
                logger.info("watch.expired", extra={"kind": self.kind.kind})
                self.resource_version = ""
            except (ClusterError, DatabaseError) as error:
                self._rest(error)
            finally:
                close_old_connections()

    def follow(self) -> None:
        """List if there is no point to resume from, then watch until the server ends it."""
        client = self.client()
        if not self.resource_version:
            self.relist(client)
        events = 0
        for event in watch_once(
            client, self.kind, resource_version=self.resource_version, label_selector=self.label_selector
        ):
            if self.stopping.is_set():
                return
            events += 1
            now = clock.now()
            if event.type != "BOOKMARK":
                self._seen(event.object, now=now, gone=event.type == "DELETED")
            self.resource_version = event.resource_version
            self.failures = 0
            self._write_cursor(now)
        if not events:
            # A server that ends every watch at once must not be asked in a busy loop.
            self.stopping.wait(1.0)

    def relist(self, client: ClusterClient) -> None:
        """Bring all rows of the kind up to date, and take the list's version as the point to watch from."""
        listing = client.list(self.kind, label_selector=self.label_selector)
        for item in listing.items:
            self._seen(item, now=clock.now(), gone=False)
        now = clock.now()
        self.sink.forget_absent(client, {item["metadata"]["uid"] for item in listing.items}, now=now)
        self.resource_version = listing.resource_version
        WatchCursor.objects.update_or_create(
            kind=self.kind.kind,
            defaults={"resource_version": self.resource_version, "listed_at": now, "seen_at": now},
        )

    def _seen(self, manifest: Mapping[str, Any], *, now: datetime, gone: bool) -> None:
        """Record one object. One that cannot be recorded must not keep all others from being seen."""
        try:
            self.sink.seen(manifest, now=now, gone=gone)
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            name = manifest.get("metadata", {}).get("name", "")
            logger.exception("watch.object_skipped", extra={"kind": self.kind.kind, "object": name})

    def _write_cursor(self, now: datetime) -> None:
        if self._written_at and (now - self._written_at).total_seconds() < CURSOR_EVERY_SECONDS:
            return
        self._written_at = now
        WatchCursor.objects.filter(kind=self.kind.kind).update(
            resource_version=self.resource_version, seen_at=now
        )

    def _rest(self, error: Exception) -> None:
        wait = min(BACKOFF_SECONDS_MAX, 0.5 * 2**self.failures) * random.uniform(0.5, 1.0)  # noqa: S311 (jitter)
        self.failures = min(self.failures + 1, 8)
        logger.warning(
            "watch.broken", extra={"kind": self.kind.kind, "error": str(error), "wait_seconds": wait}
        )
        self.stopping.wait(wait)


class Watcher:
    """All watches of this process, and the log collector beside them."""

    def __init__(self, client: Callable[[], ClusterClient]) -> None:
        self.stopping = threading.Event()
        self.logs = LogCollector(client)
        sinks: list[tuple[ResourceKind, Sink, bool]] = [
            (kinds.NODE, NodeSink(), False),
            (kinds.POD, PodSink(self.logs), True),
            *((adapter.primary, ObjectSink(adapter.primary), True) for adapter in adapters()),
        ]
        self.threads = [
            KindWatcher(kind=kind, sink=sink, client=client, stop=self.stopping, own_only=own_only)
            for kind, sink, own_only in sinks
        ]

    def start(self) -> None:
        self.logs.start()
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        self.stopping.set()
        self.logs.stop()

    def run(self) -> None:
        """Beat until stopped; a watch thread that has died ends the process, so that it is started anew."""
        self.start()
        while not self.stopping.wait(HEARTBEAT_SECONDS):
            dead = [thread.name for thread in self.threads if not thread.is_alive()]
            if dead:
                self.stop()
                raise RuntimeError(f"These watches died: {', '.join(dead)}.")
            close_old_connections()
            heartbeats.beat(process="watcher", now=clock.now())


def run_forever() -> None:
    """Watch until SIGTERM: the body of `manage.py watch`."""
    watcher = Watcher(get_client)
    signal.signal(signal.SIGTERM, lambda *_: watcher.stop())
    watcher.run()
