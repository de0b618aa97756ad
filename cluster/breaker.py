"""Fails fast while a server hangs: a thread that waits for it six seconds a call is a thread that does nothing else."""

from __future__ import annotations

import threading
import time
from typing import Final

from cluster.errors import ClusterUnavailable

OPENS_AFTER: Final = 3
REST_SECONDS: Final = 5.0


class Breaker:
    """Shared by the threads of one process. After `opens_after` time-outs in a row no thread asks for `rest_seconds`;
    then one caller asks for all of them once in so many seconds, and an answer lets every thread ask again.

    Only silence counts. Neither an answer, whatever it says, nor a refused connection costs a thread any time.
    """

    def __init__(self, *, opens_after: int = OPENS_AFTER, rest_seconds: float = REST_SECONDS) -> None:
        self._opens_after = opens_after
        self._rest = rest_seconds
        self._lock = threading.Lock()
        self._silent = 0
        self._asks_at = 0.0

    def enter(self, *, whom: str) -> None:
        """Before a call. Raises ClusterUnavailable while it is open, unless this is the one that asks."""
        with self._lock:
            if self._silent < self._opens_after:
                return
            now = time.monotonic()
            if now >= self._asks_at:
                self._asks_at = now + self._rest
                return
        raise ClusterUnavailable(
            f"{whom} has not answered in time {self._opens_after} times in a row; it is asked again in a few seconds"
        )

    def answered(self) -> None:
        """The call has ended by itself."""
        # Read without the lock: of two threads that come at the same moment either order is right.
        if self._silent:
            with self._lock:
                self._silent = 0

    def timed_out(self) -> None:
        """The call was given up."""
        with self._lock:
            self._silent += 1
            if self._silent >= self._opens_after:
                self._asks_at = time.monotonic() + self._rest
