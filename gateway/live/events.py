"""`/-/events/`: server-sent events of what the caller may see, for as long as the page is open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from django.conf import settings

from gateway.live.audience import Audience, View
from gateway.live.exchange import NO_STORE, Exchange, Headers, while_connected
from gateway.live.hub import Hub, Subscription
from gateway.queries import Principal

PING_SECONDS = 15.0
# A peer that takes nothing for so long is gone, whatever its connection says.
WRITE_SECONDS = 30.0
END_SECONDS = 1.0
# Then the page asks for a new ticket, so no user who has signed out goes on looking for ever.
LIFE_SECONDS = 3600.0
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


async def serve_events(exchange: Exchange, principal: Principal, *, hub: Hub, audience: Audience) -> None:
    """Streams until the caller hangs up, loses its rights, reads too slowly or an hour has passed.

    Raises what `Audience.join` raises, before the answer has begun.
    """
    async with audience.join(principal) as view:
        subscription = Subscription(view)
        hub.add(subscription)
        try:
            last_id = exchange.argument("last_event_id") or exchange.header("last-event-id")
            first = _RETRY + hub.backlog(last_id, view)
            await exchange.start(200, stream_headers("text/event-stream; charset=utf-8"))
            frames = subscription.frames(ping_seconds=PING_SECONDS)
            await until_ended(exchange, frames, first=first, view=view, ended=subscription.ended)
        finally:
            hub.remove(subscription)


async def until_ended(
    exchange: Exchange, frames: AsyncGenerator[bytes], *, first: bytes, view: View, ended: asyncio.Event
) -> None:
    """Writes `first` and `frames` until they are over, or one of the reasons to end applies; ends the answer."""

    async def write() -> None:
        await exchange.write(first)
        async with aclosing(frames):
            async for frame in frames:
                async with asyncio.timeout(WRITE_SECONDS):
                    await exchange.write(frame)

    reasons = (view.revoked.wait(), ended.wait(), asyncio.sleep(LIFE_SECONDS))
    # A peer that does not read has no use for a proper end, and would hold it up.
    with suppress(TimeoutError):
        if await while_connected(exchange, write(), until=reasons):
            async with asyncio.timeout(END_SECONDS):
                await exchange.end()
