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

from controller.logs.workload_logs import LINES_MAX, LogLine, LogPage, read_lines
from foundation import clock
from foundation.http.filters import parse_moment
from foundation.http.query import check_query_parameters, one, refuse
from foundation.tickets import make_ticket
from teams.api.base import AnyAccept
from workloads.models import Workload

TICKET_PURPOSE: Final = "logs"
LINES_DEFAULT: Final = 1_000
_NUMBER_MAX: Final = 2**31 - 1
# What a reader may choose; the live process gets the same choices.
_CHOICES: Final = ("attempt", "pod", "tail", "since", "cursor")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """The query parameters, checked."""

    attempt: int | None
    pod: str | None
    tail: int | None
    since: datetime | None
    cursor: str | None
    limit: int | None
    follow: bool
    as_json: bool

    @property
    def selection(self) -> dict[str, Any]:
        """What `read_lines` takes, less the limit."""
        return {name: getattr(self, name) for name in _CHOICES}


def parse_log_query(request: Any) -> LogQuery:
    """Raises Malformed naming the parameter."""
    check_query_parameters(request, {*_CHOICES, "limit", "follow", "format"})
    return LogQuery(
        attempt=_number(request, "attempt", at_most=_NUMBER_MAX),
        pod=one(request, "pod"),
        tail=_number(request, "tail", at_most=LINES_MAX),
        since=_moment(request, "since"),
        cursor=one(request, "cursor"),
        limit=_number(request, "limit", at_least=1, at_most=LINES_MAX),
        follow=_choice(
            request, "follow", {"0": False, "1": True, "false": False, "true": True}, default=False
        ),
        as_json=_choice(request, "format", {"text": False, "json": True}, default=False),
    )


class LogsAction:
    """`logs/` of a workload that the view set finds."""

    find: Callable[[Any, UUID], Workload]

    @extend_schema(
        summary="Stored log lines of an attempt, of one pod or of all merged by time; `follow=1` leads to `live`.",
        parameters=[
            OpenApiParameter("attempt", int, description="Which attempt; the newest unless given."),
            OpenApiParameter("pod", str, description="The name of one pod; all of the attempt unless given."),
            OpenApiParameter("tail", int, description="Only the last lines, at most 10,000."),
            OpenApiParameter("since", OpenApiTypes.DATETIME, description="Only lines from then on."),
            OpenApiParameter("cursor", str, description="Go on after a page of format=json."),
            OpenApiParameter("limit", int, description="At most so many lines (10,000)."),
            OpenApiParameter("follow", str, enum=["0", "1"], description="307 to the live process."),
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
        """What its containers printed, as long as it is kept."""
        workload = self.find(request.user, public_id)
        query = parse_log_query(request)
        if query.follow:
            return _redirect(request, workload)
        limit = query.limit or (LINES_MAX if query.tail else LINES_DEFAULT)
        page = read_lines(workload, **query.selection, limit=limit)
        response = _json(page) if query.as_json else _text(workload, page, query)
        response["X-Content-Type-Options"] = "nosniff"
        response["Cache-Control"] = "no-store"
        if page.expires_at is not None:
            response["X-Log-Retention-Expires"] = _written(page.expires_at)
        return response


def _redirect(request: Request, workload: Workload) -> HttpResponse:
    ticket = make_ticket(
        user_id=int(request.user.pk or 0),
        purpose=TICKET_PURPOSE,
        resource=str(workload.public_id),
        now=clock.now(),
    )
    chosen = {name: value for name in _CHOICES if (value := one(request, name)) is not None}
    query = urlencode({"ticket": ticket, **chosen})
    response = HttpResponseRedirect(f"{settings.LIVE_URL}/-/logs/{workload.public_id}/?{query}")
    # The same method again, and no cache may keep a ticket.
    response.status_code = 307
    response["Cache-Control"] = "no-store"
    return response


def _json(page: LogPage) -> HttpResponse:
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
                }
                for line in page.lines
            ],
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
            current = read_lines(workload, cursor=current.cursor, pod=query.pod, limit=LINES_DEFAULT)
            yield current

    return StreamingHttpResponse(as_text(pages()), content_type="text/plain; charset=utf-8")


def as_text(pages: Iterator[LogPage]) -> Iterator[str]:
    """Lines as one text: behind the pod's name if the attempt has several; pieces of a long line joined again."""
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


def _moment(request: Any, name: str) -> datetime | None:
    text = one(request, name)
    if text is None:
        return None
    try:
        return parse_moment(text)
    except ValueError as error:
        raise refuse(name, str(error)) from error


def _choice(request: Any, name: str, values: dict[str, bool], *, default: bool) -> bool:
    text = one(request, name)
    if text is None:
        return default
    if text not in values:
        raise refuse(name, f"must be one of {', '.join(values)}.")
    return values[text]
