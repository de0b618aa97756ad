"""Follows the logs of running pods into the log store, inside the watcher's process.

One manager thread owns all state and writes; a few readers fetch (first, last, and to poll); each followed stream has a
thread that only buffers. Each pod cycles: fetch what there is → follow its running containers while fewer than 200
streams are open, else fetch again after some seconds → when a stream ends, fetch. All state is rebuilt from the rows
after a restart, so that nothing here needs to survive.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from django.db import Error, IntegrityError, close_old_connections, connection
from django.db.models import Exists, OuterRef, Q, QuerySet

from cluster.client import ClusterClient
from cluster.errors import ClusterError
from foundation import clock
from foundation.database import is_missed
from logs import store
from logs.fetch import Fetched, fetch_pod
from logs.store import NO_CONTAINER, ContainerLog
from logs.streams import Stream
from workloads.models import LogChunk, PodRecord
from workloads.pods.pod_facts import ENDED

logger = logging.getLogger(__name__)

STREAMS_MAX: Final = 200
READERS: Final = 3
TICK_SECONDS: Final = 0.2
FLUSH_SECONDS: Final = 1.0
POLL_SECONDS: Final = 5.0
PENDING_POLL_SECONDS: Final = 15.0
RESYNC_SECONDS: Final = 30.0
# Avoids a busy loop on a server that ends every stream at once.
REFOLLOW_SECONDS: Final = 1.0
BACKOFF_SECONDS_MAX: Final = 30.0
STOP_SECONDS: Final = 10.0
# Pods whose end was missed longer ago than this are no longer collected.
MISSED: Final = timedelta(days=1)


@dataclass(slots=True)
class _Pod:
    """The manager's state of a pod whose log is not completely stored."""

    record: PodRecord
    due_at: float = 0.0
    fetching: bool = False
    # It changed while it was being fetched: the result is from before the change.
    again: bool = False
    failures: int = 0
    followed_at: float = 0.0
    streams: list[Stream] = field(default_factory=list)

    @property
    def ending(self) -> bool:
        return self.record.gone_at is not None or self.record.phase in ENDED

    @property
    def wanted(self) -> bool:
        """Whether the pod may have written anything: it has a node, or it has ended."""
        return self.ending or self.record.scheduled_at is not None or self.record.phase == "Running"


@dataclass(frozen=True, slots=True)
class _Changed:
    record: PodRecord


@dataclass(frozen=True, slots=True)
class _Done:
    uid: str
    fetched: Fetched | None
    logs: tuple[ContainerLog, ...] = ()


class _Ended:
    """Message to the manager that a stream has ended, so that the pod is fetched now."""


