"""`/{team}/{endpoint}/{path}`: a request goes to the endpoint and its answer comes back, both as streams."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from cluster.errors import ProxyFailed
from cluster.proxy import ProxyLimits, ServiceProxy, Upstream
from cluster.proxy_rules import Target
from controller.routes import Route
from foundation import clock
from foundation.errors import NotFound, PortalError
from gateway.live import refusals
from gateway.live.callers import NOT_FOUND, Callers, opens
from gateway.live.counts import Counts
from gateway.live.directory import Directory, Key
from gateway.live.exchange import REQUEST_ID, Body, ClientGone, Exchange, while_connected
from gateway.live.metrics import Metrics
from gateway.live.ratelimit import Buckets
from gateway.live.waking import HoldLimits, Waking

log = logging.getLogger(__name__)

_PATH = re.compile(r"/(?P<team>[a-z][-a-z0-9]*)/(?P<name>[a-z][-a-z0-9]*)(?P<rest>/.*)?")
# A proxy in front would take these for orders of ours.
_ORDERS: Final = ("x-accel-", "x-sendfile", "x-lighttpd-", "x-litespeed-", "x-reproxy-")
# What may be asked twice without doing it twice, by RFC 9110.
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# Failures that say something of the endpoint: it had the request.
_ASKED: Final = frozenset({"bad-status", "broken", "response-too-large", "timeout"})
_READER_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.05
_PAUSE_SECONDS_MAX: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLimits:
    """Bytes of one request and of one answer; for how long a request that could not be sent is tried again, and how
    much of its body is kept for that; how old a check of a token may be; how many calls with the tokens of one user may be
    under way in this process.
    """

    request_bytes: int = 32 * 2**20
    response_bytes: int = 256 * 2**20
    kept_bytes: int = 128 * 1024
    again_seconds: float = 5.0
    access_seconds: float = 4.0
    stale_seconds: float = 300.0
    calls_of_user: int = 256
    hold: HoldLimits = field(default_factory=HoldLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invited:
    """A request that did not come to the endpoint's own address: to which endpoint and path it goes, and for whom.

    `check` raises NotSignedIn or NotFound where who sent it may not call what is there now; the endpoint gets the headers
    that `sent` leaves, and the caller those that `returned` makes of a status and headers.
    """

    key: Key
    path: str
    check: Callable[[Route | None], Awaitable[None]]
    sent: Callable[[Iterable[tuple[str, str]]], list[tuple[str, str]]]
    returned: Callable[[int, Iterable[tuple[str, str]]], list[tuple[str, str]]]
    until: Callable[[], Iterable[Awaitable[object]]]
    """What ends the call while it is under way: each returns when who sent it may not call any more."""


@dataclass(slots=True)
class _Call:
    """One request to an endpoint on its way."""

    exchange: Exchange
    key: Key
    route: Route
    path: str
    body: Body | None
    invited: Invited | None = None
    user_id: int = 0
    """Whose token it came with, or who made that; 0 where it was invited."""
    asked: bool = False
    """Whether the endpoint was asked, so that how long it took says something of it."""


class Gateway:
    """Checks, holds what has to wait, forwards. The warm path asks only the endpoint."""

    def __init__(
        self,
        *,
        callers: Callers,
        directory: Directory,
        waking: Waking,
        proxy: ServiceProxy,
        counts: Counts,
        metrics: Metrics,
        limits: GatewayLimits,
    ) -> None:
        self._callers = callers
        self._directory = directory
        self._waking = waking
        self._proxy = proxy
        self._counts = counts
        self._metrics = metrics
        self._limits = limits
        self._buckets = Buckets()

    async def serve(self, exchange: Exchange) -> None:
        """Answers one request. Raises NotSignedIn, NotAllowed or NotFound for a caller who may not make it."""
        if exchange.header("upgrade").lower() == "websocket":
            await exchange.refuse(refusals.NO_WEBSOCKETS)
            return
        match = _PATH.fullmatch(exchange.path)
        key = (match["team"], match["name"]) if match else ("", "")
        access = await self._callers.access(exchange, key[0])
        route = await self._directory.get(key)
        if match is None or route is None or not opens(access, route):
            raise NotFound(NOT_FOUND)
        body = Body(exchange, kept_max=self._limits.kept_bytes) if exchange.has_body else None
        await self._measured(_Call(exchange, key, route, match["rest"] or "/", body, user_id=access.user_id))

    async def serve_invited(self, exchange: Exchange, invited: Invited) -> None:
        """The same for a request that was let in otherwise. Raises what its `check` raises."""
        route = await self._directory.get(invited.key)
        await invited.check(route)
        if route is None:
            raise NotFound(NOT_FOUND)
        body = Body(exchange, kept_max=self._limits.kept_bytes) if exchange.has_body else None
        await self._measured(_Call(exchange, invited.key, route, invited.path, body, invited))

    def forget(self, endpoints: Collection[UUID]) -> None:
        """Forgets what it counted of endpoints that are gone."""
        self._metrics.forget(endpoints)
        self._buckets.forget(endpoints)

    async def _measured(self, call: _Call) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        endpoint = call.route.public_id
        self._metrics.began(endpoint)
        # What the field calls a caller that hung up.
        status = 499
        try:
            with self._watched(call) as ends:
                answered = self._admitted(call, now=began)
                if await while_connected(call.exchange, answered, until=ends):
                    status = call.exchange.status or 500
        except ClientGone:
            pass
        except PortalError as error:
            status = error.status
            raise
        except Exception:
            status = call.exchange.status or 500
            raise
        finally:
            if call.exchange.hung_up:
                status = 499
            seconds = loop.time() - began
            asked = call.asked and status != 499
            self._metrics.ended(
                endpoint, call.route.revision, status=status, seconds=seconds if asked else None
            )
            self._counts.add(call.route, status=status, seconds=seconds, asked=asked, now=clock.now())

    @contextmanager
    def _watched(self, call: _Call) -> Iterator[Iterable[Awaitable[object]]]:
        """What ends the call as soon as its caller may make it no more."""
        if call.invited is not None:
            yield call.invited.until()
            return
        caller = call.user_id
        with self._callers.watched(call.exchange, call.key[0], call.route, user_id=caller) as watched:
            yield [watched.ended]

    async def _admitted(self, call: _Call, *, now: float) -> None:
        wait = self._buckets.take(call.route.public_id, call.route.rate, now=now)
        if wait and call.route.rate is not None:
            await call.exchange.refuse(refusals.too_many_requests(call.route.rate, wait))
        elif call.route.is_waking and not await self._is_awake(call):
            return
        elif not call.route.is_live:
            await call.exchange.refuse(refusals.not_live(call.route), members=refusals.phase_of(call.route))
        else:
            await self._sent(call)

    # -- waiting for an endpoint that sleeps --------------------------------------------------------------------

    async def _is_awake(self, call: _Call) -> bool:
        """Whether the endpoint is live now; if not, the caller has been told."""
        with self._waking.place(call.route.public_id, team=call.key[0]) as has_room:
            if not has_room:
                members = refusals.phase_of(call.route)
                await call.exchange.refuse(refusals.TOO_MANY_HELD, members=members)
                return False
            route = await self._held(call)
        # Meanwhile the token may have ended, and another endpoint may have taken the name.
        await self._check(call, route)
        if route is None:
            raise NotFound(NOT_FOUND)
        call.route = route
        if route.is_waking:
            await call.exchange.refuse(refusals.STILL_ASLEEP, members=refusals.phase_of(route))
        elif not route.is_live:
            await call.exchange.refuse(refusals.not_live(route), members=refusals.phase_of(route))
        return route.is_live

    async def _check(self, call: _Call, route: Route | None) -> None:
        if call.invited is not None:
            await call.invited.check(route)
        elif not opens(await self._callers.access(call.exchange, call.key[0]), route):
            raise NotFound(NOT_FOUND)

    async def _held(self, call: _Call) -> Route | None:
        waiting = asyncio.ensure_future(self._waking.wait(call.key, call.route))
        tasks: list[asyncio.Future[Route | None] | asyncio.Future[None]] = [waiting]
        try:
            if call.body is not None:
                reading = asyncio.ensure_future(call.body.read_ahead())
                tasks.append(reading)
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                if reading.done():
                    reading.result()
            return await waiting
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # -- there and back -----------------------------------------------------------------------------------------

    async def _sent(self, call: _Call) -> None:
        """Sends the request, again and again while nothing of it arrives: pods come and go."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._limits.again_seconds
        pause = _PAUSE_SECONDS
        while (failure := await self._tried(call)) is not None:
            left = max(0.0, until - loop.time())
            if not _may_repeat(call, failure):
                await _failed(call, failure)
                return
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 2, _PAUSE_SECONDS_MAX)
            if await self._has_changed(call):
                if call.route.is_waking and not await self._is_awake(call):
                    return
                until = loop.time() + self._limits.again_seconds
            elif not left:
                await _failed(call, failure)
                return

    async def _tried(self, call: _Call) -> ProxyFailed | None:
        call.asked = True
        try:
            await self._forward(call)
        except ProxyFailed as error:
            call.asked = error.reason in _ASKED
            return error
        return None

    async def _has_changed(self, call: _Call) -> bool:
        """Whether, just when it was called, it went to zero replicas, or a new revision moved its Service's port."""
        route = await self._directory.get(call.key)
        if route is None or route.public_id != call.route.public_id:
            return False
        if not route.is_waking and not (route.is_live and _target(route) != _target(call.route)):
            return False
        call.route = route
        return True

    async def _forward(self, call: _Call) -> None:
        route = call.route
        async with self._proxy.forward(
            _target(route),
            method=call.exchange.method,
            path=call.path,
            query=call.exchange.query,
            headers=_sent_headers(call),
            body=call.body.chunks() if call.body is not None else None,
            limits=ProxyLimits(
                request_bytes=self._limits.request_bytes,
                response_bytes=self._limits.response_bytes,
                total_seconds=route.timeout_seconds,
            ),
        ) as upstream:
            # The proxy limits the wait for the endpoint; this limits the wait for a caller that does not read.
            try:
                async with asyncio.timeout(route.timeout_seconds + _READER_SECONDS):
                    await _relay(call, upstream)
            except TimeoutError as error:
                raise ProxyFailed(
                    "the caller did not read the answer in time", status=504, reason="timeout"
                ) from error


