"""`/-/wait/`: a run or an endpoint as soon as what is waited for holds, or as it is when the time is over."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.urls import resolve
from rest_framework.renderers import JSONRenderer

from console.api.waits import PURPOSE, Wait, wait_of
from console.api.workloads import WorkloadViewSet
from foundation import clock
from foundation.database import is_missed
from foundation.errors import NotFound, NotSignedIn
from foundation.http.etag import KNOWN_HEADER, is_known, tag_of
from gateway.errors import DatabaseAway
from gateway.live.audience import REVOKED
from gateway.live.events import cors_headers
from gateway.live.exchange import NO_STORE, Exchange, while_connected
from gateway.live.state import Live
from gateway.queries import visible_slugs
from teams import tickets
from teams.tickets import Principal
from workloads.kinds import kind_of

# A ring of the bell may have been lost with the connection that listens.
LOOK_SECONDS: Final = 15.0
OUTAGE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The answer of REST, and the version of the workload's row."""

    body: bytes
    version: str


async def serve_wait(exchange: Exchange, *, live: Live) -> None:
    """Answers once, with 200 either way.

    Raises NotSignedIn for a bad or spent ticket and for rights that ended meanwhile, NotFound for who may not see the
    workload (any more), and what `Audience.join` raises.
    """
    text = exchange.argument("ticket")
    ticket = await live.rows.ask(tickets.read, text, purpose=PURPOSE, now=clock.now())
    principal, wait = ticket.principal, wait_of(ticket.resource)
    async with live.waiters.join(principal) as view:
        # Only now: who was refused for want of room may come again with it.
        await live.rows.ask(tickets.spend, ticket, now=clock.now())
        bell = live.move_bell.add(wait.workload)
        # A right that is lost is looked at like a move.
        view.bells.add(bell)
        try:
            answered = _answer(exchange, wait, live=live, principal=principal, bell=bell)
            await while_connected(exchange, answered, until=[view.revoked.wait()])
        finally:
            view.bells.discard(bell)
            live.move_bell.remove(wait.workload, bell)
        if view.revoked.is_set() and not exchange.status:
            raise NotSignedIn(REVOKED, code="revoked")


async def _answer(
    exchange: Exchange, wait: Wait, *, live: Live, principal: Principal, bell: asyncio.Event
) -> None:
    loop = asyncio.get_running_loop()
    ends = loop.time() + wait.seconds
    found: Found | None = None
    while found is None:
        last = live.stopping.is_set() or loop.time() >= ends
        bell.clear()
        pause = LOOK_SECONDS
        try:
            found = await live.wait_rows.ask(look, wait, principal=principal, last=last, now=clock.now())
        except Exception as error:
            # An outage of the database is waited out, as long as there is time.
            if not is_missed(error):
                raise
            if last:
                raise DatabaseAway("The database does not answer.") from None
            pause = OUTAGE_SECONDS
        if found is None:
            await _rung(bell, min(pause, max(0.0, ends - loop.time())))
    await _tell(exchange, found)


async def _rung(bell: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await bell.wait()
    except TimeoutError:
        pass


async def _tell(exchange: Exchange, found: Found) -> None:
    tag = tag_of(found.version, found.body)
    headers = [("ETag", tag), *cors_headers()]
    if is_known(tag, exchange.header(KNOWN_HEADER.lower())):
        await exchange.start(304, [*headers, NO_STORE])
        await exchange.end()
    else:
        await exchange.answer(200, found.body, content_type="application/json", headers=headers)


def look(wait: Wait, *, principal: Principal, last: bool, now: datetime) -> Found | None:
    """What REST answers, where what is waited for holds or it is the `last` look; None otherwise.

    By the rights of this moment: raises NotFound where they do not reach the workload, NotSignedIn where they have ended.
    """
    slugs = visible_slugs(principals=[principal], now=now).get(principal)
    if slugs is None:
        raise NotSignedIn(REVOKED, code="revoked")
    kind = kind_of(wait.kind)
    # The one place that knows which view tells of a kind is the table of addresses.
    route: Any = resolve(kind.resource_of(wait.workload)).func
    view: WorkloadViewSet = route.cls()
    if wait.wait_for not in view.waits:
        raise NotSignedIn("The ticket is one of another release.")
    workload = view.rows().filter(public_id=wait.workload, team__slug__in=slugs).first()
    if workload is None:
        raise NotFound(f"There is no such {kind.noun}, or it is not yours.")
    if not last and not wait.holds(workload, view.waits):
        return None
    answer = view.one(workload, fields=wait.fields, now=now)
    return Found(body=JSONRenderer().render(answer.data), version=answer["ETag"].strip('"'))
