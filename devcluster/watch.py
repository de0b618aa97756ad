"""Watches: a replay from the history, then live changes, with bookmarks and honest 410s."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque

from aiohttp import web

from .errors import bad_request, expired
from .kinds import Kind
from .objects import Obj
from .selectors import Selection
from .store import Change, Store

BOOKMARK_SECONDS = 30.0
# A client that comes back far behind may leave after its first lines: no more than these are made before it takes them.
LINES_AT_ONCE = 64


class Watches:
    """All open watches; `close` ends them when the server stops."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tasks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def stream(self, request: web.Request, kind: Kind, chosen: Selection) -> web.StreamResponse:
        watch = _Watch(self._store, kind, chosen, request)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        task = asyncio.create_task(watch.run(request, response))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await task
        except ConnectionResetError:
            pass  # The client went away; that is how most watches end.
        finally:
            watch.end()
            task.cancel()
        return response


class _Watch:
    def __init__(self, store: Store, kind: Kind, chosen: Selection, request: web.Request) -> None:
        query = request.query
        self._store, self._kind, self._chosen = store, kind, chosen
        self._bookmarks = query.get("allowWatchBookmarks") in {"1", "true"}
        self._deadline = time.monotonic() + float(query.get("timeoutSeconds") or 1800)
        self._initial = query.get("sendInitialEvents") == "true"
        self._queue: deque[tuple[str, Obj]] = deque()
        self._wake = asyncio.Event()
        self._over = False
        self.end = store.subscribe(self._live)
        try:
            self._start(query.get("resourceVersion", ""))
        except BaseException:
            self.end()
            raise

    def _start(self, text: str) -> None:
        if text in {"", "0"} or self._initial:
            for obj in filter(self._chosen, self._store.list(self._kind)):
                self._queue.append(("ADDED", obj))
            if self._initial:
                self._queue.append(self._bookmark({"k8s.io/initial-events-end": "true"}))
            return
        if not text.isdigit():
            raise bad_request(
                f'invalid resource version "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
            )
        version = int(text)
        if version < self._store.oldest or version > self._store.version:
            message = f"too old resource version: {version} ({self._store.oldest})"
            self._queue.append(("ERROR", expired(message).status()))
            self._over = True
            return
        for change in self._store.history:
            if change.version > version:
                self._live(change)

    def _live(self, change: Change) -> None:
        if change.kind is not self._kind:
            return
        now = change.type != "DELETED" and self._chosen(change.obj)
        before = change.old is not None and self._chosen(change.old)
        if now:
            self._queue.append(("MODIFIED" if before else "ADDED", change.obj))
        elif before:
            self._queue.append(("DELETED", change.obj))
        else:
            return
        self._wake.set()

    def _bookmark(self, annotations: dict[str, str] | None = None) -> tuple[str, Obj]:
        metadata: Obj = {"resourceVersion": str(self._store.version), "creationTimestamp": None}
        if annotations:
            metadata["annotations"] = annotations
        obj = {"kind": self._kind.name, "apiVersion": self._kind.api_version, "metadata": metadata}
        return "BOOKMARK", obj

    async def run(self, request: web.Request, response: web.StreamResponse) -> None:
        await response.prepare(request)
        while True:
            if self._queue:
                count = min(len(self._queue), LINES_AT_ONCE)
                await response.write(b"".join(_line(*self._queue.popleft()) for _ in range(count)))
                continue
            left = self._deadline - time.monotonic()
            if self._over or left <= 0:
                break
            self._wake.clear()
            try:
                async with asyncio.timeout(min(left, BOOKMARK_SECONDS)):
                    await self._wake.wait()
            except TimeoutError:
                if self._bookmarks:
                    self._queue.append(self._bookmark())
        await response.write_eof()


def _line(type_: str, obj: Obj) -> bytes:
    return json.dumps({"type": type_, "object": obj}, separators=(",", ":")).encode() + b"\n"
