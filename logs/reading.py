"""Reading stored logs: chunks merged over pods by time, from a cursor onwards or from the end. Never asks the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from heapq import merge
from itertools import repeat
from operator import or_
from typing import Any, Final, NamedTuple

from django.db.models import Q, QuerySet

from foundation.errors import NotFound
from foundation.http.query import refuse
from logs import lines as log_lines
from logs.cursor import LogCursor, stream_key
from logs.matching import LineFilter
from logs.store import NO_CONTAINER, lines_in, read_chunk, with_expiry
from workloads.models import Attempt, LogChunk, PodRecord, Workload

LINES_MAX: Final = 10_000
LINES_DEFAULT: Final = 1_000
PAGE_BYTES_MAX: Final = 2 * 2**20
TAIL_BYTES_MAX: Final = 8 * 2**20
ROWS_MAX: Final = 64
TAIL_ROWS_MAX: Final = 512
EVERYTHING: Final = LineFilter()
NO_ATTEMPT: Final = 0
"""The place of a reader before the first attempt."""
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""When runtimes say that a program began which could not be started."""
_END: Final = b"~"

Bound = tuple[bytes, bytes, int, int]
"""A place in the merged log: time, container's log, chunk, and the byte in it after the line that begins there."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line. `continued`: a further piece of the (very long) line before it from the same container. `number` counts the
    stored lines and pieces of its container from 1, and is the same for ever.
    """

    at: datetime
    pod: str
    text: str
    container: str = ""
    continued: bool = False
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPage:
    """A page of lines, with the cursor for the next page.

    `more`: further stored lines are available. `complete`: the attempt has ended and is fully stored, so that once
    `more` is false nothing follows. `expires_at`: when the oldest stored part will be deleted by the retention of today,
    None without any.
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
    has_started: bool = False
    """Whether a program of any of them has started: before that there is no log."""
    older: Bound | None = None
    """Of the last lines: before which place there are older ones; None where these are the first."""


class _Pod(NamedTuple):
    uid: str
    name: str
    started_at: datetime | None


class _Part(NamedTuple):
    """The stored lines; `whole` are the uids of pods whose log is stored to its end."""

    items: Sequence[Item] = ()
    more: bool = False
    expires_at: datetime | None = None
    whole: frozenset[str] = frozenset()
    older: Bound | None = None


class Item(NamedTuple):
    """A stored line with its position; ordered by time, then by position."""

    stamp: bytes
    stream: bytes
    sequence: int
    end: int
    number: int
    line: bytes
    chunk: LogChunk

    @property
    def bound(self) -> Bound:
        """Its place among all lines."""
        return self[:4]


def read_lines(
    workload: Workload,
    *,
    attempt: int | None = None,
    pod: str | None = None,
    tail: int | None = None,
    since: datetime | None = None,
    cursor: str | None = None,
    limit: int = LINES_DEFAULT,
    wanted: LineFilter = EVERYTHING,
    attempts: Sequence[Attempt] | None = None,
    before: Bound | None = None,
) -> LogPage:
    """Stored lines of one attempt (by default the newest), of all its pods or of the one named, by time.

    With `cursor`, the lines after it: none twice and none left out, in whatever order pods are stored. A reader that
    began before there was an attempt reads the first from its beginning. With `tail`, the last lines. A page ends after
    `limit` lines (at most 10,000) or 2 MiB; one of few `wanted` lines after 16 MiB that were searched for them, and the
    last lines are those of the last 8 MiB. With `before`, the last lines are those before that place. `attempts` are the workload's, for a caller that has just read them. Raises
    NotFound for an attempt or pod that does not exist, Malformed for a cursor of other logs.
    """
    place = _place(workload, attempt=attempt, since=since, cursor=cursor, attempts=attempts)
    begun = _attempt(workload, place.attempt, attempts)
    # Before the lines: a log that is complete now is fully contained in what is read next.
    pods = _pods(workload, place.attempt)
    read = {each.uid for each in pods if pod in {None, each.name}}
    if pod is not None and not read:
        raise NotFound(f"Attempt {place.attempt} of {workload.name} has no pod {pod}.")
    ended = _has_ended(workload, fresh=attempts is not None) if begun is None else begun.ended_at is not None
    if place.attempt == NO_ATTEMPT:
        part = _Part()
    elif tail is not None and cursor is None:
        chunks = chunks_of(workload, place, pod)
        part = _last(chunks, place, wanted, count=min(tail, LINES_MAX), before=before)
    else:
        limit = max(1, min(limit, LINES_MAX))
        part = _next(chunks_of(workload, place, pod), place, wanted, limit=limit, ended=ended)
    return LogPage(
        attempt=place.attempt,
        lines=[shown_line(item) for item in part.items],
        cursor=place.encode(),
        more=part.more,
        complete=ended and (begun is None or read <= part.whole),
        expires_at=part.expires_at,
        pods=len(read),
        pod_names=tuple(each.name for each in pods),
        has_started=any(each.started_at and each.started_at.year > _NEVER.year for each in pods),
        older=part.older,
    )


def _place(
    workload: Workload,
    *,
    attempt: int | None,
    since: datetime | None,
    cursor: str | None,
    attempts: Sequence[Attempt] | None,
) -> LogCursor:
    if cursor is None:
        return LogCursor(attempt=workload.attempt_number if attempt is None else attempt, since=since)
    place = LogCursor.decode(cursor)
    if attempt is not None and attempt != place.attempt:
        raise refuse("cursor", f"is of attempt {place.attempt}, not {attempt}.")
    if place.attempt == NO_ATTEMPT:
        place.attempt = _first_attempt(workload, attempts)
    if since is not None:
        place.since = since
    return place


def _first_attempt(workload: Workload, known: Sequence[Attempt] | None) -> int:
    """The number of the first attempt: of those that the caller has read, whatever began since, or read anew.

    A follower's workload object may be stale.
    """
    if known is not None:
        return min((attempt.number for attempt in known), default=NO_ATTEMPT)
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


def _pods(workload: Workload, number: int) -> list[_Pod]:
    """The pods, oldest first; none before the first attempt."""
    if number == NO_ATTEMPT:
        return []
    rows = PodRecord.objects.filter(workload=workload, attempt=number)
    return [_Pod(*facts) for facts in rows.values_list("uid", "name", "started_at")]


def chunks_of(workload: Workload, place: LogCursor, pod: str | None) -> QuerySet[LogChunk]:
    """The index rows of one pod or all, including rows that only mark a pod's log as completely stored."""
    chunks = LogChunk.objects.filter(workload=workload, attempt=place.attempt)
    return chunks if pod is None else chunks.filter(pod_name=pod)


