"""`/{team}/{endpoint}/{path}`: a request goes to the endpoint and its answer comes back, both as streams."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cluster.errors import ProxyFailed
from cluster.proxy import Limits, ServiceProxy, Upstream
from cluster.proxy_rules import Target
from controller.routes import Route, route_for
from foundation import clock
from foundation.errors import NotAllowed, NotFound, NotSignedIn
from foundation.http.problems import Problem
from gateway.live.counts import Counts
from gateway.live.exchange import REQUEST_ID, Exchange, while_connected
from gateway.live.rows import Remembered, Rows
from gateway.queries import Access, access_of_token
from teams import tokens

log = logging.getLogger(__name__)

ROUTE_SECONDS: Final = 4.0
# Who was refused a moment ago may just have been let in.
REFUSAL_SECONDS: Final = 1.0
NOT_LIVE_RETRY_SECONDS: Final = "5"
_PATH = re.compile(r"/(?P<team>[a-z][-a-z0-9]*)/(?P<name>[a-z][-a-z0-9]*)(?P<rest>/.*)?")
# A proxy in front would take these for orders of ours.
_ORDERS: Final = ("x-accel-", "x-sendfile", "x-lighttpd-", "x-litespeed-", "x-reproxy-")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLimits:
    """Bytes of one request and of one answer; how old a token check may be."""

    request_bytes: int = 32 * 2**20
    response_bytes: int = 256 * 2**20
    access_seconds: float = 4.0


class Gateway:
    """Checks, then forwards. Token checks are at most `access_seconds` old, so a revoked token opens nothing longer."""

    def __init__(self, rows: Rows, proxy: ServiceProxy, counts: Counts, limits: GatewayLimits) -> None:
        self._rows = rows
        self._proxy = proxy
        self._counts = counts
        self._limits = limits
        self._access: Remembered[tuple[str, str], Access | None] = Remembered(self._seconds_of_access)
        self._routes: Remembered[tuple[str, str], Route | None] = Remembered(_seconds_of_route)

    def forget_routes_of(self, team_slug: str | None) -> None:
        """Something of the team's workloads (None: of any) has changed."""
        self._routes.forget(lambda key: team_slug in (None, key[0]))

    async def serve(self, exchange: Exchange) -> None:
        """Answers one request. Raises NotSignedIn, NotAllowed or NotFound for who may not make it."""
        if exchange.header("upgrade").lower() == "websocket":
            await exchange.refuse(NO_WEBSOCKETS)
            return
        match = _PATH.fullmatch(exchange.path)
        team, name = (match["team"], match["name"]) if match else ("", "")
        await self._check_caller(exchange, team)
        route = await self._routes.get((team, name), lambda: self._find_route(team, name))
        if match is None or route is None:
            raise _not_found()
        await self._measured(exchange, route, match["rest"] or "/")

    # -- who and where ------------------------------------------------------------------------------------------

    async def _check_caller(self, exchange: Exchange, team: str) -> None:
        plain = _bearer(exchange)
        if not plain or not tokens.is_well_formed(plain):
            raise NotSignedIn("Send an API token: Authorization: Bearer mlp_…")
        key = (tokens.digest(plain), team)
        access = await self._access.get(key, lambda: self._ask_access(plain, team))
        if access is None or access.expires_at <= clock.now():
            raise NotSignedIn("The token is unknown, expired or revoked.", code="invalid_token")
        if not access.may_read:
            raise NotAllowed("This token lacks the scope read.", code="scope_missing")
        if not access.visible:
            raise _not_found()

    async def _ask_access(self, plain: str, team: str) -> Access | None:
        return await self._rows.ask(access_of_token, plain=plain, team_slug=team, now=clock.now())

    async def _find_route(self, team: str, name: str) -> Route | None:
        return await self._rows.ask(route_for, team_slug=team, name=name)

    def _seconds_of_access(self, access: Access | None) -> float:
        allowed = access is not None and access.may_read and access.visible
        return self._limits.access_seconds if allowed else min(REFUSAL_SECONDS, self._limits.access_seconds)

    # -- there and back -----------------------------------------------------------------------------------------

    async def _measured(self, exchange: Exchange, route: Route, path: str) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        stayed = False
        try:
            stayed = await while_connected(exchange, self._forward(exchange, route, path))
        finally:
            # 499 is what the field calls a caller that hung up.
            status = exchange.status if stayed else 499
            self._counts.add(
                endpoint=route.public_id, status=status, seconds=loop.time() - began, now=clock.now()
            )

    async def _forward(self, exchange: Exchange, route: Route, path: str) -> None:
        if not route.is_live:
            await exchange.refuse(_not_live(route), members=_phase_of(route))
            return
        try:
            async with self._proxy.forward(
                Target(route.namespace, route.service, route.port),
                method=exchange.method,
                path=path,
                query=exchange.query,
                headers=_sent_headers(exchange),
                body=exchange.body() if exchange.has_body else None,
                limits=self._limits_of(route),
            ) as upstream:
                await _relay(exchange, upstream)
        except ProxyFailed as error:
            await _failed(exchange, route, error)

    def _limits_of(self, route: Route) -> Limits:
        return Limits(
            request_bytes=self._limits.request_bytes,
            response_bytes=self._limits.response_bytes,
            total_seconds=route.timeout_seconds,
        )


