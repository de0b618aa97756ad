"""`/-/invoke/{ticket}/{path}`: where `endpoints/{id}/invoke/` of REST leads to, one request for one ticket."""

from __future__ import annotations

from collections.abc import Iterable

from controller.routes import Route
from foundation import clock
from foundation.errors import NotFound, NotSignedIn
from gateway import tickets
from gateway.invocations import harmless_headers, sent_headers
from gateway.live.audience import REVOKED
from gateway.live.callers import NOT_FOUND
from gateway.live.events import cors_headers
from gateway.live.exchange import Exchange
from gateway.live.passthrough import Invited
from gateway.live.state import Live

_UPSTREAM_STATUS = "X-Portal-Upstream-Status"


async def serve_invoke(exchange: Exchange, text: str, path: str, *, live: Live) -> None:
    """Passes the request on as the gateway does: held, limited and counted alike.

    Raises NotSignedIn for a bad or spent ticket and for rights that ended meanwhile, NotFound for who may not see the
    endpoint (any more).
    """
    exchange.also = [*cors_headers(), ("Access-Control-Expose-Headers", f"{_UPSTREAM_STATUS}, X-Request-Id")]
    if exchange.method == "OPTIONS" and exchange.header("access-control-request-method"):
        await _allow(exchange)
        return
    ticket = await live.rows.ask(tickets.read, text, purpose=tickets.INVOKE, now=clock.now())
    invoking = tickets.invoking_of(ticket.resource)
    team = frozenset({invoking.team})
    async with live.invokers.join(ticket.principal) as view:
        await live.rows.ask(tickets.spend, ticket, now=clock.now())

        async def check(route: Route | None) -> None:
            if view.revoked.is_set():
                raise NotSignedIn(REVOKED, code="revoked")
            if route is None or route.public_id != invoking.endpoint or not team <= view.slugs:
                raise NotFound(NOT_FOUND)

        invited = Invited(
            key=(invoking.team, invoking.name),
            path=path,
            check=check,
            sent=sent_headers,
            returned=_returned,
            until=lambda: [view.revoked.wait(), view.lost(team)],
        )
        await live.gateway.serve_invited(exchange, invited)
        if not exchange.status:
            await check(None)


async def _allow(exchange: Exchange) -> None:
    """What a browser asks before it follows from the portal's pages; the ticket stays good."""
    exchange.also += [
        ("Access-Control-Allow-Methods", exchange.header("access-control-request-method")),
        ("Access-Control-Allow-Headers", exchange.header("access-control-request-headers")),
    ]
    await exchange.answer(204, b"")


def _returned(status: int, headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    given = list(headers)
    lengths = [(name, value) for name, value in given if name.lower() == "content-length"]
    shown = {**harmless_headers(given), "Cross-Origin-Resource-Policy": "cross-origin"}
    return [*shown.items(), *lengths, (_UPSTREAM_STATUS, str(status))]
