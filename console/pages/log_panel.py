"""The log under its tab: the last lines, those around one, those before one, or what came since."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest

from console.pages.reading import PageReading
from foundation.errors import NotFound
from foundation.http.query import refuse
from foundation.models import PlatformSettings
from logs.ansi import ansi_to_html
from logs.cursor import LogCursor
from logs.lines import time_of
from logs.places import LinePlace, place_of
from logs.search import LinesFound, bound_of, find_lines, first_line
from logs.workload_logs import (
    LEVELS,
    NO_ATTEMPT,
    Bound,
    LineFilter,
    LogLine,
    LogPage,
    read_lines,
)

LOG_TAIL_LINES: Final = 500
LOG_FOLLOW_LINES_MAX: Final = 2_000
LINES_AROUND: Final = 250
"""How many lines before a line that was asked for are shown with it, and how many after."""
PODS_MAX: Final = 300
CHIPS_MAX: Final = 12
"""Of more pods than these one is chosen from a list."""
RANKS: Final = 8
"""In how many colours pods are told apart."""
FIRST_ERROR: Final = "first-error"
ONLY: Final = "1"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What the address asks for. `searched` is what is looked for, `shown` what lines are shown at all."""

    attempt: int | None
    pod: str | None
    cursor: str | None
    before: str
    line: str
    only: bool
    searched: LineFilter
    shown: LineFilter

    @classmethod
    def of(cls, request: HttpRequest) -> _Asked:
        """Raises Malformed naming the parameter."""
        given = request.GET
        searched = LineFilter.of(search=given.get("search") or None, level=given.get("level") or None)
        only = given.get("only") == ONLY
        return cls(
            attempt=_number(request, "attempt"),
            pod=given.get("pod") or None,
            cursor=given.get("cursor") or None,
            before=given.get("before") or "",
            line=given.get("line") or "",
            only=only,
            searched=searched,
            shown=searched if only else LineFilter(level=searched.level),
        )

    @property
    def query(self) -> dict[str, str]:
        """What of it stays as one goes on: parameters by their names."""
        asked = {
            "level": self.searched.level,
            "search": self.searched.text,
            "only": ONLY if self.only else "",
        }
        return {name: value for name, value in asked.items() if value}


def logs(asked: PageReading[Any]) -> dict[str, Any]:
    """The last lines of one attempt, or what came after `cursor`, or those around `line`, or before `before`. Raises Malformed,
    NotFound as `read_lines`.

    Who reads the newest attempt goes on with the one after it: `log_moves` says that the panel is of that one now. Who
    chose an older one stays with it.
    """
    wants = _Asked.of(asked.request)
    newest = asked.workload.attempt_number
    view = _read(asked, wants)
    began = LogCursor.decode(wants.cursor).attempt if wants.cursor and wants.attempt is None else newest
    # Before an attempt there was nothing to read to its end, nor anything to choose from above the lines.
    moves = began < newest and (began == NO_ATTEMPT or not view.page.more)
    pod = wants.pod
    if moves:
        pod = None
        page = read_lines(asked.workload, tail=LOG_TAIL_LINES, wanted=wants.shown, attempts=asked.attempts)
        view = _View(page)
    page = view.page
    chosen = page.attempt if page.attempt < newest else None
    names = page.pod_names[:PODS_MAX]
    return {
        "log": page,
        "log_lines": _shown(view.lines, page, wants, marked=view.marked),
        "log_wanted": wants.searched,
        "log_only": wants.only,
        "log_levels": LEVELS,
        "log_found": view.found,
        "log_note": view.note,
        "log_attempts": list(range(1, newest + 1)),
        "log_pods": names,
        "log_chips": _chips(names) if 1 < len(names) <= CHIPS_MAX else [],
        "log_several": page.pods > 1,
        "log_pod": pod or "",
        "log_attempt": chosen or "",
        "log_moves": moves,
        "log_begun": bool(view.lines) or page.has_started,
        "log_apart": view.apart,
        # Without a script nothing else brings the line into sight.
        "log_focus": "HX-Request" not in asked.request.headers,
        "log_follows": page.more or not page.complete,
        "log_waits": page.complete and chosen is None and not asked.workload.is_final,
        "log_tail": LOG_TAIL_LINES,
        "retention_days": None if page.expires_at else PlatformSettings.current().log_retention_days,
        **_links(wants, view, pod=pod, chosen=chosen),
    }