async def _relay(exchange: Exchange, upstream: Upstream) -> None:
    await exchange.start(upstream.status, _returned_headers(upstream.headers))
    async for chunk in upstream.chunks():
        await exchange.write(chunk)
    await exchange.end()


async def _failed(exchange: Exchange, route: Route, error: ProxyFailed) -> None:
    if exchange.status:
        # The status is out: leaving the answer unfinished makes the server cut the connection, which tells the truth.
        log.warning("gateway.answer_cut", extra={"reason": error.reason, "workload_id": str(route.public_id)})
        return
    members = _phase_of(route) if error.status == 503 else {}
    await exchange.refuse(problem_of_proxy(error), members=members)


def problem_of_proxy(error: ProxyFailed) -> Problem:
    """The problem document of a request that got no answer from the endpoint."""
    retry_after = error.retry_after or (1 if error.status == 503 else None)
    return Problem(
        status=error.status,
        code=error.reason.replace("-", "_"),
        title=_TITLES.get(error.status, ""),
        detail=f"{error}.".capitalize().replace("..", "."),
        headers={"Retry-After": str(max(1, round(retry_after)))} if retry_after else {},
    )


_TITLES: Final = {
    501: "Not supported",
    502: "Bad answer",
    503: "Temporarily unavailable",
    504: "No answer in time",
}

NO_WEBSOCKETS: Final = Problem(
    status=501,
    code="websockets_not_supported",
    title=_TITLES[501],
    detail="The gateway forwards plain HTTP, streamed answers included, but no WebSockets.",
)


def _not_found() -> NotFound:
    return NotFound("There is no such endpoint, or it is not yours.")


def _not_live(route: Route) -> Problem:
    return Problem(
        status=503,
        code="endpoint_not_live",
        title=_TITLES[503],
        detail=f"The endpoint is {route.phase} ({route.reason}), so nothing can answer now.",
        headers={"Retry-After": NOT_LIVE_RETRY_SECONDS},
    )


def _phase_of(route: Route) -> dict[str, str]:
    return {"phase": route.phase, "reason": route.reason}


def _bearer(exchange: Exchange) -> str:
    scheme, _, credential = exchange.header("authorization").partition(" ")
    return credential.strip() if scheme.lower() == "bearer" and len(credential) <= 1000 else ""


def _sent_headers(exchange: Exchange) -> list[tuple[str, str]]:
    """The caller's, with the id of this request; credentials, cookies and the like are dropped by the proxy."""
    others = [(name, value) for name, value in exchange.headers if name.lower() != "x-request-id"]
    return [*others, (REQUEST_ID, exchange.request_id)]


def _returned_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if not name.lower().startswith(_ORDERS)]


def _seconds_of_route(route: Route | None) -> float:
    return ROUTE_SECONDS if route is not None and route.is_live else REFUSAL_SECONDS
