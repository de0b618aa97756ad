"""The watcher: list + watch per kind → rows → wake-ups. Restartable at any time: rows are upserted, a list repairs all.

One thread per kind, each with its own connection to PostgreSQL. What is known is as old as
`WatchCursor.seen_at` says; a half-open connection is noticed because the server does not end a watch when asked to.
"""

from __future__ import annotations

import logging
import random
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import Error, InterfaceError, OperationalError, close_old_connections
from typing_extensions import override

from cluster import kinds, versions
from cluster.client import ClusterClient, Listing, get_client
from cluster.errors import ClusterError, ObjectNotFound
from cluster.kinds import ObjectRef, ResourceKind
from cluster.labels import MANAGED_BY, MANAGER, selector
from cluster.watch import WatchEvent, WatchExpired, watch_batches
from controller.reconcile.adapters import adapters
from controller.reconcile.sightings import standing_as
from controller.watch.capacity import ForeignPodSink, NodePoolSink, NodeSink
from controller.watch.events import EventSink
from controller.watch.objects import CompanionSink, ObjectSink
from controller.watch.pods import PodSink
from controller.watch.sinks import Sink
from controller.watch.volume_claims import ClaimSink
from foundation import clock, heartbeats, outages
from foundation.database import is_missed
from logs.collector import LogCollector
from workloads.models import WatchCursor

logger = logging.getLogger(__name__)

BACKOFF_SECONDS_MAX = 30.0
CURSOR_EVERY_SECONDS = 5
HEARTBEAT_SECONDS = 10
WATCH_SECONDS = 20
"""When the server is asked to end a watch, which then begins again where it stood."""
SILENT_SECONDS = 28.0
"""Longer than a watch lasts, so that one which is silent for so long is cut off, although nobody was told."""
TOO_SHORT_SECONDS = 1.0
"""A watch that ends sooner is not begun again at once: that would be a busy loop."""
ASKED_TO_WAIT_SECONDS_MAX = 120.0
"""However long a server asks to be left alone."""
UNSERVED_SECONDS = 60.0
"""How long a kind that the API server does not serve is left alone."""


@dataclass(frozen=True)
class WatchScope:
    """Which objects of a kind are followed; `name` is the cursor's name if one kind is followed twice."""

    label_selector: str = ""
    field_selector: str = ""
    name: str = ""
    optional: bool = False
    """Whether the API server may not serve the kind at all."""
    told_only: bool = False
    """Whether its objects are messages: no bookmark tells how old they are, so that nothing is as old as their watch."""


EVERY = WatchScope()
OWN = WatchScope(label_selector=selector())
# The exact complement of OWN: a pod with only some of the portal's labels must be in one of the two.
FOREIGN = WatchScope(
    label_selector=f"{MANAGED_BY}!={MANAGER}",
    field_selector="spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed",
    name="ForeignPod",
)
WHERE_SERVED = WatchScope(optional=True)
TOLD = WatchScope(told_only=True)


WHERE_THERE = (*kinds.POD_GROUPS.values(), kinds.POD_MONITOR)
"""What is made only where it is served: groups that a gang scheduler keeps together, and what is to be scraped."""


def _own(kind: ResourceKind) -> WatchScope:
    """The scope of the portal's own objects of a kind; an optional kind only where it is served."""
    return OWN if kind in kinds.CORE else WatchScope(selector(), name=kind.address, optional=True)