def shown_line(item: Item) -> LogLine:
    """A stored line as readers have it."""
    return LogLine(
        at=log_lines.time_of(item.line),
        pod=item.chunk.pod_name,
        text=log_lines.text_of(item.line),
        container=item.chunk.container,
        continued=log_lines.is_continued(item.line),
        number=item.number,
    )


# -- onwards ------------------------------------------------------------------------------------------------------


def _next(
    stored: QuerySet[LogChunk], place: LogCursor, wanted: LineFilter, *, limit: int, ended: bool
) -> _Part:
    """The next lines after `place`, which is advanced past them; `whole` is read only for an attempt that has ended."""
    marks = stored.filter(container=NO_CONTAINER) if ended else stored.none()
    whole = frozenset(marks.values_list("pod_uid", flat=True))
    chunks = stored.exclude(container=NO_CONTAINER)
    items, more = _onwards(chunks, place, wanted, limit=limit)
    oldest = with_expiry(chunks.order_by("first_at")).values_list("expires_at", flat=True).first()
    return _Part(items, more, oldest, whole)


def _onwards(
    chunks: QuerySet[LogChunk], place: LogCursor, wanted: LineFilter, *, limit: int
) -> tuple[list[Item], bool]:
    rows = _rows_after(chunks, place)
    # Lines of chunks not read yet are not older than the start of the first of those chunks.
    horizon = log_lines.stamp_of(rows[ROWS_MAX].first_at) if len(rows) > ROWS_MAX else _END
    streams: dict[bytes, list[LogChunk]] = {}
    for row in sorted(rows[:ROWS_MAX], key=lambda row: row.sequence):
        streams.setdefault(stream_key(row.pod_uid, row.container), []).append(row)
    oldest = log_lines.stamp_of(place.since) if place.since else b""
    items: list[Item] = []
    size = 0
    for item in merge(
        *(_walk(key, chunks_of_stream, place, wanted) for key, chunks_of_stream in streams.items())
    ):
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


def _walk(key: bytes, rows: list[LogChunk], place: LogCursor, wanted: LineFilter) -> Iterator[Item]:
    for row in rows:
        sequence, begin = place.positions.get(key, (0, 0))
        start = begin if row.sequence == sequence else 0
        yield from items_of(key, row, wanted, start=start)
        # Also past lines that the file does not contain (any more), so that a reader always advances.
        reached = (row.sequence, row.size_bytes)
        place.positions[key] = max(place.positions.get(key, (0, 0)), reached)


