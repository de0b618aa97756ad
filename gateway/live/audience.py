"""Who is looking, and what they may see right now: checked again every two seconds while a stream is open."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager

from typing_extensions import override

from foundation.database import is_missed
from foundation.errors import NotSignedIn, RateLimited, Unavailable
from teams.tickets import Principal

log = logging.getLogger(__name__)

CHECK_SECONDS = 2.0
# What is older than this counts as nothing seen: a database that does not answer must not keep a door open.
STALE_SECONDS = 5.0
STREAMS_OF_USER_MAX = 8
WAITS_OF_USER_MAX = 64
STREAMS_MAX = 2000
REVOKED = "The account, the token or the session does not open this any more."

Check = Callable[[Collection[Principal]], Awaitable[dict[Principal, frozenset[str]]]]


class View:
    """What one principal may see; shared by all of its streams."""

    def __init__(self) -> None:
        self.slugs: frozenset[str] = frozenset()
        self.checked_at = float("-inf")
        self.revoked = asyncio.Event()
        self.bells: set[asyncio.Event] = set()
        """Rung whenever there is more or less to be seen."""

    def is_fresh(self) -> bool:
        return not self.revoked.is_set() and _monotonic() - self.checked_at < STALE_SECONDS

    def update(self, slugs: frozenset[str], asked_at: float) -> None:
        changed = slugs != self.slugs
        self.slugs, self.checked_at = slugs, asked_at
        if changed:
            for bell in self.bells:
                bell.set()

    async def lost(self, slugs: frozenset[str]) -> None:
        """Returns when one of the teams is not to be seen any more."""
        bell = asyncio.Event()
        self.bells.add(bell)
        try:
            while slugs <= self.slugs:
                bell.clear()
                await bell.wait()
        finally:
            self.bells.discard(bell)


class Audience:
    """All principals with an open stream, of which a user may have `most`."""

    most = STREAMS_OF_USER_MAX
    what = "streams"

    def __init__(self, check: Check) -> None:
        self._check = check
        self._views: dict[Principal, View] = {}
        self._streams: Counter[Principal] = Counter()

    @asynccontextmanager
    async def join(self, principal: Principal) -> AsyncIterator[View]:
        """A view that stays up to date inside the block; when it is `revoked`, the stream must end.

        Raises RateLimited beyond what one user may have, Unavailable beyond 2,000 in the process, NotSignedIn for
        a user who may see nothing any more.
        """
        self._check_room(principal)
        self._streams[principal] += 1
        try:
            view = self._views.setdefault(principal, View())
            # Also where another stream has its view: what ended a moment ago opens nothing new.
            await self._look([principal])
            if view.revoked.is_set():
                raise NotSignedIn(REVOKED, code="revoked")
            yield view
        finally:
            self._streams[principal] -= 1
            if self._streams[principal] <= 0:
                del self._streams[principal]
                self._views.pop(principal, None)

    def _check_room(self, principal: Principal) -> None:
        mine = sum(count for holder, count in self._streams.items() if holder.user_id == principal.user_id)
        if mine >= self.most:
            raise self.too_many(
                f"You have {mine} {self.what} open, which is the most that one user may have."
            )
        if self._streams.total() >= STREAMS_MAX:
            raise self.full(f"This process has as many {self.what} as it takes.")

    def too_many(self, message: str) -> RateLimited:
        """What one user is told who has the most that one may have."""
        return RateLimited(message, code="too_many_streams", retry_after_seconds=30)

    def full(self, message: str) -> Unavailable:
        """What everybody is told while the process takes no more."""
        return Unavailable(message, code="too_many_streams")

    async def keep_checking(self) -> None:
        """Checks every open stream again and again, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            if not self._views:
                continue
            try:
                await self._look(list(self._views))
            except Exception as error:
                # While the database is away streams see nothing, see STALE_SECONDS.
                if not is_missed(error):
                    log.warning("audience.unchecked", exc_info=True)

    async def _look(self, principals: Collection[Principal]) -> None:
        asked_at = _monotonic()
        seen = await self._check(principals)
        for principal in principals:
            view = self._views.get(principal)
            if view is None:
                continue
            if principal in seen:
                view.update(seen[principal], asked_at)
            else:
                view.revoked.set()


def _monotonic() -> float:
    return asyncio.get_running_loop().time()


class Waiters(Audience):
    """The same for requests that are held until something happens."""

    most = WAITS_OF_USER_MAX
    what = "waits"

    @override
    def too_many(self, message: str) -> RateLimited:
        return RateLimited(message, code="too_many_waits", retry_after_seconds=30)

    @override
    def full(self, message: str) -> Unavailable:
        return Unavailable(message, code="too_many_waits")


class Invokers(Audience):
    """The same for calls of endpoints that came by a ticket."""

    most = WAITS_OF_USER_MAX
    what = "calls"

    @override
    def too_many(self, message: str) -> RateLimited:
        return RateLimited(message, code="too_many_calls", retry_after_seconds=5)

    @override
    def full(self, message: str) -> Unavailable:
        return Unavailable(message, code="too_many_calls")
