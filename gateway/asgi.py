"""The ASGI application of `live`: `/-/healthz`, `/-/events/`, `/-/wait/`, `/-/logs/{workload}/`,
`/-/invoke/{ticket}/{path}` and `/{team}/{endpoint}/{path}`.

Raw ASGI: no Django request stack, no session, no cookie, no database connection per stream. A team's slug begins
with a letter, so that no team can take the paths below `/-/`.
"""

from __future__ import annotations

import json
import logging
import re
from typing import Final
from uuid import UUID

import django.db

from cluster.client import get_client
from foundation import logs
from foundation.errors import NotFound, PortalError
from foundation.http.problems import UNEXPECTED, Problem, problem_of
from gateway.errors import DatabaseAway
from gateway.live.events import cors_headers, serve_events
from gateway.live.exchange import Exchange, Receive, Scope, Send
from gateway.live.invoking import serve_invoke
from gateway.live.logstream import serve_logs
from gateway.live.passthrough import GatewayLimits
from gateway.live.state import Live
from gateway.live.waits import serve_wait

log = logging.getLogger(__name__)

_OWN: Final = "/-/"
_LOGS = re.compile(r"/-/logs/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/?")

_INVOKE = re.compile(r"/-/invoke/(?P<ticket>[A-Za-z0-9_:=-]{1,1000})(?P<rest>/.*)")


class Application:
    """One a process. Its parts are made when the server has started its event loop."""

    def __init__(self, limits: GatewayLimits | None = None) -> None:
        self._limits = limits or GatewayLimits()
        self._live: Live | None = None

    @property
    def live(self) -> Live:
        """The running parts; made by the first request where the server speaks no lifespan protocol."""
        if self._live is None:
            self._live = Live(get_client(), self._limits)
            self._live.start()
        return self._live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            # Before the handshake this is answered as 403, all that the protocol has for it.
            await send({"type": "websocket.close", "code": 1003})
        else:
            exchange = Exchange(scope, receive, send)
            with logs.bind(request_id=exchange.request_id):
                await self._serve(exchange)

    def exposition(self) -> bytes:
        """What was counted of the requests to endpoints; asked by another thread, which starts nothing."""
        return b"" if self._live is None else self._live.metrics.exposition()

    def end_streams(self) -> None:
        """Lets event and log streams end, so that a stopping server need not wait for them."""
        if self._live is not None:
            self._live.end_streams()

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        started = self.live
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await started.stop()
        self._live = None
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, exchange: Exchange) -> None:
        own = exchange.path.startswith(_OWN)
        try:
            if own:
                await self._serve_own(exchange)
            else:
                await self.live.gateway.serve(exchange)
        except Exception as error:
            if not isinstance(error, PortalError):
                log.exception("live.failed", extra={"path": exchange.path})
            if exchange.status:
                return
            headers = cors_headers() if own and not exchange.also else ()
            await exchange.refuse(_problem(error), headers=headers)

    async def _serve_own(self, exchange: Exchange) -> None:
        if match := _INVOKE.fullmatch(exchange.path):
            await serve_invoke(exchange, match["ticket"], match["rest"], live=self.live)
        elif exchange.method not in {"GET", "HEAD"}:
            problem = Problem(status=405, code="method_not_allowed", detail="Only GET is answered here.")
            await exchange.refuse(problem, headers=[("Allow", "GET"), *cors_headers()])
        elif exchange.path in {"/-/healthz", "/-/healthz/"}:
            await self._answer_health(exchange)
        elif exchange.path in {"/-/events", "/-/events/"}:
            live = self.live
            await serve_events(
                exchange, hub=live.hub, audience=live.audience, rows=live.log_rows, bell=live.log_bell
            )
        elif exchange.path in {"/-/wait", "/-/wait/"}:
            await serve_wait(exchange, live=self.live)
        elif match := _LOGS.fullmatch(exchange.path):
            await serve_logs(exchange, UUID(match[1]), live=self.live)
        else:
            raise NotFound("There is nothing here.")

    async def _answer_health(self, exchange: Exchange) -> None:
        """200 as long as the event loop turns; whether events can arrive is reported, and no reason to be restarted."""
        live = self.live
        health = {"listening": live.listener.connected.is_set(), "streams": len(live.hub)}
        await exchange.answer(200, json.dumps(health).encode(), content_type="application/json")


def _problem(error: Exception) -> Problem:
    if isinstance(error, django.db.Error | DatabaseAway):
        detail = "The portal cannot ask its database now."
        return Problem(status=503, code="database_unavailable", detail=detail, headers={"Retry-After": "2"})
    known = problem_of(error) if isinstance(error, PortalError) else None
    return known or Problem(status=500, code="internal_error", detail=UNEXPECTED)


application = Application()
