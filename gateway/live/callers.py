"""Who calls, and what their token opens: a user's token whatever its user may see, an endpoint's token that endpoint."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from controller.routes import Route
from foundation import clock
from foundation.errors import NotAllowed, NotFound, NotSignedIn, PortalError, RateLimited
from gateway import queries
from gateway.live.db_threads import Rows
from gateway.live.exchange import Exchange
from gateway.live.strangers import Strangers
from gateway.live.table import Ages, Table
from gateway.queries import Access
from teams import tokens

log = logging.getLogger(__name__)

Key = tuple[str, str]
"""A token's digest, and the slug of the team whose endpoint is called."""

NOT_FOUND: Final = "There is no such endpoint, or it is not yours."
CALLS_RETRY_SECONDS: Final = 5
USERS_OF_TEAM: Final = 2
"""The endpoints of a team have the calls of so many users under way, however many accounts it has."""
_USER: Final = "user:"
_ENDPOINT: Final = "endpoint:"


class WatchedCall:
    """A request to an endpoint that is under way. It costs a future, and no task: most have ended before a look."""

    def __init__(self, key: Key, route: Route) -> None:
        self.key = key
        self.route = route
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.error: PortalError | None = None

    def end(self, error: PortalError) -> None:
        if not self.ended.done():
            self.error = error
            self.ended.set_result(None)


class Callers:
    """The tokens that were used recently, with what they open."""

    def __init__(self, rows: Rows, strangers: Strangers, *, ages: Ages, calls_of_user: int) -> None:
        self._rows = rows
        self._strangers = strangers
        self._calls_of_user = calls_of_user
        self._table: Table[Key, Access | None] = Table(self._ask, ages=ages, is_refusal=_is_refusal)
        self._look_seconds = ages.fresh / 2
        self._calls: set[WatchedCall] = set()
        self._under_way: Counter[int | str] = Counter()
        """How many of them each user has, by id, and each team's endpoints, by its slug."""

    async def access(self, exchange: Exchange, team: str) -> Access:
        """What the request's token opens of the team. Raises NotSignedIn or NotAllowed where that is nothing."""
        plain = exchange.bearer
        if not plain or not (tokens.is_well_formed(plain) or tokens.is_of_endpoint(plain)):
            raise NotSignedIn("Send an API token, or one of this endpoint: Authorization: Bearer mlp_…")
        key = (tokens.digest(plain), team)
        if self._table.opens(key):
            return await self._access(key)
        async with self._strangers.turn(exchange.network):
            return await self._access(key)

    async def _access(self, key: Key) -> Access:
        access = await self._table.get(key)
        if access is None or access.expires_at <= clock.now():
            raise NotSignedIn("The token is unknown, expired or revoked.", code="invalid_token")
        if not access.may_read:
            raise NotAllowed("This token lacks the scope read.", code="scope_missing")
        return access

    @contextmanager
    def watched(self, exchange: Exchange, team: str, route: Route, *, user_id: int) -> Iterator[WatchedCall]:
        """A call that is under way, of which `ended` is told when its token opens the endpoint no more.

        Raises then what its caller would be told now; an answer that had begun stays unfinished, which the caller sees.
        Raises RateLimited at once where the user, whose token it is or who made it, has as many under way as one may, or
        the team's endpoints have as many as two users may.
        """
        counted: dict[int | str, int] = {
            user_id: self._calls_of_user,
            team: self._calls_of_user * USERS_OF_TEAM,
        }
        if any(self._under_way[who] >= most for who, most in counted.items()):
            raise RateLimited(
                f"Calls with the tokens of one user, those made for endpoints included, may be {self._calls_of_user} at a "
                f"time, and {self._calls_of_user * USERS_OF_TEAM} to the endpoints of one team.",
                code="too_many_calls",
                retry_after_seconds=CALLS_RETRY_SECONDS,
            )
        call = WatchedCall((tokens.digest(exchange.bearer), team), route)
        self._calls.add(call)
        self._under_way.update(counted.keys())
        try:
            yield call
        finally:
            self._calls.discard(call)
            self._under_way.subtract(counted.keys())
            for who in counted:
                if not self._under_way[who]:
                    del self._under_way[who]
        if call.error is not None:
            raise call.error

    async def keep_watching(self) -> None:
        """Ends calls whose tokens have ended, whenever tokens were asked about again, until cancelled."""
        while True:
            await self._table.news(self._look_seconds)
            by_key: dict[Key, list[WatchedCall]] = {}
            for call in self._calls:
                by_key.setdefault(call.key, []).append(call)
            for key, calls in by_key.items():
                try:
                    await self._judge(key, calls)
                except Exception:
                    log.exception("callers.unwatched")

    async def _judge(self, key: Key, calls: Iterable[WatchedCall]) -> None:
        try:
            access = await self._access(key)
        except PortalError as error:
            for call in calls:
                call.end(error)
            return
        for call in calls:
            if not opens(access, call.route):
                call.end(NotFound(NOT_FOUND))

    async def keep_fresh(self) -> None:
        """Asks about tokens in use again and again, until cancelled."""
        await self._table.keep_fresh()

    def on_access_changed(self, payload: str) -> None:
        """One notification of the channel `portal_access`: nothing that it concerns is believed any longer."""
        kind, key = next(
            (
                (prefix, payload.removeprefix(prefix))
                for prefix in (_USER, _ENDPOINT)
                if payload.startswith(prefix)
            ),
            ("", ""),
        )

        def is_meant(_: Key, access: Access | None) -> bool:
            if access is None or not kind:
                return True
            return str(access.user_id if kind == _USER else access.endpoint) == key

        self._table.forget(is_meant)

    def on_gap(self) -> None:
        """Notifications may have been missed."""
        self._table.doubt(lambda *_: True)

    async def _ask(self, keys: Collection[Key]) -> Mapping[Key, Access | None]:
        return await self._rows.ask(queries.access_of_callers, keys=keys, now=clock.now())


def opens(access: Access, route: Route | None) -> bool:
    """Whether the caller may know of the route's endpoint."""
    if route is None or not access.visible:
        return False
    return access.endpoint is None or access.endpoint == route.public_id


def _is_refusal(access: Access | None) -> bool:
    return access is None or not access.may_read or not access.visible
