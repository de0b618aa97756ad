"""Reading stored logs: chunks merged over pods by time, from a cursor onwards or from the end. Never asks the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from heapq import merge
from operator import or_
from typing import Final, NamedTuple

from django.db.models import Q, QuerySet

from controller.logs import lines as log_lines
from controller.logs.cursor import LogCursor, stream_key
from controller.logs.store import NO_CONTAINER, read_chunk
from foundation.errors import NotFound
from foundation.http.query import refuse
from workloads.models import Attempt, LogChunk, PodRecord, Workload

LINES_MAX: Final = 10_000
LINES_DEFAULT: Final = 1_000
PAGE_BYTES_MAX: Final = 2 * 2**20
TAIL_BYTES_MAX: Final = 8 * 2**20
ROWS_MAX: Final = 64
TAIL_ROWS_MAX: Final = 512
NO_ATTEMPT: Final = 0
"""The place of a reader before the first attempt."""
_END: Final = b"~"


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line. `continued`: a further piece of the (very long) line before it from the same container."""

    at: datetime
    pod: str
    text: str
    container: str = ""
    continued: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """A page of lines, with the cursor for the next page.

    `more`: further stored lines are available. `complete`: the attempt has ended and is fully stored, so that once
    `more` is false nothing follows. `expires_at`: when the oldest stored part will be deleted, None without any.
    """

    attempt: int
    lines: list[LogLine]
    cursor: str
    more: bool
    complete: bool
    expires_at: datetime | None
    pods: int
    pod_names: tuple[str, ...] = ()
    """All pods of the attempt, also if one was asked for; the oldest first."""


class _Part(NamedTuple):
    """The stored lines; `whole` are the uids of pods whose log is stored to its end."""

    items: Sequence[_Item] = ()
    more: bool = False
    expires_at: datetime | None = None
    whole: frozenset[str] = frozenset()


class _Item(NamedTuple):
    """A stored line with its position; ordered by time, then by position."""

    stamp: bytes
    stream: bytes
    sequence: int
    end: int
    line: bytes
    chunk: LogChunk


def read_lines(
    workload: Workload,
    *,
    attempt: int | None = None,
    pod: str | None = None,
    tail: int | None = None,
    since: datetime | None = None,
    cursor: str | None = None,
    limit: int = LINES_DEFAULT,
    attempts: Sequence[Attempt] | None = None,
) -> LogPage:
    """Stored lines of one attempt (by default the newest), of all its pods or of the one named, by time.

    With `cursor`, the lines after it: none twice and none left out, in whatever order pods are stored. A reader that
    began before there was an attempt reads the first from its beginning. With `tail`, the last lines. A page ends after
    `limit` lines (at most 10,000) or 2 MiB. `attempts` are the workload's, for a caller that has just read them. Raises
    NotFound for an attempt or pod that does not exist, Malformed for a cursor of other logs.
    """
    place = _place(workload, attempt=attempt, since=since, cursor=cursor)
    begun = _attempt(workload, place.attempt, attempts)
    # Before the lines: a log that is complete now is fully contained in what is read next.
    pods = _pods(workload, place.attempt)
    read = pods if pod is None else {uid: name for uid, name in pods.items() if name == pod}
    if pod is not None and not read:
        raise NotFound(f"Attempt {place.attempt} of {workload.name} has no pod {pod}.")
    ended = _has_ended(workload, fresh=attempts is not None) if begun is None else begun.ended_at is not None
    if place.attempt == NO_ATTEMPT:
        part = _Part()
    elif tail is not None and cursor is None:
        part = _last(_chunks(workload, place, pod), place, count=min(tail, LINES_MAX))
    else:
        limit = max(1, min(limit, LINES_MAX))
        part = _next(_chunks(workload, place, pod), place, limit=limit, ended=ended)
    return LogPage(
        attempt=place.attempt,
        lines=[_shown(item) for item in part.items],
        cursor=place.encode(),
        more=part.more,
        complete=ended and (begun is None or read.keys() <= part.whole),
        expires_at=part.expires_at,
        pods=len(read),
        pod_names=tuple(pods.values()),
    )


def _place(
    workload: Workload, *, attempt: int | None, since: datetime | None, cursor: str | None
) -> LogCursor:
    if cursor is None:
        return LogCursor(attempt=workload.attempt_number if attempt is None else attempt, since=since)
    place = LogCursor.decode(cursor)
    if attempt is not None and attempt != place.attempt:
        raise refuse("cursor", f"is of attempt {place.attempt}, not {attempt}.")
    if place.attempt == NO_ATTEMPT:
        place.attempt = _first_attempt(workload)
    if since is not None:
        place.since = since
    return place


