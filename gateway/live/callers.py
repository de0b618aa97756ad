"""Who calls, and what their token opens: a user's token whatever its user may see, an endpoint's token that endpoint."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from controller.routes import Route
from foundation import clock
from foundation.errors import NotAllowed, NotSignedIn
from gateway import queries
from gateway.live.db_threads import Rows
from gateway.live.exchange import Exchange
from gateway.live.table import Ages, Table
from gateway.queries import Access
from teams import tokens

Key = tuple[str, str]
"""A token's digest, and the slug of the team whose endpoint is called."""

_USER: Final = "user:"
_ENDPOINT: Final = "endpoint:"


class Callers:
    """The tokens that were used recently, with what they open."""

    def __init__(self, rows: Rows, *, ages: Ages) -> None:
        self._rows = rows
        self._table: Table[Key, Access | None] = Table(self._ask, ages=ages, is_refusal=_is_refusal)

    async def access(self, exchange: Exchange, team: str) -> Access:
        """What the request's token opens of the team. Raises NotSignedIn or NotAllowed where that is nothing."""
        plain = exchange.bearer
        if not plain or not (tokens.is_well_formed(plain) or tokens.is_of_endpoint(plain)):
            raise NotSignedIn("Send an API token, or one of this endpoint: Authorization: Bearer mlp_…")
        access = await self._table.get((tokens.digest(plain), team))
        if access is None or access.expires_at <= clock.now():
            raise NotSignedIn("The token is unknown, expired or revoked.", code="invalid_token")
        if not access.may_read:
            raise NotAllowed("This token lacks the scope read.", code="scope_missing")
        return access

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
            holder = access.user_id if kind == _USER else access.endpoint
            return str(holder) == key

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
