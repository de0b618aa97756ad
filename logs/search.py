"""Finding lines in stored logs: one by its number, those that somebody searches, the first error. Never asks the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import QuerySet

from foundation.errors import NotFound
from logs import lines as log_lines
from logs.cursor import LogCursor, stream_key
from logs.matching import LineFilter
from logs.places import PROGRAMS, LinePlace
from logs.reading import (
    EVERYTHING,
    TAIL_ROWS_MAX,
    Bound,
    Item,
    LogLine,
    chunks_of,
    items_of,
    read_lines,
    shown_line,
)
from logs.store import NO_CONTAINER
from workloads.models import LogChunk, Workload

COUNT_BYTES_MAX: Final = 16 * 2**20
FIRST_PAGES_MAX: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LinesFound:
    """What a search found. Where not `complete`, it looked through the newest 16 MiB alone. With a place that the reader is at:
    `position` is that of the last match up to it, counted from 1 (0 before the first), `previous` and `following` are the
    matches beside it. Without: `following` is the first.
    """

    count: int
    complete: bool
    position: int = 0
    previous: LogLine | None = None
    following: LogLine | None = None


def count_lines(
    workload: Workload, wanted: LineFilter, *, attempt: int | None, pod: str | None, since: datetime | None
) -> tuple[int, bool]:
    """How many of the stored lines are wanted, and whether that is all of them: of a log of more than 16 MiB only the newest
    are counted.
    """
    found = find_lines(workload, wanted, attempt=attempt, pod=pod, since=since)
    return found.count, found.complete


def find_lines(
    workload: Workload,
    wanted: LineFilter,
    *,
    attempt: int | None,
    pod: str | None,
    since: datetime | None = None,
    at: Bound | None = None,
) -> LinesFound:
    """The wanted lines among those that are stored, and where a reader at the place `at` stands among them."""
    number = workload.attempt_number if attempt is None else attempt
    chunks = _stored(workload, number, pod)
    rows = (chunks.filter(last_at__gte=since) if since else chunks).order_by("-last_at", "-sequence")
    oldest = log_lines.stamp_of(since) if since else b""
    count = position = size = 0
    complete = True
    previous: Item | None = None
    following: Item | None = None
    for place, row in enumerate(rows[: TAIL_ROWS_MAX + 1]):
        if size >= COUNT_BYTES_MAX or place == TAIL_ROWS_MAX:
            complete = False
            break
        size += row.size_bytes
        for item in items_of(stream_key(row.pod_uid, row.container), row, wanted):
            if item.stamp < oldest:
                continue
            count += 1
            if at is not None and item.bound <= at:
                position += 1
                if item.bound < at and (previous is None or item.bound > previous.bound):
                    previous = item
            elif following is None or item.bound < following.bound:
                following = item
    return LinesFound(
        count=count,
        complete=complete,
        position=position,
        previous=shown_line(previous) if previous else None,
        following=shown_line(following) if following else None,
    )


def bound_of(workload: Workload, place: LinePlace, *, attempt: int, pod: str | None) -> Bound:
    """Where a line stands among all of its attempt. Raises NotFound where nothing stored has it (any more)."""
    chunks = _stored(workload, attempt, place.pod or pod)
    rows = chunks.filter(first_line__lte=place.number)
    if place.container:
        rows = rows.filter(container=place.container)
    else:
        programs = rows.filter(container__in=PROGRAMS)
        rows = programs if programs.exists() else rows
    row = rows.order_by("-first_line", "-last_at").first()
    if row is not None and place.number < row.first_line + row.lines:
        for item in items_of(stream_key(row.pod_uid, row.container), row, EVERYTHING):
            if item.number == place.number:
                return item.bound
    raise NotFound(f"Line {place} is not kept, or was never written.")


def first_line(workload: Workload, wanted: LineFilter, *, attempt: int, pod: str | None) -> LogLine | None:
    """The oldest wanted line; None where the first 128 MiB have none."""
    cursor: str | None = None
    for _ in range(FIRST_PAGES_MAX):
        chosen = attempt if cursor is None else None
        page = read_lines(workload, attempt=chosen, pod=pod, cursor=cursor, limit=1, wanted=wanted)
        if page.lines:
            return page.lines[0]
        if not page.more:
            break
        cursor = page.cursor
    return None


def _stored(workload: Workload, attempt: int, pod: str | None) -> QuerySet[LogChunk]:
    """The index rows with lines."""
    return chunks_of(workload, LogCursor(attempt=attempt), pod).exclude(container=NO_CONTAINER)
