"""Where the endpoints are: their routes by team and name, and one by one for those that wait for a change."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from uuid import UUID

from controller.routes import Route, is_served, routes_for
from gateway.live.db_threads import Rows
from gateway.live.table import Ages, Table

Key = tuple[str, str]
"""The team's slug and the endpoint's name."""


class Directory:
    """The routes that were asked for recently."""

    def __init__(self, rows: Rows, *, ages: Ages) -> None:
        self._rows = rows
        self._table: Table[Key, Route | None] = Table(
            self._ask, ages=ages, is_refusal=lambda route: route is None
        )

    async def get(self, key: Key) -> Route | None:
        """The route, None where there is no such endpoint. Raises DatabaseAway."""
        return await self._table.get(key)

    async def news(self, seconds: float) -> None:
        """Returns when routes may have changed, after `seconds` at the latest."""
        await self._table.news(seconds)

    async def keep_fresh(self) -> None:
        await self._table.keep_fresh()

    def known(self) -> set[UUID]:
        """The public ids of all endpoints that it knows of now."""
        return {route.public_id for route in self._table.values() if route is not None}

    def on_event(self, payload: str) -> None:
        """One notification of the channel `portal_events`: something of a workload has changed."""
        try:
            event = json.loads(payload)
            team, kind, workload = str(event["team"]), str(event["kind"]), str(event["workload"])
        except (ValueError, TypeError, KeyError):
            return
        if is_served(kind):
            self._table.doubt(
                lambda key, route: key[0] == team and (route is None or str(route.public_id) == workload)
            )

    def on_gap(self) -> None:
        """Notifications may have been missed."""
        self._table.doubt(lambda *_: True)

    async def _ask(self, keys: Collection[Key]) -> Mapping[Key, Route | None]:
        return await self._rows.ask(routes_for, keys)
