"""`logs/` of a run or an endpoint: stored lines as text or JSON; following is the live process's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.http import (
    HttpResponse,
    HttpResponseBase,
    HttpResponseRedirect,
    JsonResponse,
    StreamingHttpResponse,
)
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request

from foundation import clock
from foundation.http.filters import asked_moment
from foundation.http.query import check_query_parameters, one, refuse
from logs.search import count_lines
from logs.workload_logs import (
    LEVELS,
    LINES_MAX,
    LineFilter,
    LogLine,
    LogPage,
    read_lines,
)
from teams import tickets
from teams.api.base import AnyAccept
from workloads.models import Workload

TICKET_PURPOSE: Final = "logs"
LINES_DEFAULT: Final = 1_000
_NUMBER_MAX: Final = 2**31 - 1
# What a reader may choose; the live process gets the same choices.
_CHOICES: Final = ("attempt", "pod", "tail", "since", "cursor", "search", "level")
_SWITCH: Final = {"0": False, "1": True, "false": False, "true": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """The query parameters, checked."""

    attempt: int | None
    pod: str | None
    tail: int | None
    since: datetime | None
    cursor: str | None
    wanted: LineFilter
    limit: int | None
    follow: bool
    as_json: bool
    times: bool
    download: bool

    @property
    def selection(self) -> dict[str, Any]:
        """What `read_lines` takes, less the limit."""
        return {
            "attempt": self.attempt,
            "pod": self.pod,
            "tail": self.tail,
            "since": self.since,
            "cursor": self.cursor,
            "wanted": self.wanted,
        }


def parse_log_query(request: Any) -> LogQuery:
    """Raises Malformed naming the parameter."""
    check_query_parameters(request, {*_CHOICES, "limit", "follow", "format", "times", "download"})
    return LogQuery(
        attempt=_number(request, "attempt", at_most=_NUMBER_MAX),
        pod=one(request, "pod"),
        tail=_number(request, "tail", at_most=LINES_MAX),
        since=asked_moment(request, "since"),
        cursor=one(request, "cursor"),
        limit=_number(request, "limit", at_least=1, at_most=LINES_MAX),
        wanted=LineFilter.of(search=one(request, "search"), level=one(request, "level")),
        follow=_choice(request, "follow", _SWITCH, default=False),
        times=_choice(request, "times", _SWITCH, default=False),
        download=_choice(request, "download", _SWITCH, default=False),
        as_json=_choice(request, "format", {"text": False, "json": True}, default=False),
    )


class LogsAction:
    """`logs/` of a workload that the view set finds."""

    find: Callable[[Any, UUID], Workload]

    @extend_schema(
        summary="Logs of one {one}",
        parameters=[
            OpenApiParameter("attempt", int, description="Which attempt; the newest unless given."),
            OpenApiParameter("pod", str, description="The name of one pod; all of the attempt unless given."),
            OpenApiParameter("tail", int, description="Only the last lines, at most 10,000."),
            OpenApiParameter("since", OpenApiTypes.DATETIME, description="Only lines from then on."),
            OpenApiParameter("cursor", str, description="Go on after a page of format=json."),
            OpenApiParameter(
                "search", str, description="Only lines that contain this text, in whatever case."
            ),
            OpenApiParameter(
                "level", str, enum=LEVELS, description="Only lines that say this level or a worse one."
            ),
            OpenApiParameter("limit", int, description="At most so many lines (10,000)."),
            OpenApiParameter("times", str, enum=["0", "1"], description="Text: each line behind its time."),
            OpenApiParameter("download", str, enum=["0", "1"], description="As a file with a name."),
            OpenApiParameter(
                "follow",
                str,
                enum=["0", "1"],
                description="307 to the live process; with format=json server-sent events, which go on by Last-Event-ID.",
            ),
            OpenApiParameter("format", str, enum=["text", "json"], description="text unless given."),
        ],
        responses={
            (200, "text/plain"): OpenApiTypes.STR,
            (200, "application/json"): OpenApiTypes.OBJECT,
            307: None,
        },
    )
    @action(detail=True, content_negotiation_class=AnyAccept)
    def logs(self, request: Request, public_id: UUID) -> HttpResponseBase:
        """Stored log lines of an attempt, of one pod or of all merged by time; `follow=1` leads to `live`."""
        workload = self.find(request.user, public_id)
        query = parse_log_query(request)
        if query.follow:
            return _redirect(request, workload, as_events=query.as_json)
        limit = query.limit or (LINES_MAX if query.tail else LINES_DEFAULT)
        page = read_lines(workload, **query.selection, limit=limit)
        response = _json(page, _matches(workload, query)) if query.as_json else _text(workload, page, query)
        if query.download:
            kind = "json" if query.as_json else "log"
            name = f"{workload.name}-attempt-{page.attempt}.{kind}"
            response["Content-Disposition"] = f'attachment; filename="{name}"'
        response["X-Content-Type-Options"] = "nosniff"
        response["Cache-Control"] = "no-store"
        if page.expires_at is not None:
            response["X-Log-Retention-Expires"] = _written(page.expires_at)
        return response


def _redirect(request: Request, workload: Workload, *, as_events: bool) -> HttpResponse:
    resource = str(workload.public_id)
    ticket = tickets.mint(request, purpose=TICKET_PURPOSE, resource=resource, now=clock.now())
    chosen = {name: value for name in _CHOICES if (value := one(request, name)) is not None}
    if as_events:
        chosen["format"] = "sse"
    if last_id := request.headers.get("Last-Event-ID"):
        chosen["cursor"] = last_id
    query = urlencode({"ticket": ticket, **chosen})
    response = HttpResponseRedirect(f"{settings.LIVE_URL}/-/logs/{workload.public_id}/?{query}")
    # The same method again, and no cache may keep a ticket.
    response.status_code = 307
    response["Cache-Control"] = "no-store"
    return response


def _matches(workload: Workload, query: LogQuery) -> dict[str, Any] | None:
    """How many lines are wanted; None where all are, and for a further page."""
    if not query.wanted or query.cursor:
        return None
    count, complete = count_lines(
        workload, query.wanted, attempt=query.attempt, pod=query.pod, since=query.since
    )
    return {"count": count, "complete": complete}


def _json(page: LogPage, matches: dict[str, Any] | None) -> HttpResponse:
    return JsonResponse(
        {
            "attempt": page.attempt,
            "lines": [
                {
                    "at": _written(line.at),
                    "pod": line.pod,
                    "container": line.container,
                    "text": line.text,
                    "continued": line.continued,
                    "number": line.number,
                }
                for line in page.lines
            ],
            "matches": matches,
            "cursor": page.cursor,
            "more": page.more,
            "complete": page.complete,
            "retention_expires_at": _written(page.expires_at) if page.expires_at else None,
        }
    )


def _text(workload: Workload, page: LogPage, query: LogQuery) -> StreamingHttpResponse:
    """All that is stored, page after page, unless a limit or tail was asked for."""

    def pages() -> Iterator[LogPage]:
        current = page
        yield current
        while current.more and query.limit is None:
            current = read_lines(
                workload, cursor=current.cursor, pod=query.pod, wanted=query.wanted, limit=LINES_DEFAULT
            )
            yield current

    return StreamingHttpResponse(
        as_text(pages(), times=query.times), content_type="text/plain; charset=utf-8"
    )


def as_text(pages: Iterator[LogPage], *, times: bool = False) -> Iterator[str]:
    """Lines as one text: behind the pod's name if the attempt has several, and behind its time with `times`; pieces of a long
    line joined again.
    """
    before: LogLine | None = None
    for page in pages:
        parts: list[str] = []
        for line in page.lines:
            joined = (
                line.continued
                and before is not None
                and (line.pod, line.container, line.at) == (before.pod, before.container, before.at)
            )
            if not joined:
                parts.append("\n" if before is not None else "")
                parts.append(f"{_written(line.at)} " if times else "")
                parts.append(f"[{line.pod}] " if page.pods > 1 else "")
            parts.append(line.text)
            before = line
        yield "".join(parts)
    if before is not None:
        yield "\n"


def _written(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


def _number(request: Any, name: str, *, at_least: int = 0, at_most: int) -> int | None:
    text = one(request, name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 12 and at_least <= int(text) <= at_most):
        raise refuse(name, f"must be a whole number from {at_least} to {at_most}.")
    return int(text)


def _choice(request: Any, name: str, values: dict[str, bool], *, default: bool) -> bool:
    text = one(request, name)
    if text is None:
        return default
    if text not in values:
        raise refuse(name, f"must be one of {', '.join(values)}.")
    return values[text]
