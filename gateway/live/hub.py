"""Fan-out in memory: what one LISTEN connection hears goes to every stream that may see it. No I/O here."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

from foundation.digits import whole_number
from gateway.followed import Followed

WAITING_MAX = 256
REMEMBERED_MAX = 2000
# A page is made, then asks for a ticket, then opens its stream: what happened in between concerns it.
PAGE_SECONDS = 10.0

PING = b": ping\n\n"
EVERYTHING: Final = Followed()
_EVENT_FIELDS = ("workload", "kind", "team", "phase", "reason")


class StreamScope(Protocol):
    """What a stream may see; see `audience.View`."""

    slugs: frozenset[str]

    def is_fresh(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Event:
    """One event as bytes of the stream, and whom it is about. `at` is a monotonic time.

    `number` is that of the last move that was told: what moved nothing, such as a new message, has none of its own.
    """

    number: int
    is_move: bool
    at: float
    team: str
    workload: str
    frame: bytes


class Subscription:
    """One stream's queue. A consumer that lets it run full is cut off, and asks for the whole state again."""

    def __init__(self, view: StreamScope, followed: Followed = EVERYTHING) -> None:
        self.view = view
        self._followed = followed
        self.ended = asyncio.Event()
        self._waiting: deque[bytes] = deque()
        self._some = asyncio.Event()

    def offer(self, event: Event) -> None:
        """Queues the event if the stream may see it. A stream ends where that is not known: it must not miss one
        in silence.
        """
        if not self.view.is_fresh():
            self.end()
        elif self.takes(event):
            self.put(event.frame)

    def takes(self, event: Event) -> bool:
        """Whether the stream may see the event and asked for it."""
        return event.team in self.view.slugs and self._followed.takes(
            team=event.team, workload=event.workload
        )

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
        self.position = 0
        """The number of the last move that was told, 0 before the first."""
        self._subscriptions: set[Subscription] = set()
        self._recent: deque[Event] = deque(maxlen=REMEMBERED_MAX)

    def __len__(self) -> int:
        return len(self._subscriptions)

    def begin_at(self, number: int) -> None:
        """The place of a process that has heard of nothing yet."""
        self.position = self.position or number

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
            facts = {name: str(body[name]) for name in _EVENT_FIELDS}
            number = int(body.get("event") or 0)
        except (ValueError, TypeError, KeyError):
            return
        self.position = number or self.position
        event = Event(
            number=self.position,
            is_move=bool(number),
            at=time.monotonic(),
            team=facts["team"],
            workload=facts["workload"],
            frame=workload_frame(facts, self.position),
        )
        self._recent.append(event)
        for subscription in self._subscriptions:
            subscription.offer(event)

    def resync(self) -> None:
        """Tells every stream that events may have been missed: their readers then ask for the state itself."""
        self._recent.clear()
        for subscription in self._subscriptions:
            subscription.put(self.resync_frame())

    def resync_frame(self) -> bytes:
        return _frame("resync", "{}", self.position)

    def backlog(self, last_id: str, subscription: Subscription) -> bytes | None:
        """What a stream that saw `last_id` has missed: the events, or a resync; None where the database has to be asked.

        A first stream ("") is told to ask again only if something happened while its page was being made.
        """
        if not last_id:
            since = time.monotonic() - PAGE_SECONDS
            recent = any(event.at >= since and subscription.takes(event) for event in self._recent)
            return self.resync_frame() if recent else b""
        seen = whole_number(last_id, digits=18)
        if seen is None:
            return self.resync_frame()
        # Notifications come in the order of the commits, so what follows a move here is what follows it everywhere.
        after = (
            index
            for index, event in enumerate(self._recent, start=1)
            if event.is_move and event.number == seen
        )
        start = next(after, None)
        if start is None:
            return None
        return b"".join(
            event.frame for event in islice(self._recent, start, None) if subscription.takes(event)
        )


class Bell:
    """Wakes who waits for news of a workload: that it has moved, or that new lines of its log were stored."""

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


def workload_frame(facts: Mapping[str, str], number: int) -> bytes:
    """One event about a workload; `number` is the stream's place then."""
    return _frame("workload", json.dumps(facts, separators=(",", ":")), number)


def log_frame(workload: str) -> bytes:
    """That there are new lines of a workload's log. It has no place of its own in the stream."""
    return f"event: log\ndata: {json.dumps({'workload': workload}, separators=(',', ':'))}\n\n".encode()


def _frame(name: str, data: str, number: int) -> bytes:
    return f"id: {number}\nevent: {name}\ndata: {data}\n\n".encode()