def _first_attempt(workload: Workload) -> int:
    """The number of the first attempt, read anew: a follower's workload object may be stale."""
    begun = Attempt.objects.filter(workload=workload).order_by("number").values_list("number", flat=True)
    return begun.first() or NO_ATTEMPT


def _attempt(workload: Workload, number: int, known: Sequence[Attempt] | None) -> Attempt | None:
    """The attempt; None only for the newest, if there was none yet; NotFound for another that does not exist."""
    of_it = Attempt.objects.filter(workload=workload, number=number) if known is None else known
    attempt = next((candidate for candidate in of_it if candidate.number == number), None)
    if attempt is None and number != workload.attempt_number:
        raise NotFound(f"There is no attempt {number} of {workload.name}.")
    return attempt


def _has_ended(workload: Workload, *, fresh: bool) -> bool:
    if fresh:
        return workload.is_final
    return Workload.objects.filter(pk=workload.pk, phase__in=Workload.FINAL_PHASES).exists()


def _pods(workload: Workload, number: int) -> dict[str, str]:
    """Pod names by UID, oldest first; empty before the first attempt."""
    if number == NO_ATTEMPT:
        return {}
    return dict(PodRecord.objects.filter(workload=workload, attempt=number).values_list("uid", "name"))


def _chunks(workload: Workload, place: LogCursor, pod: str | None) -> QuerySet[LogChunk]:
    """The index rows of one pod or all, including rows that only mark a pod's log as completely stored."""
    chunks = LogChunk.objects.filter(workload=workload, attempt=place.attempt)
    return chunks if pod is None else chunks.filter(pod_name=pod)


def _shown(item: _Item) -> LogLine:
    return LogLine(
        at=log_lines.time_of(item.line),
        pod=item.chunk.pod_name,
        text=log_lines.text_of(item.line),
        container=item.chunk.container,
        continued=log_lines.is_continued(item.line),
    )


# -- onwards ------------------------------------------------------------------------------------------------------


def _next(stored: QuerySet[LogChunk], place: LogCursor, *, limit: int, ended: bool) -> _Part:
    """The next lines after `place`, which is advanced past them; `whole` is read only for an attempt that has ended."""
    marks = stored.filter(container=NO_CONTAINER) if ended else stored.none()
    whole = frozenset(marks.values_list("pod_uid", flat=True))
    chunks = stored.exclude(container=NO_CONTAINER)
    items, more = _onwards(chunks, place, limit=limit)
    oldest = chunks.order_by("first_at").values_list("expires_at", flat=True).first()
    return _Part(items, more, oldest, whole)


def _onwards(chunks: QuerySet[LogChunk], place: LogCursor, *, limit: int) -> tuple[list[_Item], bool]:
    rows = _rows_after(chunks, place)
    # Lines of chunks not read yet are not older than the start of the first of those chunks.
    horizon = log_lines.stamp_of(rows[ROWS_MAX].first_at) if len(rows) > ROWS_MAX else _END
    streams: dict[bytes, list[LogChunk]] = {}
    for row in sorted(rows[:ROWS_MAX], key=lambda row: row.sequence):
        streams.setdefault(stream_key(row.pod_uid, row.container), []).append(row)
    oldest = log_lines.stamp_of(place.since) if place.since else b""
    items: list[_Item] = []
    size = 0
    for item in merge(*(_walk(key, chunks_of_stream, place) for key, chunks_of_stream in streams.items())):
        full = len(items) >= limit or (items and size + len(item.line) > PAGE_BYTES_MAX)
        if full or (items and item.stamp > horizon):
            return items, True
        place.positions[item.stream] = (item.sequence, item.end)
        if item.stamp >= oldest:
            items.append(item)
            size += len(item.line)
    return items, horizon != _END


def _rows_after(chunks: QuerySet[LogChunk], place: LogCursor) -> list[LogChunk]:
    """The index rows with lines after `place`, earliest first; one more than are read."""
    wanted: list[Q] = []
    for pod_uid, container, sequence, size in _ends(chunks):
        at = place.positions.get(stream_key(pod_uid, container), (0, 0))
        if at < (sequence, size):
            wanted.append(Q(pod_uid=pod_uid, container=container, sequence__gte=at[0]))
    if not wanted:
        return []
    rows = chunks.filter(reduce(or_, wanted))
    if place.since:
        rows = rows.filter(last_at__gte=place.since)
    return list(rows.order_by("first_at", "sequence")[: ROWS_MAX + 1])