class KindWatcher(threading.Thread):
    """Follows one kind until `stop` is set."""

    def __init__(
        self,
        *,
        kind: ResourceKind,
        sink: Sink,
        client: Callable[[], ClusterClient],
        stop: threading.Event,
        scope: WatchScope,
    ) -> None:
        self.cursor = scope.name or kind.kind
        super().__init__(name=f"watch-{scope.name.lower() or kind.plural}", daemon=True)
        self.kind = kind
        self.scope = scope
        self.sink = sink
        self.client = client
        self.stopping = stop
        self.resource_version = ""
        self.reached = ""
        """The latest version that is known; a server whose own is older was set back."""
        self.failures = 0
        self.expired = 0
        """How often in a row its version was too old, without an event in between."""
        self._written_at: datetime | None = None

    @override
    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                self.follow()
                self.failures = 0
            except WatchExpired:
                logger.info("watch.expired", extra={"kind": self.cursor})
                self.resource_version = ""
                self._rest_before_listing()
            except ObjectNotFound as error:
                # The kind itself is gone: its API may come back with other objects.
                self.resource_version = ""
                self._rest(error)
            except (ClusterError, Error) as error:
                self._rest(error)
            finally:
                close_old_connections()

    def follow(self) -> None:
        """List if there is no resource version to resume from, then watch until the server ends the watch."""
        client = self.client()
        if not self.resource_version:
            if not self._served(client):
                self.stopping.wait(UNSERVED_SECONDS)
                return
            self.relist(client)
            if self.stopping.is_set():
                return
        began = time.monotonic()
        for events in watch_batches(
            client,
            self.kind,
            resource_version=self.resource_version,
            label_selector=self.scope.label_selector,
            field_selector=self.scope.field_selector,
            timeout_seconds=WATCH_SECONDS,
            read_timeout_seconds=SILENT_SECONDS,
        ):
            if self.stopping.is_set():
                return
            now = clock.now()
            self._told(client, events, now=now)
            for event in events:
                self._reach(event)
            self.failures = self.expired = 0
            self._write_cursor(client.cluster, now)
        lasted = time.monotonic() - began
        if lasted >= WATCH_SECONDS / 2:
            # The server has ended it as it was asked to: until then nothing happened that was not told.
            self._write_cursor(client.cluster, clock.now())
        if lasted < TOO_SHORT_SECONDS:
            self.stopping.wait(TOO_SHORT_SECONDS)

    def _told(self, client: ClusterClient, events: Sequence[WatchEvent], *, now: datetime) -> None:
        """Record what a batch tells; of an object that it names more than once, only the last."""
        last = {_uid(event.object): event for event in events if event.type != "BOOKMARK"}
        for event in last.values():
            if event.type == "DELETED":
                self._left(client, event.object, now=now)
        there = [event.object for event in last.values() if event.type != "DELETED"]
        self._seen(there, cluster=client.cluster, now=now, gone=False)

    def _reach(self, event: WatchEvent) -> None:
        """Note how far the watch has come. A bookmark tells where the server stands: one that is behind was set back,
        and would be silent until it had come as far again.
        """
        if versions.is_older(event.resource_version, than=self.resource_version):
            if event.type == "BOOKMARK":
                raise WatchExpired("the cluster was set back to an older state")
            return
        self.resource_version = self.reached = event.resource_version

    def _served(self, client: ClusterClient) -> bool:
        """Whether the API serves the kind; if it no longer does, its objects are marked gone."""
        if not self.scope.optional or (self.kind.api_version, self.kind.kind) in client.served_kinds():
            return True
        self.sink.forget_absent(client, set(), now=clock.now())
        # A cursor that no longer moves would look like a stalled watch.
        WatchCursor.objects.of(client.cluster).filter(kind=self.cursor).delete()
        return False

    def relist(self, client: ClusterClient) -> None:
        """Update all rows of the kind from a list, and watch from the list's resource version.

        Page by page: only one page and the UIDs are in memory.
        """
        present: set[str] = set()
        version = ""
        reached = self.reached or self._reached_before(client.cluster)
        pages = client.pages(
            self.kind, label_selector=self.scope.label_selector, field_selector=self.scope.field_selector
        )
        for page in pages:
            if self.stopping.is_set():
                return
            if not version and versions.is_older(page.resource_version, than=reached):
                logger.warning(
                    "watch.went_back", extra={"kind": self.cursor, "version": page.resource_version}
                )
                self.sink.went_back(cluster=client.cluster, version=page.resource_version)
            self._listed(page, client.cluster)
            present |= {item["metadata"]["uid"] for item in page.items}
            version = page.resource_version
        now = clock.now()
        self.sink.forget_absent(client, present, as_of=version, now=now)
        self.resource_version = self.reached = version
        if self.scope.told_only:
            return
        WatchCursor.objects.update_or_create(
            cluster=client.cluster,
            kind=self.cursor,
            defaults={"resource_version": self.resource_version, "listed_at": now, "seen_at": now},
        )

    def _reached_before(self, cluster: str) -> str:
        """The version that the process before this one had come to: what it wrote down now and then, or a row's."""
        rows = WatchCursor.objects.of(cluster).filter(kind=self.cursor)
        written = rows.values_list("resource_version", flat=True).first() or ""
        return versions.latest(self.sink.reached(cluster=cluster) or written, written)

    def _listed(self, page: Listing, cluster: str) -> None:
        """Record a page in one go; if that fails, each object separately."""
        as_of, now = page.resource_version, clock.now()
        self._together(
            page.items, lambda items: self.sink.listed(items, cluster=cluster, as_of=as_of, now=now)
        )

    def _left(self, client: ClusterClient, manifest: Mapping[str, Any], *, now: datetime) -> None:
        """Record one that has left what is watched: it is gone, or somebody has taken the portal's mark from it."""
        metadata = manifest["metadata"]
        if self.scope.label_selector == OWN.label_selector and not metadata.get("deletionTimestamp"):
            ref = ObjectRef(
                self.kind.api_version, self.kind.kind, metadata.get("namespace", ""), metadata["name"]
            )
            standing = standing_as(client, ref, metadata["uid"])
            if standing is not None:
                self._seen([standing], cluster=client.cluster, now=now, gone=False)
                return
        self._seen([manifest], cluster=client.cluster, now=now, gone=True)

    def _seen(
        self, manifests: Sequence[Mapping[str, Any]], *, cluster: str, now: datetime, gone: bool
    ) -> None:
        self._together(manifests, lambda items: self.sink.seen(items, cluster=cluster, now=now, gone=gone))

    def _together(
        self,
        items: Sequence[Mapping[str, Any]],
        record: Callable[[Sequence[Mapping[str, Any]]], None],
    ) -> None:
        """Record them in one go; if that fails, each separately: one must not keep others from being recorded."""
        if not items:
            return
        try:
            record(items)
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            if len(items) == 1:
                name = (items[0].get("metadata") or {}).get("name", "")
                logger.exception("watch.object_skipped", extra={"kind": self.cursor, "object": name})
                return
            logger.warning("watch.one_by_one", exc_info=True, extra={"kind": self.cursor})
            for item in items:
                self._together([item], record)

    def _write_cursor(self, cluster: str, now: datetime) -> None:
        if self.scope.told_only or (
            self._written_at and (now - self._written_at).total_seconds() < CURSOR_EVERY_SECONDS
        ):
            return
        self._written_at = now
        WatchCursor.objects.of(cluster).filter(kind=self.cursor).update(
            resource_version=self.resource_version, seen_at=now
        )

    def _rest(self, error: Exception) -> None:
        wait = min(BACKOFF_SECONDS_MAX, 0.5 * 2**self.failures) * random.uniform(0.5, 1.0)  # noqa: S311 (jitter)
        asked = getattr(error, "retry_after", None) or 0.0
        wait = max(wait, min(asked, ASKED_TO_WAIT_SECONDS_MAX))
        self.failures = min(self.failures + 1, 8)
        if not is_missed(error):
            logger.warning(
                "watch.broken", extra={"kind": self.cursor, "error": str(error), "wait_seconds": wait}
            )
        self.stopping.wait(wait)

    def _rest_before_listing(self) -> None:
        """The first list comes at once; a server whose own list is too old for it is not asked in a busy loop."""
        if self.expired:
            self.stopping.wait(min(BACKOFF_SECONDS_MAX, 0.5 * 2**self.expired))
        self.expired = min(self.expired + 1, 8)