class LogCollector:
    """`start` once, `pod_changed` from any thread, `stop` once."""

    def __init__(
        self,
        client: Callable[[], ClusterClient],
        *,
        streams_max: int = STREAMS_MAX,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._client = client
        self._streams_max = streams_max
        self._poll_seconds = poll_seconds
        self._inbox: queue.SimpleQueue[_Changed | _Done | _Ended] = queue.SimpleQueue()
        self._jobs: queue.SimpleQueue[PodRecord | None] = queue.SimpleQueue()
        self._pods: dict[str, _Pod] = {}
        self._stopping = threading.Event()
        self._resync_at = 0.0
        self._manager = threading.Thread(target=self._run, name="log-collector", daemon=True)
        self._readers = [
            threading.Thread(target=self._read, name=f"log-reader-{index}", daemon=True)
            for index in range(READERS)
        ]

    def start(self) -> None:
        """Start collecting, beginning with the pods in the rows."""
        for thread in (self._manager, *self._readers):
            thread.start()

    def stop(self) -> None:
        """Store what is buffered and stop; waits at most ten seconds."""
        self._stopping.set()
        for _ in self._readers:
            self._jobs.put(None)
        deadline = time.monotonic() + STOP_SECONDS
        for thread in (self._manager, *self._readers):
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))

    def pod_changed(self, record: PodRecord) -> None:
        """Report a changed pod to the manager. Returns at once."""
        self._inbox.put(_Changed(record))

    # -- the manager's thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._guarded(self._turn)
            self._guarded(self._finish)
        finally:
            connection.close()

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run a step, tolerating an unavailable database or store: buffers are kept, and streams wait when full."""
        try:
            step()
        except (Error, OSError) as error:
            if not is_missed(error):
                logger.warning("logs.store_unavailable", exc_info=True)
            connection.close()
            self._stopping.wait(1.0)

    def _turn(self) -> None:
        self._receive()
        now = time.monotonic()
        if now >= self._resync_at:
            close_old_connections()
            self._resync()
            self._resync_at = now + RESYNC_SECONDS
        for pod in list(self._pods.values()):
            try:
                self._tend(pod)
            except IntegrityError:
                # Its workload was deleted: no one can read its log any more.
                logger.warning("logs.pod_dropped", exc_info=True, extra={"pod": pod.record.name})
                self._drop(pod)

    def _receive(self) -> None:
        timeout: float | None = TICK_SECONDS
        while True:
            try:
                message = self._inbox.get(timeout=timeout) if timeout else self._inbox.get_nowait()
            except queue.Empty:
                return
            timeout = None
            if isinstance(message, _Changed):
                self._learn(message.record)
            elif isinstance(message, _Done):
                self._fetched(message)

    def _resync(self) -> None:
        """Pick up pods without an event: those from before this process started, and those whose end was missed."""
        for record in _unfinished(self._client().cluster, clock.now()):
            self._learn(record)

    def _learn(self, record: PodRecord) -> None:
        pod = self._pods.get(record.uid)
        if pod is None:
            self._pods[record.uid] = _Pod(record)
            return
        news = (record.phase, record.gone_at, record.restarts) != (
            pod.record.phase,
            pod.record.gone_at,
            pod.record.restarts,
        )
        pod.record = record
        if news:
            pod.due_at, pod.again = 0.0, pod.fetching

    def _tend(self, pod: _Pod) -> None:
        if pod.streams:
            if pod.ending or any(stream.ended for stream in pod.streams):
                self._let_go(pod)
            for stream in pod.streams:
                if stream.due(age_seconds=FLUSH_SECONDS):
                    self._flush(stream)
        if not pod.streams and not pod.fetching and pod.wanted and time.monotonic() >= pod.due_at:
            pod.fetching = True
            self._jobs.put(pod.record)

    def _flush(self, stream: Stream) -> None:
        lines = stream.peek()
        if lines:
            stream.log.append(lines, now=clock.now())
            stream.drop(len(lines))

    def _let_go(self, pod: _Pod) -> None:
        """Close the pod's streams; the next fetch reads what they have not read."""
        for stream in pod.streams:
            stream.close()
        while pod.streams:
            self._flush(pod.streams[-1])
            pod.streams.pop()
        pod.due_at = 0.0 if pod.ending else pod.followed_at + REFOLLOW_SECONDS

    def _drop(self, pod: _Pod) -> None:
        for stream in pod.streams:
            stream.close()
        self._pods.pop(pod.record.uid, None)

    def _fetched(self, done: _Done) -> None:
        pod = self._pods.get(done.uid)
        if pod is None:
            return
        pod.fetching = False
        if done.fetched is None:
            pod.failures = min(pod.failures + 1, 8)
            pod.due_at = time.monotonic() + min(BACKOFF_SECONDS_MAX, 0.5 * 2**pod.failures)
            return
        pod.failures = 0
        if done.fetched.ended:
            del self._pods[done.uid]
            return
        if pod.again:
            pod.again = False
            return
        pending = pod.record.phase == "Pending"
        pod.due_at = time.monotonic() + (PENDING_POLL_SECONDS if pending else self._poll_seconds)
        opened = sum(len(followed.streams) for followed in self._pods.values())
        if done.logs and not pod.ending and opened + len(done.logs) <= self._streams_max:
            self._follow(pod, done.logs)

    def _follow(self, pod: _Pod, logs: tuple[ContainerLog, ...]) -> None:
        client = self._client()
        pod.followed_at = time.monotonic()
        for log in logs:
            stream = Stream(
                client, log, namespace=pod.record.namespace, on_end=lambda: self._inbox.put(_Ended())
            )
            pod.streams.append(stream)
            stream.start()

    def _finish(self) -> None:
        for pod in self._pods.values():
            self._let_go(pod)

    # -- the readers' threads -----------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            while (record := self._jobs.get()) is not None and not self._stopping.is_set():
                self._inbox.put(self._fetch(record))
        finally:
            connection.close()

    def _fetch(self, record: PodRecord) -> _Done:
        try:
            close_old_connections()
            if store.is_stored(record):
                return _Done(record.uid, Fetched(ended=True))
            now = clock.now()
            fetched = fetch_pod(self._client(), record, now=now)
            if fetched.ended:
                store.mark_stored(record, now=now)
            logs = tuple(ContainerLog(store.source_of(record, container=name)) for name in fetched.running)
            for log in logs:
                log.load()
        except (ClusterError, Error, OSError) as error:
            if not is_missed(error):
                logger.warning("logs.not_fetched", extra={"pod": record.name, "error": str(error)})
            return _Done(record.uid, None)
        return _Done(record.uid, fetched, logs)


def _unfinished(cluster: str, now: datetime) -> QuerySet[PodRecord]:
    """Pods of the cluster whose logs are not completely stored, and that exist or went recently."""
    whole = LogChunk.objects.filter(pod_uid=OuterRef("uid"), container=NO_CONTAINER)
    lately = Q(gone_at__isnull=True) | Q(gone_at__gt=now - MISSED)
    pods = PodRecord.objects.of(cluster).filter(lately, ~Exists(whole))
    return pods.select_related("workload").order_by("pk")
