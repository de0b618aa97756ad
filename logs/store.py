"""Appending lines to the log store exactly once: first the file, then the index row, then a notification.

Any number of writers may append to the same container's log: the index row claims each next piece, and a late
writer reads what was stored meanwhile and drops it from its own lines.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from django.core.files.base import ContentFile
from django.core.files.storage import Storage, storages
from django.db import IntegrityError, connection, models, transaction
from django.db.models.functions import Coalesce

from foundation import leases
from foundation.crashpoints import crash_point
from foundation.models import PlatformSettings
from logs import lines as log_lines
from workloads.models import LogChunk, PodRecord

logger = logging.getLogger(__name__)

NOTIFY_CHANNEL: Final = "portal_logs"
CHUNK_BYTES_MAX: Final = 256 * 1024
# A chunk below this size is rewritten with the next lines, so that a slow log makes few rows and files.
MERGE_BYTES_MAX: Final = 64 * 1024
MERGE_SPAN: Final = timedelta(hours=1)
# How often to reopen a chunk that others rewrite meanwhile; each rewrite has stored some lines.
VERSIONS_MAX: Final = 100
SEAM_CHUNKS_MAX: Final = 64
EXPIRE_BATCH: Final = 500
EXPIRE_BATCHES_MAX: Final = 20
GIB: Final = 2**30
# Which teams may have come above what a team may keep: the periodic job looks every 30 seconds.
LATELY: Final = timedelta(minutes=10)
# The row that marks a pod's log as completely stored has no file and is kept as long as the pod's record.
NO_CONTAINER: Final = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSource:
    """Identifies a container's log: its workload, attempt, pod and container."""

    workload_id: int
    workload: UUID
    attempt: int
    pod_uid: str
    pod_name: str
    container: str


def source_of(pod: PodRecord, *, container: str) -> LogSource:
    """The log of one container of an observed pod."""
    return LogSource(
        workload_id=pod.workload_id,
        workload=pod.workload.public_id,
        attempt=pod.attempt,
        pod_uid=pod.uid,
        pod_name=pod.name,
        container=container,
    )


def retention() -> timedelta:
    """How long lines are kept after they were stored, those of today and those of long ago."""
    return timedelta(days=PlatformSettings.current().log_retention_days)


def with_expiry(chunks: models.QuerySet[LogChunk]) -> models.QuerySet[Any]:
    """The chunks with `expires_at`, when the retention of now will have ended."""
    set_days = PlatformSettings.objects.values("log_retention_days")[:1]
    days = Coalesce(models.Subquery(set_days), PlatformSettings().log_retention_days)
    keep = models.ExpressionWrapper(days * timedelta(days=1), output_field=models.DurationField())
    expires_at = models.ExpressionWrapper(models.F("stored_at") + keep, output_field=models.DateTimeField())
    return chunks.annotate(expires_at=expires_at)


def store() -> Storage:
    """The storage of the chunks: `settings.STORAGES["logs"]`."""
    return storages["logs"]


def read_chunk(chunk: LogChunk) -> bytes:
    """The bytes of a chunk; empty if it has expired meanwhile. A longer version of it may be read."""
    key = chunk.storage_key
    for _ in range(VERSIONS_MAX):
        try:
            with store().open(key) as file:
                data: bytes = file.read()
                return data
        except FileNotFoundError:
            # Rewritten with more lines, or expired.
            newer = LogChunk.objects.filter(pk=chunk.pk).values_list("storage_key", flat=True).first()
            if newer is None or newer == key:
                break
            key = newer
    logger.warning("logs.chunk_missing", extra={"storage_key": chunk.storage_key})
    return b""


def _as_indexed(chunk: LogChunk) -> bytes:
    """The bytes that this version of the row covers: later bytes are counted when the later row is read."""
    return read_chunk(chunk)[: chunk.size_bytes]


def lines_in(data: bytes) -> list[bytes]:
    """The stored lines of a chunk, or of a part of it that starts at a line."""
    return data.split(b"\n")[:-1]