def _target(route: Route) -> Target:
    return Target(route.namespace, route.service, route.port)


def _may_repeat(call: _Call, error: ProxyFailed) -> bool:
    """Whether the endpoint cannot do twice what it is asked: nothing has arrived there, or it only reads."""
    if call.exchange.status or call.exchange.hung_up or not (call.body is None or call.body.can_be_sent):
        return False
    return error.unsent or (call.exchange.method in _SAFE and error.reason in {"broken", "unreachable"})


async def _relay(call: _Call, upstream: Upstream) -> None:
    exchange, headers = call.exchange, _returned_headers(upstream.headers)
    if call.invited is not None:
        headers = call.invited.returned(upstream.status, headers)
    await exchange.start(upstream.status, headers)
    async for chunk in upstream.chunks():
        await exchange.write(chunk)
    await exchange.end()


async def _failed(call: _Call, error: ProxyFailed) -> None:
    if call.exchange.status:
        # The status is out: leaving the answer unfinished makes the server cut the connection, which tells the truth.
        extra = {"reason": error.reason, "workload_id": str(call.route.public_id)}
        log.warning("gateway.answer_cut", extra=extra)
        return
    members = refusals.phase_of(call.route) if error.status == 503 else {}
    await call.exchange.refuse(refusals.of_proxy(error), members=members)


def _sent_headers(call: _Call) -> list[tuple[str, str]]:
    """The caller's, with the id of this request; credentials, cookies and the like are dropped by the proxy."""
    others = [(name, value) for name, value in call.exchange.headers if name.lower() != "x-request-id"]
    if call.invited is not None:
        others = call.invited.sent(others)
    return [*others, (REQUEST_ID, call.exchange.request_id)]


def _returned_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if not name.lower().startswith(_ORDERS)]
