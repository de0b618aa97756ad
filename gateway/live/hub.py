"""Fan-out in memory: what one LISTEN connection hears goes to every stream that may see it. No I/O here."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol
from uuid import uuid4

from foundation.digits import whole_number

WAITING_MAX = 256
REMEMBERED_MAX = 2000
# A page is made, then asks for a ticket, then opens its stream: what happened in between concerns it.
PAGE_SECONDS = 10.0

PING = b": ping\n\n"
_EVENT_FIELDS = ("workload", "kind", "team", "phase", "reason")


class StreamScope(Protocol):
    """What a stream may see; see `audience.View`."""

    slugs: frozenset[str]

    def is_fresh(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Event:
    """One event as bytes of the stream, and the slug of the team that may see it. `at` is a monotonic time."""

    sequence: int
    at: float
    team: str
    frame: bytes


class Subscription:
    """One stream's queue. A consumer that lets it run full is cut off, and asks for the whole state again."""

    def __init__(self, view: StreamScope) -> None:
        self.view = view
        self.ended = asyncio.Event()
        self._waiting: deque[bytes] = deque()
        self._some = asyncio.Event()

    def offer(self, event: Event) -> None:
        """Queues the event if the stream may see it. A stream ends where that is not known: it must not miss one
        in silence.
        """
        if not self.view.is_fresh():
            self.end()
        elif event.team in self.view.slugs:
            self.put(event.frame)

    def put(self, frame: bytes) -> None:
        if len(self._waiting) >= WAITING_MAX:
            self.end()
            return
        self._waiting.append(frame)
        self._some.set()

    def end(self) -> None:
        """Ends the stream after what it is writing just now."""
        self.ended.set()
        self._some.set()

    async def frames(self, *, ping_seconds: float) -> AsyncGenerator[bytes]:
        """What there is to write, several events at once if they came at once; a ping where nothing came."""
        while not self.ended.is_set():
            try:
                async with asyncio.timeout(ping_seconds):
                    await self._some.wait()
            except TimeoutError:
                yield PING
                continue
            self._some.clear()
            if self._waiting and not self.ended.is_set():
                frames = b"".join(self._waiting)
                self._waiting.clear()
                yield frames


class Hub:
    """All event streams of the process, and the last events for those that come back."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()
        self._recent: deque[Event] = deque(maxlen=REMEMBERED_MAX)
        self._epoch = ""
        self._sequence = 0
        self.resync()

    def __len__(self) -> int:
        return len(self._subscriptions)

    def add(self, subscription: Subscription) -> None:
        self._subscriptions.add(subscription)

    def remove(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)

    def end_all(self) -> None:
        for subscription in self._subscriptions:
            subscription.end()

    def publish(self, payload: str) -> None:
        """Hands on one notification of the channel `portal_events`; anything malformed is dropped."""
        try:
            body = json.loads(payload)
            data = {name: str(body[name]) for name in _EVENT_FIELDS}
        except (ValueError, TypeError, KeyError):
            return
        self._sequence += 1
        frame = _frame("workload", json.dumps(data, separators=(",", ":")), self._id(self._sequence))
        event = Event(sequence=self._sequence, at=time.monotonic(), team=data["team"], frame=frame)
        self._recent.append(event)
        for subscription in self._subscriptions:
            subscription.offer(event)

    def resync(self) -> None:
        """Tells every stream that events may have been missed: pages then ask for the state itself."""
        self._epoch, self._sequence = uuid4().hex[:12], 0
        self._recent.clear()
        for subscription in self._subscriptions:
            subscription.put(self.resync_frame())

    def resync_frame(self) -> bytes:
        return _frame("resync", "{}", self._id(self._sequence))

    def backlog(self, last_id: str, view: StreamScope) -> bytes:
        """What a stream that saw `last_id` has missed: the events, or a resync if they are no longer known.

        A first stream ("") is told to ask again only if something happened while its page was being made.
        """
        if not last_id:
            since = time.monotonic() - PAGE_SECONDS
            return self.resync_frame() if any(event.at >= since for event in self._seen_by(view)) else b""
        epoch, _, number = last_id.partition("-")
        oldest = self._recent[0].sequence if self._recent else self._sequence + 1
        seen = whole_number(number, digits=15)
        if seen is None or epoch != self._epoch or not oldest - 1 <= seen <= self._sequence:
            return self.resync_frame()
        return b"".join(event.frame for event in self._seen_by(view) if event.sequence > seen)

    def _seen_by(self, view: StreamScope) -> list[Event]:
        return [event for event in self._recent if event.team in view.slugs]

    def _id(self, sequence: int) -> str:
        return f"{self._epoch}-{sequence}"


class LogBell:
    """Wakes the log streams of a workload when new lines were stored, and when it has moved."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}

    def add(self, workload_id: str) -> asyncio.Event:
        """An event that is set whenever the workload's log has grown; give it back to `remove`."""
        event = asyncio.Event()
        self._waiting.setdefault(workload_id, set()).add(event)
        return event

    def remove(self, workload_id: str, event: asyncio.Event) -> None:
        waiting = self._waiting.get(workload_id, set())
        waiting.discard(event)
        if not waiting:
            self._waiting.pop(workload_id, None)

    def ring(self, payload: str) -> None:
        """One notification about a workload: JSON with its id, or the bare id."""
        try:
            body = json.loads(payload)
            workload_id = str(body["workload"])
        except (ValueError, TypeError, KeyError):
            workload_id = payload.strip()
        self._set(workload_id)

    def ring_all(self) -> None:
        for workload_id in self._waiting:
            self._set(workload_id)

    def _set(self, workload_id: str) -> None:
        for event in self._waiting.get(workload_id, ()):
            event.set()


def _frame(name: str, data: str, event_id: str) -> bytes:
    return f"id: {event_id}\nevent: {name}\ndata: {data}\n\n".encode()
