"""When this process last showed that it works, kept in memory: what its health answers without asking another process.

A row in the database would tell of the database, too: that one is away is no reason to start this process again.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class Vitals:
    """The main loop of a process, or what it takes in, gives a sign; without one for too long it counts as stuck."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._at = clock()

    def sign(self) -> None:
        """It works."""
        self._at = self._clock()

    def age_seconds(self) -> float:
        """How long ago it last did, counted from the start where it never has."""
        return max(0.0, self._clock() - self._at)


vitals = Vitals()
"""Those of this process."""