def _uid(manifest: Mapping[str, Any]) -> str | int:
    """What is not even an object is told apart from every other, and skipped where it is recorded."""
    return (manifest.get("metadata") or {}).get("uid") or id(manifest)


class Watcher:
    """All watches of this process, and the log collector."""

    def __init__(self, client: Callable[[], ClusterClient]) -> None:
        self.stopping = threading.Event()
        self.logs = LogCollector(client)
        # Several workload kinds may use the same kind of object, which is watched once.
        primaries = dict.fromkeys(kind for adapter in adapters() for kind in adapter.primaries)
        companions = dict.fromkeys(kind for adapter in adapters() for kind in adapter.companions)
        sinks: list[tuple[ResourceKind, Sink, WatchScope]] = [
            (kinds.NODE, NodeSink(), EVERY),
            (kinds.POD, PodSink(self.logs), OWN),
            (kinds.POD, ForeignPodSink(), FOREIGN),
            (kinds.NODE_POOL, NodePoolSink(), WHERE_SERVED),
            (kinds.CLAIM, ClaimSink(), EVERY),
            (kinds.EVENT, EventSink(), TOLD),
            *((kind, ObjectSink(kind), _own(kind)) for kind in primaries),
            *((kind, CompanionSink(kind), _own(kind)) for kind in companions),
            *((kind, ObjectSink(kind), _own(kind)) for kind in WHERE_THERE),
        ]
        self.threads = [
            KindWatcher(kind=kind, sink=sink, client=client, stop=self.stopping, scope=scope)
            for kind, sink, scope in sinks
        ]

    def start(self) -> None:
        self.logs.start()
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        self.stopping.set()
        self.logs.stop()

    def run(self) -> None:
        """Send heartbeats until stopped; exits the process if a watch thread has died, so that it is restarted."""
        self.start()
        _beat()
        while not self.stopping.wait(HEARTBEAT_SECONDS):
            dead = [thread.name for thread in self.threads if not thread.is_alive()]
            if dead:
                self.stop()
                raise RuntimeError(f"These watches died: {', '.join(dead)}.")
            _beat()


def _beat() -> None:
    """Record one heartbeat; tolerates an unavailable database, as every watch does: missed events are listed again."""
    close_old_connections()
    try:
        heartbeats.beat(process="watcher", now=clock.now())
    except Error as error:
        if not is_missed(error):
            logger.warning("watch.heartbeat_failed", extra={"error": str(error)})
    else:
        outages.database.answered()


def run_forever() -> None:
    """Watch until SIGTERM: the body of `manage.py watch`."""
    watcher = Watcher(get_client)
    signal.signal(signal.SIGTERM, lambda *_: watcher.stop())
    watcher.run()
