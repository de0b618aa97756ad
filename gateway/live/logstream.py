"""`/-/logs/{workload}/`: an attempt's log while it is being written, as text for terminals or as events for pages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import parse_qs
from uuid import UUID

from foundation import clock
from foundation.digits import whole_number
from foundation.errors import Malformed, NotFound
from gateway.live.audience import View
from gateway.live.events import PING_SECONDS, stream_headers, until_ended
from gateway.live.exchange import Exchange
from gateway.live.hub import PING
from gateway.live.state import Live
from logs.api import TICKET_PURPOSE
from logs.workload_logs import LineFilter, LogLine, LogPage, read_lines
from teams import tickets
from workloads.models import Workload

LINES_A_PAGE: Final = 1_000
_FORMATS: Final = {"text": "text/plain; charset=utf-8", "sse": "text/event-stream; charset=utf-8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which lines; the names are those of the REST call `logs/`."""

    attempt: int | None = None
    pod: str | None = None
    tail: int | None = None
    since: datetime | None = None
    cursor: str | None = None
    wanted: LineFilter

    @classmethod
    def of(cls, exchange: Exchange) -> Selection:
        """Raises Malformed naming the argument."""
        arguments = {name: values[0] for name, values in parse_qs(exchange.query).items()}
        return cls(
            attempt=_number(arguments, "attempt"),
            pod=arguments.get("pod"),
            tail=_number(arguments, "tail"),
            since=_moment(arguments, "since"),
            cursor=exchange.header("last-event-id") or arguments.get("cursor"),
            wanted=LineFilter.of(search=arguments.get("search"), level=arguments.get("level")),
        )

    def first(self) -> dict[str, Any]:
        """What `read_lines` takes for the first page."""
        return {name: getattr(self, name) for name in self.__slots__}

    def after(self, page: LogPage) -> dict[str, Any]:
        """The same for the page that follows."""
        return {"pod": self.pod, "cursor": page.cursor, "wanted": self.wanted}


async def serve_logs(exchange: Exchange, workload_id: UUID, *, live: Live) -> None:
    """Streams until everything is written, or one of the ends of an event stream.

    Raises, before the answer has begun, NotSignedIn for a bad or spent ticket, NotFound for who may not see the workload (any
    more) and for an attempt or pod that there is not, Malformed, and what `Audience.join` raises.
    """
    ticket = await live.log_rows.ask(
        tickets.read,
        exchange.argument("ticket"),
        purpose=TICKET_PURPOSE,
        resource=str(workload_id),
        now=clock.now(),
    )
    selection = Selection.of(exchange)
    how = exchange.argument("format") or "text"
    if how not in _FORMATS:
        raise Malformed.of_field("format", "format: must be text or sse.")
    async with live.audience.join(ticket.principal) as view:
        workload = await live.log_rows.ask(_workload, workload_id)
        if workload is None or workload.team.slug not in view.slugs:
            raise NotFound("There is no such workload, or it is not yours.")
        bell = live.log_bell.add(str(workload_id))
        try:
            page = await live.log_rows.ask(read_lines, workload, **selection.first(), limit=LINES_A_PAGE)
            await live.log_rows.ask(tickets.spend, ticket, now=clock.now())
            frames = _Follower(live, workload, selection, view, bell, as_events=how == "sse").frames(page)
            await exchange.start(200, stream_headers(_FORMATS[how]))
            teams = frozenset({workload.team.slug})
            await until_ended(exchange, frames, first=b"", view=view, ended=live.stopping, teams=teams)
        finally:
            live.log_bell.remove(str(workload_id), bell)


@dataclass(slots=True)
class _Follower:
    """Reads on whenever the bell rings, and at least every fifteen seconds, should a ring have been lost."""

    live: Live
    workload: Workload
    selection: Selection
    view: View
    bell: asyncio.Event
    as_events: bool

    async def frames(self, page: LogPage) -> AsyncGenerator[bytes]:
        render = events_of if self.as_events else text_of
        # What may have ended meanwhile is shown nothing: neither where that is known, nor while it cannot be asked.
        while self._may_see():
            if page.lines:
                yield render(page)
            if page.complete and not page.more:
                if self.as_events:
                    yield b"event: end\ndata: {}\n\n"
                return
            if not page.more and not await self._rung() and self.as_events:
                yield PING
            self.bell.clear()
            page = await self.live.log_rows.ask(
                read_lines, self.workload, **self.selection.after(page), limit=LINES_A_PAGE
            )

    def _may_see(self) -> bool:
        return self.view.is_fresh() and self.workload.team.slug in self.view.slugs

    async def _rung(self) -> bool:
        try:
            async with asyncio.timeout(PING_SECONDS):
                await self.bell.wait()
        except TimeoutError:
            return False
        return True


def text_of(page: LogPage) -> bytes:
    """Lines as they were written; each begins with its pod's name where the attempt has several."""
    several = page.pods > 1
    parts: list[str] = []
    for index, line in enumerate(page.lines):
        joined = _goes_on(page.lines, index - 1)
        parts.append(f"[{line.pod}] " if several and not joined else "")
        parts.append(line.text)
        parts.append("" if _goes_on(page.lines, index) else "\n")
    return "".join(parts).encode("utf-8", "replace")


def events_of(page: LogPage) -> bytes:
    """One event of many lines; its id is the cursor after them."""
    data = {"attempt": page.attempt, "lines": list(_shown(page.lines))}
    text = json.dumps(data, separators=(",", ":"))
    return f"id: {page.cursor}\nevent: lines\ndata: {text}\n\n".encode("utf-8", "replace")


def _shown(lines: Iterable[LogLine]) -> Iterable[dict[str, Any]]:
    return (
        {
            "at": line.at.isoformat().replace("+00:00", "Z"),
            "pod": line.pod,
            "container": line.container,
            "text": line.text,
            "continued": line.continued,
            "number": line.number,
        }
        for line in lines
    )


def _goes_on(lines: list[LogLine], index: int) -> bool:
    """Whether the line after `index` is a further piece of it."""
    if not 0 <= index < len(lines) - 1:
        return False
    line, after = lines[index], lines[index + 1]
    return after.continued and (after.pod, after.container, after.at) == (line.pod, line.container, line.at)


def _workload(public_id: UUID) -> Workload | None:
    return Workload.objects.select_related("team").filter(public_id=public_id).first()


def _number(arguments: Mapping[str, str], name: str) -> int | None:
    text = arguments.get(name)
    if text is None:
        return None
    number = whole_number(text)
    if number is None:
        raise Malformed.of_field(name, f"{name}: must be a whole number.")
    return number


def _moment(arguments: Mapping[str, str], name: str) -> datetime | None:
    text = arguments.get(name)
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise Malformed.of_field(name, f"{name}: must be an RFC 3339 time with a zone.")
    return at
