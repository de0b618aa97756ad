"""One followed stream: a thread that only reads and buffers. It never touches the database."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from typing_extensions import override

from cluster.client import ClusterClient
from cluster.errors import ClusterError
from cluster.pod_logs import PodLog
from logs.lines import LineSplitter
from logs.store import CHUNK_BYTES_MAX, ContainerLog

logger = logging.getLogger(__name__)

# A silently dead connection is detected after this time; a quiet one is reopened.
SILENCE_SECONDS: Final = 60.0


class Stream(threading.Thread):
    """Follows a container's log into a buffer of about a chunk, and blocks while that is full.

    `log` is positioned and belongs to the thread that calls `take`. `on_end` is called from this thread.
    """

    def __init__(
        self, client: ClusterClient, log: ContainerLog, *, namespace: str, on_end: Callable[[], None]
    ) -> None:
        super().__init__(name=f"log-{log.source.pod_name}", daemon=True)
        self.log = log
        self.since = log.since
        self.ended = False
        self._on_end = on_end
        self._source = PodLog(
            client, namespace=namespace, pod=log.source.pod_name, container=log.source.container
        )
        self._room = threading.Condition()
        self._lines: list[bytes] = []
        self._bytes = 0
        self._oldest = 0.0
        self._closed = False

    @override
    def run(self) -> None:
        splitter = LineSplitter()
        try:
            for piece in self._source.pieces(since=self.since, follow=True, silence_seconds=SILENCE_SECONDS):
                self._buffer(splitter.feed(piece))
        except ClusterError as error:
            logger.info("logs.stream_ended", extra={"pod": self.log.source.pod_name, "error": str(error)})
        finally:
            # An unfinished last line is left out: it is read again, whole.
            self.ended = True
            self._on_end()

    def close(self) -> None:
        """Ask the stream to end; callable from any thread."""
        with self._room:
            self._closed = True
            self._room.notify_all()
        self._source.close()

    def due(self, *, age_seconds: float) -> bool:
        """Whether the buffer is full or holds a line at least this old."""
        with self._room:
            if not self._lines:
                return False
            full = self._bytes >= CHUNK_BYTES_MAX or self.ended
            return full or time.monotonic() - self._oldest >= age_seconds

    def peek(self) -> list[bytes]:
        """The buffered lines; they stay until `drop`."""
        with self._room:
            return list(self._lines)

    def drop(self, count: int) -> None:
        """Drop the first lines, which are stored now."""
        with self._room:
            del self._lines[:count]
            self._bytes = sum(len(line) + 1 for line in self._lines)
            self._oldest = time.monotonic()
            self._room.notify_all()

    def _buffer(self, lines: list[bytes]) -> None:
        if not lines:
            return
        with self._room:
            self._room.wait_for(lambda: self._bytes < CHUNK_BYTES_MAX or self._closed)
            if not self._lines:
                self._oldest = time.monotonic()
            self._lines += lines
            self._bytes += sum(len(line) + 1 for line in lines)