def items_of(
    key: bytes, row: LogChunk, wanted: LineFilter, *, start: int = 0, stop: int | None = None
) -> Iterator[Item]:
    """The wanted lines of a chunk between two byte offsets, both at the start of a line."""
    data = read_chunk(row)
    if wanted:
        # From the beginning of the chunk, where the level of a line may come from.
        lines = lines_in(data[:stop])
        kept, end, number = wanted.marks(lines), 0, row.first_line
    else:
        lines = lines_in(data[start:stop])
        kept, end, number = repeat(True), start, row.first_line + data.count(b"\n", 0, start)
    for line, keep in zip(lines, kept, strict=False):
        end += len(line) + 1
        if keep and end > start:
            yield Item(line[: log_lines.STAMP_BYTES], key, row.sequence, end, number, line, row)
        number += 1


# -- from the end -------------------------------------------------------------------------------------------------


def _last(
    stored: QuerySet[LogChunk], place: LogCursor, wanted: LineFilter, *, count: int, before: Bound | None
) -> _Part:
    """The last `count` lines; `place` is moved to the end of everything stored."""
    until = log_lines.time_of(before[0]) if before else None
    rows = list(_rows_of_end(with_expiry(stored), since=place.since, until=until))
    whole = frozenset(row.pod_uid for row in rows if row.container == NO_CONTAINER)
    chunks = [row for row in rows if row.container != NO_CONTAINER]
    for row in sorted(chunks, key=lambda row: row.sequence):
        place.positions[stream_key(row.pod_uid, row.container)] = (row.sequence, row.size_bytes)
    oldest = min(chunks, key=lambda row: row.first_at, default=None)
    earlier = [row for row in chunks if until is None or row.first_at <= until]
    items, older = _tail(earlier, place, wanted, count=count, before=before) if count else ([], None)
    return _Part(items, False, oldest.expires_at if oldest else None, whole, older)


def _rows_of_end(stored: QuerySet[Any], *, since: datetime | None, until: datetime | None) -> QuerySet[Any]:
    """The newest rows (that begin by `until`), the last row of each container, the oldest row, and the rows that mark complete
    logs, read in one statement so that they are consistent.
    """
    chunks = stored.exclude(container=NO_CONTAINER)
    newest = (chunks.filter(last_at__gte=since) if since else chunks).order_by("-last_at", "-sequence")
    if until is not None:
        newest = newest.filter(first_at__lte=until)
    ends = chunks.order_by("pod_uid", "container", "-sequence").distinct("pod_uid", "container")
    oldest = chunks.order_by("first_at")[:1]
    return newest[:TAIL_ROWS_MAX].union(ends, oldest, stored.filter(container=NO_CONTAINER))


def _tail(
    chunks: Sequence[LogChunk], place: LogCursor, wanted: LineFilter, *, count: int, before: Bound | None
) -> tuple[list[Item], Bound | None]:
    """The last lines, and the place before which older ones were not looked at; None where there are none."""
    ends = place.positions
    rows = [row for row in chunks if place.since is None or row.last_at >= place.since]
    newest = sorted(rows, key=lambda row: (row.last_at, row.sequence), reverse=True)
    items: list[Item] = []
    size = 0
    border = b""
    for index, row in enumerate(newest[:TAIL_ROWS_MAX]):
        key = stream_key(row.pod_uid, row.container)
        sequence, stop = ends.get(key, (-1, 0))
        if row.sequence <= sequence:
            found = items_of(
                key, row, wanted, start=0, stop=stop if row.sequence == sequence else row.size_bytes
            )
            items += found if before is None else (item for item in found if item.bound < before)
            size += row.size_bytes
        # A line of an older chunk is not newer than that chunk's end.
        border = log_lines.stamp_of(newest[index + 1].last_at) if index + 1 < len(newest) else b""
        if size > TAIL_BYTES_MAX or _count_after(items, border, enough=count) >= count:
            break
    oldest = log_lines.stamp_of(place.since) if place.since else b""
    kept = sorted(item for item in items if item.stamp >= oldest)
    shown = kept[-count:]
    if shown and (border or len(kept) > count):
        return shown, shown[0].bound
    # All that was searched was unwanted: what is older begins where that ended.
    searched = (border[: log_lines.STAMP_BYTES - 4] + b"999Z", b"", 0, 0)
    return shown, searched if border and (before is None or searched < before) else None


def _count_after(items: list[Item], border: bytes, *, enough: int) -> int:
    return sum(item.stamp > border for item in items) if len(items) >= enough else 0
