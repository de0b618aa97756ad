"""Lines of a container's log as they are stored (pure): `TIME SEPARATOR TEXT`.

TIME is the container's own, converted to UTC with nine digits, so that comparing bytes compares times. SEPARATOR is a
space, or `+` for the next piece of a line that is longer than 64 KiB. TEXT is what the container wrote, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

LINE_BYTES_MAX: Final = 64 * 1024
STAMP_BYTES: Final = 30
SECOND_BYTES: Final = 19
PREFIX_BYTES: Final = STAMP_BYTES + 1
_FIRST, _NEXT = b" ", b"+"
_NOTHING: Final = b""
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)\Z", re.ASCII)


def utc_stamp(written: bytes) -> bytes | None:
    """A time as it is stored, 30 bytes; None if the text is not an RFC 3339 time."""
    match = _STAMP.match(written)
    if match is None:
        return None
    second, fraction, zone = match.groups()
    try:
        at = datetime.fromisoformat((second + (b"+00:00" if zone == b"Z" else zone)).decode())
        at = at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    if zone != b"Z":
        second = at.strftime("%Y-%m-%dT%H:%M:%S").encode()
    return second + b"." + (fraction or b"").ljust(9, b"0") + b"Z"


def stamp_of(at: datetime) -> bytes:
    """The stored form of an instant."""
    utc = at.astimezone(UTC)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond:06d}000Z".encode()


def time_of(line: bytes) -> datetime:
    """The time of a stored line, to the microsecond."""
    return datetime.fromisoformat(line[:26].decode()).replace(tzinfo=UTC)


def is_continued(line: bytes) -> bool:
    """Whether a stored line is a further piece of the one before it."""
    return line[STAMP_BYTES:PREFIX_BYTES] == _NEXT


def text_of(line: bytes) -> str:
    """The text that the container wrote; invalid UTF-8 is replaced by U+FFFD."""
    return line[PREFIX_BYTES:].decode("utf-8", "replace")


def batches(lines: Iterable[bytes], *, bytes_max: int) -> Iterator[list[bytes]]:
    """Batches of lines of at most `bytes_max` including newlines (a single line may be longer)."""
    group: list[bytes] = []
    size = 0
    for line in lines:
        if group and size + len(line) + 1 > bytes_max:
            yield group
            group, size = [], 0
        group.append(line)
        size += len(line) + 1
    if group:
        yield group


class LineSplitter:
    """Splits the bytes of a log into stored lines, however the bytes were chunked in transit."""

    def __init__(self) -> None:
        self._rest = b""
        # Prefix of the next piece inside a long line; None at the start of a line; empty where there was no time.
        self._inside: bytes | None = None

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes; returns the lines and pieces that are now complete."""
        *whole, rest = (self._rest + data).split(b"\n")
        lines: list[bytes] = []
        for part in whole:
            self._cut(part, lines, ended=True)
        self._rest = self._cut(rest, lines, ended=False) if len(rest) > LINE_BYTES_MAX + 64 else rest
        return lines

    def finish(self) -> list[bytes]:
        """The rest when the container has ended: its last line, which had no newline."""
        lines: list[bytes] = []
        if self._rest:
            self._cut(self._rest, lines, ended=True)
        self._rest = b""
        return lines

    def _cut(self, text: bytes, lines: list[bytes], *, ended: bool) -> bytes:
        prefix = self._inside
        if prefix is None:
            written, _, text = text.partition(b" ")
            stamp = utc_stamp(written)
            # The kubelet's own messages have no timestamp; they are not container output.
            prefix = stamp + _FIRST if stamp else _NOTHING
        while prefix and len(text) > LINE_BYTES_MAX:
            end = _boundary(text)
            lines.append(prefix + text[:end])
            text, prefix = text[end:], prefix[:STAMP_BYTES] + _NEXT
        self._inside = None if ended else prefix
        if not prefix:
            return b""
        if ended:
            lines.append(prefix + text)
        return text


def _boundary(text: bytes) -> int:
    """The end of a full piece, not inside a UTF-8 character."""
    end = LINE_BYTES_MAX
    while end > LINE_BYTES_MAX - 3 and text[end] & 0xC0 == 0x80:
        end -= 1
    return end
