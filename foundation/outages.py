"""What this process depends on and misses, reported once when it goes and once when it is back, however many ask it.

Loads no Django: beat does without it.
"""

from __future__ import annotations

import logging
import threading
import time

logger = logging.getLogger(__name__)


class Outage:
    """Threads of a process share it, so that each reports only what none of them has reported."""

    def __init__(self, of: str) -> None:
        self._of = of
        self._lock = threading.Lock()
        self._since: float | None = None
        self.over_at: float | None = None
        """When (time.monotonic) it was back the last time."""

    def missed(self, error: BaseException) -> None:
        """It did not answer."""
        with self._lock:
            first, self._since = self._since is None, self._since or time.monotonic()
        if first:
            logger.warning(f"{self._of}.away", extra={"error": " ".join(str(error).split())})  # noqa: G004

    def answered(self) -> None:
        """It did answer, to whichever caller."""
        if self._since is None:
            return
        with self._lock:
            since, self._since = self._since, None
            if since is not None:
                self.over_at = time.monotonic()
        if since is not None:
            seconds = round(time.monotonic() - since)
            logger.warning(f"{self._of}.back", extra={"seconds": seconds})  # noqa: G004


database = Outage("database")