@dataclass(frozen=True, slots=True)
class _View:
    """What is shown. `page` is that which one follows on from; `lines` are those of it, behind those before a line that was
    asked for. `apart`: newer lines than these are not read by themselves.
    """

    page: LogPage
    before: tuple[LogLine, ...] = ()
    older: Bound | None = None
    marked: LinePlace | None = None
    found: LinesFound | None = None
    note: str = ""
    apart: bool = False

    @property
    def lines(self) -> list[LogLine]:
        """Each once: what is read from a time on may begin before the line that was written then."""
        known = {(line.pod, line.container, line.number) for line in self.before}
        return [
            *self.before,
            *(line for line in self.page.lines if (line.pod, line.container, line.number) not in known),
        ]


def _read(asked: PageReading[Any], wants: _Asked) -> _View:
    """As the address asks. What cannot be found is said above the last lines."""
    if wants.cursor:
        page = read_lines(
            asked.workload,
            attempt=wants.attempt,
            pod=wants.pod,
            cursor=wants.cursor,
            limit=LOG_FOLLOW_LINES_MAX,
            wanted=wants.shown,
            attempts=asked.attempts,
        )
        return _View(page)
    if wants.before:
        page = _last(asked, wants, before=_bound(asked, wants, wants.before, "before"))
        return _View(page, older=page.older, apart=True)
    try:
        return _around(asked, wants)
    except NotFound as error:
        # Of an attempt or a pod that is not there it says so, too.
        page = _last(asked, wants)
        return _View(page, older=page.older, found=_found(asked, wants, None), note=error.message)


def _around(asked: PageReading[Any], wants: _Asked) -> _View:
    """The lines around the one that is asked for, which may be the first that is searched; else the last ones."""
    place, found = _wanted_place(asked, wants)
    if place is None:
        page = _last(asked, wants)
        return _View(page, older=page.older, found=found)
    number = _attempt(asked, wants)
    bound = bound_of(asked.workload, place, attempt=number, pod=wants.pod)
    before = _last(asked, wants, before=bound, tail=LINES_AROUND)
    page = read_lines(
        asked.workload,
        pod=wants.pod,
        cursor=LogCursor(attempt=number, since=time_of(bound[0])).encode(),
        limit=LINES_AROUND,
        wanted=wants.shown,
        attempts=asked.attempts,
    )
    return _View(
        page,
        before=tuple(before.lines),
        older=before.older,
        marked=place,
        found=found or _found(asked, wants, bound),
    )


def _wanted_place(asked: PageReading[Any], wants: _Asked) -> tuple[LinePlace | None, LinesFound | None]:
    """The line to show, and what was found on the way to it."""
    if wants.line == FIRST_ERROR:
        number = _attempt(asked, wants)
        error = first_line(asked.workload, LineFilter(level="error"), attempt=number, pod=wants.pod)
        if error is None:
            raise NotFound("No line of it is an error.")
        return _place(error), None
    if wants.line:
        return LinePlace.of(wants.line, parameter="line"), None
    found = _found(asked, wants, None)
    if not wants.searched.text or wants.only or found is None or found.following is None:
        return None, found
    first = _place(found.following)
    return first, _found(
        asked, wants, bound_of(asked.workload, first, attempt=_attempt(asked, wants), pod=None)
    )


def _place(line: LogLine) -> LinePlace:
    return place_of(number=line.number, pod=line.pod, container=line.container, alone=False)


def _attempt(asked: PageReading[Any], wants: _Asked) -> int:
    return asked.workload.attempt_number if wants.attempt is None else wants.attempt


def _last(
    asked: PageReading[Any], wants: _Asked, *, before: Bound | None = None, tail: int = LOG_TAIL_LINES
) -> LogPage:
    return read_lines(
        asked.workload,
        attempt=wants.attempt,
        pod=wants.pod,
        tail=tail,
        wanted=wants.shown,
        attempts=asked.attempts,
        before=before,
    )


def _found(asked: PageReading[Any], wants: _Asked, at: Bound | None) -> LinesFound | None:
    """How many lines are what is asked for, and which are beside the reader's place; None where all are."""
    if not wants.searched:
        return None
    return find_lines(asked.workload, wants.searched, attempt=_attempt(asked, wants), pod=wants.pod, at=at)


# --- what the template needs