class _OvertakenError(Exception):
    """Another writer has stored the next piece."""


class ContainerLog:
    """The stored part of one container's log, and the position where it continues. For one thread at a time.

    Call `load` before each read of the log; then `append` what was read, in order.
    """

    def __init__(self, source: LogSource) -> None:
        self.source = source
        # The second from which to request the log, as requests have whole seconds only; None: from its start.
        self.since: datetime | None = None
        self._tail: LogChunk | None = None
        self._next_sequence = 0
        # Stored lines that the reader will see again, with their counts.
        self._ahead: Counter[bytes] = Counter()

    def load(self) -> None:
        """Continue where the last stored line ended, even if another writer stored it."""
        newest = list(self._chunks().order_by("-sequence")[:SEAM_CHUNKS_MAX])
        self.since, self._tail, self._next_sequence = None, None, 0
        self._ahead.clear()
        if not newest:
            return
        self._tail, self._next_sequence = newest[0], newest[0].sequence + 1
        last = lines_in(_as_indexed(newest[0]))[-1:]
        second = _second(last[0] if last else log_lines.stamp_of(newest[0].last_at))
        self.since = log_lines.time_of(second + b".000000")
        for chunk in newest:
            if chunk.last_at < self.since:
                break
            self._ahead.update(line for line in lines_in(_as_indexed(chunk)) if _second(line) >= second)

    def append(self, lines: Sequence[bytes], *, now: datetime) -> int:
        """Store the lines that are not stored yet; returns how many.

        If it raises, the caller passes the same lines (and more) again.
        """
        fresh = self._unseen(lines)
        stored = 0
        try:
            while fresh:
                try:
                    count = self._store(fresh, now=now)
                except _OvertakenError:
                    self._catch_up()
                    fresh = self._unseen(fresh)
                else:
                    fresh = fresh[count:]
                    stored += count
        except BaseException:
            self._ahead.update(Counter(lines) - Counter(fresh))
            raise
        return stored

    # -- seams --------------------------------------------------------------------------------------------------

    def _unseen(self, lines: Sequence[bytes]) -> list[bytes]:
        if not self._ahead or not lines:
            return list(lines)
        fresh = []
        for line in lines:
            if self._ahead.get(line, 0) > 0:
                self._ahead[line] -= 1
            else:
                fresh.append(line)
        # Times only grow: lines older than the newest seen will not come again.
        second = _second(lines[-1])
        left = {line: count for line, count in self._ahead.items() if count > 0 and _second(line) >= second}
        self._ahead = Counter(left)
        return fresh

    def _catch_up(self) -> None:
        """Account for lines that other writers stored meanwhile: this reader will see them, too."""
        known, self._tail = self._tail, None
        rows = self._chunks().order_by("sequence")
        for row in rows.filter(sequence__gte=known.sequence) if known else rows:
            data = _as_indexed(row)
            grown = known is not None and row.sequence == known.sequence
            self._ahead.update(lines_in(data[known.size_bytes :] if known and grown else data))
            self._tail, self._next_sequence = row, row.sequence + 1

    # -- writing ------------------------------------------------------------------------------------------------

    def _store(self, lines: Sequence[bytes], *, now: datetime) -> int:
        tail = self._tail if self._may_grow(lines[0]) else None
        before = _as_indexed(tail) if tail else b""
        if tail and len(before) != tail.size_bytes:
            tail, before = None, b""
        batch = next(log_lines.batches(lines, bytes_max=CHUNK_BYTES_MAX - len(before)))
        data = before + b"".join(line + b"\n" for line in batch)
        times = [log_lines.time_of(line) for line in (min(batch), max(batch))]
        # Monotonic over the chunks of a log, even if a node's clock is set back: readers rely on it.
        floor = self._tail.last_at if self._tail else times[0]
        first_line = self._tail.first_line + self._tail.lines if self._tail else 1
        chunk = LogChunk(
            workload_id=self.source.workload_id,
            attempt=self.source.attempt,
            pod_uid=self.source.pod_uid,
            pod_name=self.source.pod_name,
            container=self.source.container,
            sequence=tail.sequence if tail else self._next_sequence,
            storage_key=self._key(now.date(), tail.sequence if tail else self._next_sequence),
            first_at=tail.first_at if tail else max(times[0], floor),
            last_at=max(times[1], floor),
            lines=len(batch) + (tail.lines if tail else 0),
            size_bytes=len(data),
            first_line=tail.first_line if tail else first_line,
            stored_at=now,
        )
        chunk.storage_key = store().save(chunk.storage_key, ContentFile(data))
        crash_point("logs.file_stored")
        self._claim(chunk, grown=tail)
        self._tail, self._next_sequence = chunk, chunk.sequence + 1
        return len(batch)

    def _may_grow(self, line: bytes) -> bool:
        tail = self._tail
        return (
            tail is not None
            and tail.size_bytes < MERGE_BYTES_MAX
            and log_lines.time_of(line) - tail.first_at < MERGE_SPAN
        )

    def _claim(self, chunk: LogChunk, *, grown: LogChunk | None) -> None:
        try:
            with transaction.atomic():
                if grown is None:
                    chunk.save(force_insert=True)
                else:
                    chunk.pk = grown.pk
                    self._replace(chunk, grown)
                notify(self.source, sequence=chunk.sequence)
        except (IntegrityError, _OvertakenError) as error:
            _delete_file(chunk.storage_key)
            if isinstance(error, IntegrityError) and "log_chunk_in_order" not in str(error):
                raise
            raise _OvertakenError from None
        if grown is not None:
            _delete_file(grown.storage_key)

    @staticmethod
    def _replace(chunk: LogChunk, grown: LogChunk) -> None:
        same = LogChunk.objects.filter(pk=grown.pk, storage_key=grown.storage_key)
        fields = ("storage_key", "last_at", "lines", "size_bytes", "stored_at")
        if not same.update(**{field: getattr(chunk, field) for field in fields}):
            raise _OvertakenError

    def _key(self, day: date, sequence: int) -> str:
        """A new file name: by day of storing, to sweep whole days; random, so that no two writers share a file."""
        source = self.source
        name = f"{source.pod_uid}.{source.container}.{sequence:06d}.{uuid4().hex[:12]}"
        return f"{day:%Y-%m-%d}/{source.workload}/{name}"

    def _chunks(self) -> models.QuerySet[LogChunk]:
        return LogChunk.objects.filter(pod_uid=self.source.pod_uid, container=self.source.container)