def _ends(chunks: QuerySet[LogChunk]) -> list[tuple[str, str, int, int]]:
    """The end of each container's log."""
    newest = chunks.order_by("pod_uid", "container", "-sequence").distinct("pod_uid", "container")
    return list(newest.values_list("pod_uid", "container", "sequence", "size_bytes"))


def _walk(key: bytes, rows: list[LogChunk], place: LogCursor) -> Iterator[_Item]:
    for row in rows:
        sequence, begin = place.positions.get(key, (0, 0))
        start = begin if row.sequence == sequence else 0
        yield from _items(key, row, start=start)
        # Also past lines that the file does not contain (any more), so that a reader always advances.
        reached = (row.sequence, row.size_bytes)
        place.positions[key] = max(place.positions.get(key, (0, 0)), reached)


def _items(key: bytes, row: LogChunk, *, start: int, stop: int | None = None) -> Iterator[_Item]:
    end = start
    for line in log_lines_of(row, start=start, stop=stop):
        end += len(line) + 1
        yield _Item(line[: log_lines.STAMP_BYTES], key, row.sequence, end, line, row)


def log_lines_of(row: LogChunk, *, start: int, stop: int | None = None) -> list[bytes]:
    """The stored lines of a chunk between two byte offsets, both at the start of a line."""
    return read_chunk(row)[start:stop].split(b"\n")[:-1]


# -- from the end -------------------------------------------------------------------------------------------------


def _last(stored: QuerySet[LogChunk], place: LogCursor, *, count: int) -> _Part:
    """The last `count` lines; `place` is moved to the end of everything stored."""
    rows = list(_rows_of_end(stored, place.since))
    whole = frozenset(row.pod_uid for row in rows if row.container == NO_CONTAINER)
    chunks = [row for row in rows if row.container != NO_CONTAINER]
    for row in sorted(chunks, key=lambda row: row.sequence):
        place.positions[stream_key(row.pod_uid, row.container)] = (row.sequence, row.size_bytes)
    oldest = min(chunks, key=lambda row: row.first_at, default=None)
    items = _tail(chunks, place, count=count) if count else []
    return _Part(items, False, oldest.expires_at if oldest else None, whole)


def _rows_of_end(stored: QuerySet[LogChunk], since: datetime | None) -> QuerySet[LogChunk]:
    """The newest rows, the last row of each container, the oldest row, and the rows that mark complete logs, read in
    one statement so that they are consistent.
    """
    chunks = stored.exclude(container=NO_CONTAINER)
    newest = (chunks.filter(last_at__gte=since) if since else chunks).order_by("-last_at", "-sequence")
    ends = chunks.order_by("pod_uid", "container", "-sequence").distinct("pod_uid", "container")
    oldest = chunks.order_by("first_at")[:1]
    return newest[:TAIL_ROWS_MAX].union(ends, oldest, stored.filter(container=NO_CONTAINER))


def _tail(chunks: Sequence[LogChunk], place: LogCursor, *, count: int) -> list[_Item]:
    ends = place.positions
    rows = [row for row in chunks if place.since is None or row.last_at >= place.since]
    newest = sorted(rows, key=lambda row: (row.last_at, row.sequence), reverse=True)[:TAIL_ROWS_MAX]
    items: list[_Item] = []
    size = 0
    for index, row in enumerate(newest):
        key = stream_key(row.pod_uid, row.container)
        sequence, stop = ends.get(key, (-1, 0))
        if row.sequence <= sequence:
            items += _items(key, row, start=0, stop=stop if row.sequence == sequence else row.size_bytes)
            size += row.size_bytes
        # A line of an older chunk is not newer than that chunk's end.
        border = log_lines.stamp_of(newest[index + 1].last_at) if index + 1 < len(newest) else b""
        if size > TAIL_BYTES_MAX or _count_after(items, border, enough=count) >= count:
            break
    oldest = log_lines.stamp_of(place.since) if place.since else b""
    return sorted(item for item in items if item.stamp >= oldest)[-count:]


def _count_after(items: list[_Item], border: bytes, *, enough: int) -> int:
    return sum(item.stamp > border for item in items) if len(items) >= enough else 0