def _shown(
    lines: Sequence[LogLine], page: LogPage, wants: _Asked, *, marked: LinePlace | None
) -> list[dict[str, Any]]:
    """A row a line. The pod stands in it where there are several."""
    alone = page.pods <= 1
    ranks = {name: rank for rank, name in enumerate(page.pod_names)}
    labels = _labels(page.pod_names)
    search = re.compile(re.escape(wants.searched.text), re.IGNORECASE) if wants.searched.text else None
    target = (marked.pod, marked.container, marked.number) if marked else None
    rows = []
    for line in lines:
        place = place_of(number=line.number, pod=line.pod, container=line.container, alone=alone)
        here = {(line.pod, place.container, line.number), ("", place.container, line.number)}
        rows.append(
            {
                "id": str(place),
                "at": line.at,
                "pod": line.pod,
                "label": "" if alone else labels.get(line.pod, line.pod),
                "rank": ranks.get(line.pod, 0) % RANKS,
                "html": ansi_to_html(line.text, search),
                "continued": line.continued,
                "number": line.number,
                "marked": target in here,
            }
        )
    return rows


def _labels(names: Sequence[str]) -> Mapping[str, str]:
    """What tells the pods apart: their names without what all begin with."""
    if len(names) < 2:
        return {name: name for name in names}
    # Whole words only: worker-1 and worker-10 begin alike up to the number.
    first, last = min(names), max(names)
    same = next((place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    cut = first[:same].rfind("-") + 1
    return {name: name[cut:] or name for name in names}


def _chips(names: Sequence[str]) -> list[dict[str, Any]]:
    labels = _labels(names)
    return [{"name": name, "label": labels[name], "rank": rank % RANKS} for rank, name in enumerate(names)]


def _links(wants: _Asked, view: _View, *, pod: str | None, chosen: int | None) -> dict[str, Any]:
    """The queries of the links, each behind `?` of the page's address."""
    page = view.page
    followed = {"tab": "logs", **({"attempt": chosen} if chosen else {}), "pod": pod or ""}
    # A link that others get means this attempt and, where it shows one alone, this pod for ever.
    only_pod = page.pod_names[0] if page.pods == 1 and len(page.pod_names) == 1 else pod
    shared = {"tab": "logs", "attempt": page.attempt, **({"pod": only_pod} if only_pod else {})}
    stays = {**shared, **wants.query}
    found = view.found
    return {
        "log_query": urlencode({**followed, **wants.query}),
        "log_link": urlencode(shared),
        "log_all": urlencode(shared),
        "log_context": urlencode({name: value for name, value in stays.items() if name != "only"}),
        "log_chip": urlencode({"tab": "logs", "attempt": page.attempt, **wants.query}),
        "log_older": urlencode({**stays, "before": _before(view.older)}) if view.older else "",
        "log_first_error": urlencode({**shared, "line": FIRST_ERROR}),
        "log_previous": _to(stays, found.previous if found and view.marked else None),
        "log_next": _to(stays, found.following if found and view.marked else None),
        "log_whole": urlencode({"times": 1, "download": 1, **_of_log(page, pod)}),
        "log_these": urlencode({"times": 1, "download": 1, **_of_log(page, pod), **_filters(wants.searched)})
        if wants.searched
        else "",
    }


def _to(stays: Mapping[str, Any], line: LogLine | None) -> str:
    return urlencode({**stays, "line": str(_place(line))}) if line else ""


def _of_log(page: LogPage, pod: str | None) -> dict[str, Any]:
    return {**({"attempt": page.attempt} if page.attempt else {}), **({"pod": pod} if pod else {})}


def _filters(wanted: LineFilter) -> dict[str, str]:
    return {name: value for name, value in (("search", wanted.text), ("level", wanted.level)) if value}


_BEFORE = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z)(?:\.(?P<stream>[0-9a-f]{12})\.(?P<chunk>\d{1,9})\.(?P<end>\d{1,9}))?",
    re.ASCII,
)


def _before(bound: Bound) -> str:
    """A place in the log as an address has it."""
    at, stream, chunk, end = bound
    return f"{at.decode()}.{stream.hex()}.{chunk}.{end}" if stream else at.decode()


def _bound(asked: PageReading[Any], wants: _Asked, text: str, parameter: str) -> Bound:
    """The place that an address names by itself, or by the line that begins there."""
    if (match := _BEFORE.fullmatch(text)) is None:
        place = LinePlace.of(text, parameter=parameter)
        return bound_of(asked.workload, place, attempt=_attempt(asked, wants), pod=wants.pod)
    try:
        datetime.fromisoformat(match["at"][:26])
    except ValueError:
        raise refuse(parameter, "must name a line or a place of this log.") from None
    stream = bytes.fromhex(match["stream"] or "")
    return match["at"].encode(), stream, int(match["chunk"] or 0), int(match["end"] or 0)


def _number(request: HttpRequest, name: str) -> int | None:
    raw = request.GET.get(name) or None
    if raw is None:
        return None
    if not raw.isascii() or not raw.isdigit() or len(raw) > 9:
        raise refuse(name, "must be a whole number.")
    return int(raw)