def _second(line: bytes) -> bytes:
    return line[: log_lines.SECOND_BYTES]


def notify(source: LogSource, *, sequence: int) -> None:
    """Notify followers when the transaction commits."""
    payload = {
        "workload": str(source.workload),
        "attempt": source.attempt,
        "pod_uid": source.pod_uid,
        "sequence": sequence,
    }
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [NOTIFY_CHANNEL, json.dumps(payload)])


def mark_stored(pod: PodRecord, *, now: datetime) -> None:
    """Mark this pod's log as completely stored. Idempotent."""
    with transaction.atomic():
        LogChunk.objects.bulk_create(
            [
                LogChunk(
                    workload_id=pod.workload_id,
                    attempt=pod.attempt,
                    pod_uid=pod.uid,
                    pod_name=pod.name,
                    container=NO_CONTAINER,
                    sequence=0,
                    storage_key="",
                    first_at=now,
                    last_at=now,
                    lines=0,
                    size_bytes=0,
                    stored_at=now,
                )
            ],
            ignore_conflicts=True,
        )
        notify(source_of(pod, container=NO_CONTAINER), sequence=0)


def is_stored(pod: PodRecord) -> bool:
    """Whether this pod's log is completely stored."""
    return LogChunk.objects.filter(pod_uid=pod.uid, container=NO_CONTAINER).exists()


