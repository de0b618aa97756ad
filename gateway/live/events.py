"""`/-/events/`: server-sent events of what the caller may see, for as long as the page is open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, asynccontextmanager, suppress

from django.conf import settings

from foundation import clock
from gateway import tickets
from gateway.followed import followed_of
from gateway.live.audience import Audience, View
from gateway.live.db_threads import Rows
from gateway.live.exchange import NO_STORE, Exchange, Headers, while_connected
from gateway.live.hub import EVERYTHING, Bell, Hub, Subscription, log_frame, workload_frame
from gateway.queries import StoredMove, moves_after, newest_event, teams_followed

PING_SECONDS = 15.0
# A peer that takes nothing for so long is gone, whatever its connection says.
WRITE_SECONDS = 30.0
END_SECONDS = 1.0
# Then the page asks for a new ticket, so no user who has signed out goes on looking for ever.
LIFE_SECONDS = 3600.0
# Of a log that grows all the time is told so often at most.
LOG_SECONDS = 0.5
# For a browser that reconnects by itself.
_RETRY = b"retry: 3000\n\n"


def stream_headers(content_type: str) -> Headers:
    """The headers of a stream that pages of the portal may read, without credentials."""
    return [
        ("Content-Type", content_type),
        NO_STORE,
        ("X-Accel-Buffering", "no"),
        ("X-Content-Type-Options", "nosniff"),
        *cors_headers(),
    ]


def cors_headers() -> list[tuple[str, str]]:
    return [("Access-Control-Allow-Origin", str(settings.PUBLIC_URL)), ("Vary", "Origin")]


async def serve_events(exchange: Exchange, *, hub: Hub, audience: Audience, rows: Rows, bell: Bell) -> None:
    """Streams until the caller hangs up, loses its rights, reads too slowly or an hour has passed. With `log` also tells when
    there are new lines of that workload's log, so that a page needs no second connection to follow it.

    Raises, before the answer has begun, NotSignedIn for a ticket that opens nothing, what `Audience.join` raises,
    Malformed, and NotFound for a workload or a team that is followed and not to be seen.
    """
    ticket = await rows.ask(
        tickets.read, exchange.argument("ticket"), purpose=tickets.PURPOSE, now=clock.now()
    )
    followed = followed_of(teams=exchange.arguments("team"), workloads=exchange.arguments("workload"))
    of_log = followed_of(workloads=exchange.arguments("log")[:1], named="log")
    # A browser that reconnects by itself sends the header, with the address that it had at first.
    last_id = exchange.header("last-event-id") or exchange.argument("last_event_id")
    async with audience.join(ticket.principal) as view:
        teams: frozenset[str] = frozenset()
        if followed != EVERYTHING:
            teams = await rows.ask(teams_followed, followed=followed, slugs=view.slugs)
        if of_log != EVERYTHING:
            teams |= await rows.ask(teams_followed, followed=of_log, slugs=view.slugs)
        await rows.ask(tickets.spend, ticket, now=clock.now())
        if not hub.position:
            hub.begin_at(await rows.ask(newest_event))
        subscription, place = Subscription(view, followed), hub.position
        hub.add(subscription)
        try:
            missed = hub.backlog(last_id, subscription)
            if missed is None:
                moves = await rows.ask(moves_after, int(last_id), followed=followed, slugs=view.slugs)
                missed = hub.resync_frame() if moves is None else _told(moves)
            first = _RETRY + (missed or _place(last_id or str(place)))
            await exchange.start(200, stream_headers("text/event-stream; charset=utf-8"))
            frames = subscription.frames(ping_seconds=PING_SECONDS)
            ended = subscription.ended
            async with _telling_of(of_log.workloads, subscription, bell):
                await until_ended(exchange, frames, first=first, view=view, ended=ended, teams=teams)
        finally:
            hub.remove(subscription)


@asynccontextmanager
async def _telling_of(logs: Iterable[str], subscription: Subscription, bell: Bell) -> AsyncGenerator[None]:
    """Meanwhile the stream is told when one of these logs grows."""
    tasks = [asyncio.create_task(_tell_of(log, subscription, bell)) for log in logs]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()


async def _tell_of(workload: str, subscription: Subscription, bell: Bell) -> None:
    rung = bell.add(workload)
    try:
        while True:
            await rung.wait()
            rung.clear()
            subscription.put(log_frame(workload))
            await asyncio.sleep(LOG_SECONDS)
    finally:
        bell.remove(workload, rung)


def _told(moves: Iterable[StoredMove]) -> bytes:
    return b"".join(workload_frame(move.facts, move.number) for move in moves)


def _place(number: str) -> bytes:
    """An id without an event: whoever comes back before the first one says from where on nothing was told."""
    return f"id: {number}\n\n".encode()


async def until_ended(
    exchange: Exchange,
    frames: AsyncGenerator[bytes],
    *,
    first: bytes,
    view: View,
    ended: asyncio.Event,
    teams: frozenset[str],
) -> None:
    """Writes `first` and `frames` until they are over, or one of the reasons to end applies; ends the answer.

    One of them is that the caller may not see one of `teams` any more.
    """

    async def write() -> None:
        async with asyncio.timeout(WRITE_SECONDS):
            await exchange.write(first)
        async with aclosing(frames):
            async for frame in frames:
                async with asyncio.timeout(WRITE_SECONDS):
                    await exchange.write(frame)

    reasons = (view.revoked.wait(), view.lost(teams), ended.wait(), asyncio.sleep(LIFE_SECONDS))
    # A peer that does not read has no use for a proper end, and would hold it up.
    with suppress(TimeoutError):
        if await while_connected(exchange, write(), until=reasons):
            async with asyncio.timeout(END_SECONDS):
                await exchange.end()
