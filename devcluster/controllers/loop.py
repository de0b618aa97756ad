"""A controller is woken by changes, never by polling, and reconciles one key at a time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Hashable, Iterable
from typing import Any, ClassVar

from typing_extensions import override

from devcluster.cluster import Cluster
from devcluster.errors import ApiError
from devcluster.kinds import Kind
from devcluster.objects import Obj, controller_of, key_of, name_of, namespace_of, seconds
from devcluster.store import Change

log = logging.getLogger("devcluster")
RETRY_SECONDS = 1.0


class Controller:
    """Subclasses say which keys a change concerns, and how one key is reconciled."""

    kind: ClassVar[Kind]
    """Whose namespaces and names are the keys, unless `keys` says otherwise."""
    owned: ClassVar[tuple[Kind, ...]] = ()
    """The kinds of what such an object controls: their changes concern it."""
    source: ClassVar[str]
    """The component that its Events name as their source."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.store = cluster, cluster.store
        self._dirty: dict[Hashable, None] = {}
        self._timers: dict[Hashable, asyncio.TimerHandle] = {}
        self._scheduled = False

    def keys(self, change: Change) -> Iterable[Hashable]:
        if change.kind is self.kind:
            yield key_of(change.obj)
        elif change.kind in self.owned:
            owner = controller_of(change.obj)
            if owner is not None and owner["kind"] == self.kind.name:
                yield namespace_of(change.obj), owner["name"]

    def reconcile(self, key: Any) -> float | None:
        """Bring one key forward; the result asks for another look after so many seconds."""
        obj = self.store.get(self.kind, *key)
        return None if obj is None else self.bring(obj)

    def bring(self, obj: Obj) -> float | None:
        """The same for the object of a key, while there is one."""
        raise NotImplementedError

    def event(self, obj: Obj, reason: str, message: str, *, warning: bool = False) -> None:
        """About an object of its kind."""
        self.cluster.event(self.kind, obj, reason, message, source=self.source, warning=warning)

    def make(self, kind: Kind, owner: Obj, body: Obj, suffix: str = "") -> Obj:
        """Create what `owner` wants; an Event tells of it, or of the ApiError. Reasons may have a suffix."""
        try:
            made = self.cluster.create(kind, namespace_of(owner), body)
        except ApiError as error:
            self.event(owner, f"FailedCreate{suffix}", f"Error creating: {error.message}", warning=True)
            raise
        self.event(owner, f"SuccessfulCreate{suffix}", f"Created {kind.name.lower()}: {name_of(made)}")
        return made

    def drop(self, kind: Kind, owner: Obj, obj: Obj, suffix: str = "") -> None:
        """Delete what `owner` no longer wants, and tell of it."""
        self.cluster.remove(kind, obj)
        self.event(owner, f"SuccessfulDelete{suffix}", f"Deleted {kind.name.lower()}: {name_of(obj)}")

    def expire(self, obj: Obj, ended: str, after: int | None, **options: Any) -> float | None:
        """`ttlSecondsAfterFinished`: delete it so long after its end."""
        left = None if after is None else seconds(ended) + after - time.time()
        if left is None or left > 0:
            return left
        self.cluster.remove(self.kind, obj, **options)
        return None

    def start(self) -> None:
        """Look at everything that is stored, then at every change."""
        self.store.subscribe(self._changed)
        for kind, obj in self.store.items():
            self._changed(Change(0, kind, "ADDED", obj, None))

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    def enqueue(self, key: Hashable) -> None:
        self._dirty[key] = None
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def later(self, key: Hashable, delay: float) -> None:
        """Look again after `delay`; an earlier appointment for the key stays."""
        loop = asyncio.get_running_loop()
        known = self._timers.get(key)
        if known is not None and not known.cancelled() and known.when() <= loop.time() + delay:
            return
        if known is not None:
            known.cancel()
        self._timers[key] = loop.call_later(max(delay, 0.0), self._due, key)

    def _due(self, key: Hashable) -> None:
        self._timers.pop(key, None)
        self.enqueue(key)

    def _changed(self, change: Change) -> None:
        for key in self.keys(change):
            self.enqueue(key)

    def _run(self) -> None:
        self._scheduled = False
        batch, self._dirty = self._dirty, {}
        for key in batch:
            try:
                delay = self.reconcile(key)
            except Exception:
                log.exception("%s could not reconcile %s", type(self).__name__, key)
                delay = RETRY_SECONDS
            if delay is not None:
                self.later(key, delay)


class Polling(Controller):
    """Each object of its kind is followed by a task of its own."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._tasks: dict[Hashable, asyncio.Task[None]] = {}

    def end(self, key: Hashable) -> bool:
        """Whether there was a task."""
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()
        return task is not None

    @override
    def stop(self) -> None:
        super().stop()
        for key in tuple(self._tasks):
            self.end(key)