def expire(*, now: datetime) -> int:
    """Delete the chunks whose retention, as it is set now, has ended, the file before the row; returns how many.

    A call deletes at most 10,000; the next call continues. Files that never got a row (writer killed) are deleted with
    their day.
    """
    deleted = 0
    begin = now - retention()
    past = LogChunk.objects.filter(stored_at__lte=begin).exclude(container=NO_CONTAINER)
    for _ in range(EXPIRE_BATCHES_MAX):
        rows = list(past.order_by("stored_at").values_list("pk", "storage_key")[:EXPIRE_BATCH])
        deleted += _delete(past, rows)
        if len(rows) < EXPIRE_BATCH:
            _sweep_days(begin)
            break
    return deleted


def expire_beyond(*, now: datetime) -> int:
    """Delete the oldest chunks of teams whose logs are more than a team may keep (`team_log_gib`); returns how many.

    Only teams that stored something lately are looked at, and of each 10,000 chunks at most are deleted; the next call
    continues.
    """
    gib = PlatformSettings.current().team_log_gib
    if gib is None:
        return 0
    chunks = LogChunk.objects.exclude(container=NO_CONTAINER)
    lately = chunks.filter(stored_at__gt=now - LATELY).values("workload__team")
    kept = (
        chunks.filter(workload__team__in=lately)
        .values("workload__team")
        .annotate(size=models.Sum("size_bytes"))
    )
    over = kept.order_by().filter(size__gt=gib * GIB).values_list("workload__team", "size")
    return sum(_delete_oldest(team, size - gib * GIB) for team, size in over)


def _delete_oldest(team_id: int, size: int) -> int:
    """Delete the team's oldest chunks until so many bytes are gone."""
    own = LogChunk.objects.filter(workload__team=team_id).exclude(container=NO_CONTAINER)
    deleted = 0
    for _ in range(EXPIRE_BATCHES_MAX):
        oldest = own.order_by("stored_at", "pk").values_list("pk", "storage_key", "size_bytes")[:EXPIRE_BATCH]
        rows: list[tuple[int, str]] = []
        for key, file, length in oldest:
            if size <= 0:
                break
            rows.append((key, file))
            size -= length
        deleted += _delete(own, rows)
        if size <= 0 or not rows:
            break
    logger.warning("logs.team_full", extra={"team": team_id, "chunks": deleted})
    return deleted


def _delete(chunks: models.QuerySet[LogChunk], rows: Sequence[tuple[int, str]]) -> int:
    """Delete the files, then those of the rows that still have them."""
    leases.check()
    for _pk, key in rows:
        _delete_file(key)
    # A chunk that has grown meanwhile has a new file and a new time.
    old = chunks.filter(pk__in=[pk for pk, _key in rows], storage_key__in=[key for _pk, key in rows])
    with transaction.atomic():
        leases.check()
        return old.delete()[0]


def _sweep_days(begin: datetime) -> None:
    try:
        days = store().listdir("")[0]
    except (FileNotFoundError, NotImplementedError):
        return
    for day in days:
        try:
            ends = datetime.fromisoformat(f"{day}T00:00:00+00:00") + timedelta(days=1)
        except ValueError:
            continue
        # One day more, for a writer that has stored its file and not yet its row.
        if ends + timedelta(days=1) < begin:
            leases.check()
            _sweep_day(day)


def _sweep_day(day: str) -> None:
    for folder in store().listdir(day)[0]:
        for name in store().listdir(f"{day}/{folder}")[1]:
            _delete_file(f"{day}/{folder}/{name}")
        _delete_file(f"{day}/{folder}")
    _delete_file(day)


def _delete_file(key: str) -> None:
    if not key:
        return
    try:
        store().delete(key)
    except OSError:
        # It is deleted when its day is swept.
        logger.warning("logs.file_kept", exc_info=True, extra={"storage_key": key})
