"""Answers on their way from the threads that make them to the clients: no thread waits for a slow reader, up to a limit."""

from __future__ import annotations

import asyncio
import io
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import IO, Final

from foundation.http.clients import HttpClient
from portal.runtime.fairness import ByteShares

MEMORY_BYTES: Final = 2**20
CHUNK_BYTES: Final = 64 * 1024
FILE_BYTES: Final = 4 * 2**20
"""A file that is full is followed by the next, and gone once it was read."""
SPOOL_BYTES_MAX: Final = 2**30
BEHIND_BYTES_MAX: Final = 256 * 2**20
CATCH_UP_SECONDS: Final = 10.0


class ReaderGoneError(Exception):
    """The client has hung up, or is so far behind that it is taken for gone."""


class Spool:
    """The disk that answers may take which nobody has read yet: 1 GiB for all of them, of which a client has a quarter."""

    def __init__(self, most: int = SPOOL_BYTES_MAX, *, of_client: int = BEHIND_BYTES_MAX) -> None:
        self._shares = ByteShares(most, of_client=of_client)
        self._freed = threading.Condition()

    @property
    def held(self) -> int:
        return self._shares.held

    def has_room(self, client: HttpClient, count: int) -> bool:
        with self._freed:
            return self._shares.has_room(client, count)

    def take(self, client: HttpClient, count: int, *, is_gone: Callable[[], bool]) -> None:
        """Waits for room, for 10 seconds at most. Raises ReaderGoneError where there is none then, or `is_gone`."""
        with self._freed:
            self._freed.wait_for(
                lambda: is_gone() or self._shares.has_room(client, count), timeout=CATCH_UP_SECONDS
            )
            if is_gone() or not self._shares.has_room(client, count):
                raise ReaderGoneError
            self._shares.count(client, count)

    def give_back(self, client: HttpClient, count: int) -> None:
        """Also with 0: who waits looks again whether its reader is gone."""
        with self._freed:
            self._shares.count(client, -count)
            self._freed.notify_all()


@dataclass(slots=True)
class _Part:
    """A stretch of an answer: what was written of it, and read."""

    file: IO[bytes]
    spooled: int = 0
    """Bytes that were taken from the spool; 0 in memory."""
    written: int = 0
    read: int = 0

    def append(self, chunk: bytes) -> None:
        self.file.seek(self.written)
        self.file.write(chunk)
        self.written += len(chunk)

    def take(self, count: int) -> bytes:
        self.file.seek(self.read)
        piece = self.file.read(min(count, self.written - self.read))
        self.read += len(piece)
        return piece


class Answer:
    """Written by one thread, read by the event loop.

    What the reader has not taken is in memory up to 1 MiB and then in unnamed files. Where the spool has no room for more
    of the client's, the thread waits for its readers.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, spool: Spool, client: HttpClient) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self._loop = loop
        self._spool = spool
        self._client = client
        self._news = asyncio.Event()
        self._lock = threading.Lock()
        self._parts: deque[_Part] = deque([_Part(io.BytesIO())])
        self._unread = self._untold = 0
        self._ended = self._gone = self._waits = False
        self.failed = False
        """Whether what was written is not the whole answer."""

    # -- the thread ----------------------------------------------------------------------------------------------

    def start(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        self.status = status
        # Django writes a cookie with a space in front.
        self.headers = [(name.encode("latin-1"), value.strip().encode("latin-1")) for name, value in headers]

    def write(self, chunk: bytes) -> None:
        """Raises ReaderGoneError."""
        for first in range(0, len(chunk), FILE_BYTES):
            self._write(chunk[first : first + FILE_BYTES])

    def _write(self, chunk: bytes) -> None:
        with self._lock:
            is_kept = self._kept(chunk)
        if not is_kept:
            self._make_room(len(chunk))
            with self._lock:
                self._put_on_disk(chunk)
        if self._gone:
            raise ReaderGoneError
        if self._untold >= CHUNK_BYTES:
            self._untold = 0
            self._ring()

    def _make_room(self, count: int) -> None:
        if not self._spool.has_room(self._client, count):
            # What is here is less than a piece, perhaps, and all the same what there is no room beside.
            self._waits = True
            self._ring()
        self._spool.take(self._client, count, is_gone=lambda: self._gone)
        self._waits = False

    def _kept(self, chunk: bytes) -> bool:
        """Puts the chunk into memory, where there is room and nothing on the disk comes before it; says whether it did."""
        last = self._parts[-1]
        if last.spooled or last.written + len(chunk) > MEMORY_BYTES:
            return False
        self._append(last, chunk)
        return True

    def _put_on_disk(self, chunk: bytes) -> None:
        """Of bytes that the spool has counted."""
        last = self._parts[-1]
        if not last.spooled or last.written >= FILE_BYTES:
            try:
                file = tempfile.TemporaryFile()  # noqa: SIM115 - closed once it was read
            except OSError:
                self._spool.give_back(self._client, len(chunk))
                raise
            last = _Part(file)
            self._parts.append(last)
        last.spooled += len(chunk)
        self._append(last, chunk)

    def _append(self, part: _Part, chunk: bytes) -> None:
        """The reader drops whatever it takes to be read: what is written is unread by then."""
        part.append(chunk)
        self._unread += len(chunk)
        self._untold += len(chunk)

    def end(self) -> None:
        """Whatever was written is all there is; where no status is set, none can be had."""
        self._ended = True
        self._ring()

    def _ring(self) -> None:
        self._loop.call_soon_threadsafe(self._news.set)

    # -- the event loop ------------------------------------------------------------------------------------------

    async def next(self) -> tuple[bytes, bool]:
        """The next piece, at most 64 KiB, and whether more may come."""
        while not self._has_piece():
            self._news.clear()
            if not self._has_piece():
                await self._news.wait()
        with self._lock:
            pieces, wanted = [], CHUNK_BYTES
            while wanted and self._unread:
                piece = self._parts[0].take(wanted)
                if not piece:
                    self._drop_first()
                    continue
                pieces.append(piece)
                wanted -= len(piece)
                self._unread -= len(piece)
            if not self._unread:
                # The thread may wait for just this.
                self._start_anew()
            return b"".join(pieces), not (self._ended and not self._unread)

    @property
    def reader_is_gone(self) -> bool:
        return self._gone

    def _has_piece(self) -> bool:
        return self._ended or self._unread >= (1 if self._waits else CHUNK_BYTES)

    def give_up(self) -> None:
        """The reader has gone: the thread is told at its next piece, or now where it waits for room."""
        self._gone = True
        self._spool.give_back(self._client, 0)

    def close(self) -> None:
        """Only once the thread has ended."""
        self._start_anew()

    def _start_anew(self) -> None:
        while self._parts:
            self._drop_first()
        self._parts.append(_Part(io.BytesIO()))

    def _drop_first(self) -> None:
        part = self._parts.popleft()
        part.file.close()
        if part.spooled:
            self._spool.give_back(self._client, part.spooled)
