"""Which lines of a log a reader wants: by a text in them, and by their level (pure).

A level is what the line itself says, in the forms that are common: Python's logging, JSON, logfmt, klog, a word in capitals, a
traceback. A line that says none has none, but for those that go on from the line before: indented ones and tracebacks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from foundation.http.query import refuse
from logs.lines import PREFIX_BYTES, is_continued

LEVELS: Final = ("debug", "info", "warning", "error")
SEARCH_MAX: Final = 200

_RANKS: Final = {
    **dict.fromkeys((b"trace", b"debug", b"d"), 0),
    **dict.fromkeys((b"info", b"notice", b"i"), 1),
    **dict.fromkeys((b"warn", b"warning", b"w"), 2),
    **dict.fromkeys(
        (b"error", b"err", b"critical", b"crit", b"fatal", b"panic", b"alert", b"emerg", b"e", b"f"), 3
    ),
}
# Levels as numbers, of bunyan and pino: from 10 (trace) in tens.
_NUMBERED: Final = {b"10": 0, b"20": 0, b"30": 1, b"40": 2, b"50": 3, b"60": 3}
_HEAD_BYTES: Final = 400
_RANK_PREFIX: Final = rb"\A(?:\[?(?:default|rank)?\d*\]?:\s*)?"
_FIELD = re.compile(
    rb"""["']?\b(?:level|levelname|severity|lvl|log\.level)["']?\s*[:=]\s*["']?([A-Za-z]+|[1-6]0)\b""",
    re.IGNORECASE,
)
_KLOG = re.compile(rb"\A([IWEF])\d{4} \d\d:\d\d:\d\d")
_WORD = re.compile(
    rb"\b(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|PANIC)\b"
    rb"|(?:\A|[\s\[(<|])(debug|info|notice|warn|warning|error|critical|fatal|panic)(?=[\])>|:])",
)
_RAISED = re.compile(
    _RANK_PREFIX
    + rb"(?:Traceback \(most recent call last\)|During handling of the above|The above exception was"
    + rb"|[\w.]*(?:Error|Exception|Exit|Interrupt)(?::|\s*\Z)"
    + rb"|Segmentation fault|Killed\s*\Z|Aborted\b)"
)
_INDENTED = re.compile(_RANK_PREFIX + rb"[ \t]")
_ESCAPE = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")


@dataclass(frozen=True, slots=True)
class LineFilter:
    """The lines that contain `text`, in whatever case, and are of `level` or worse. An empty one wants every line."""

    text: str = ""
    level: str = ""

    @classmethod
    def of(cls, *, search: str | None, level: str | None) -> LineFilter:
        """Raises Malformed naming the parameter."""
        if search is not None and not 0 < len(search) <= SEARCH_MAX:
            raise refuse("search", f"must have 1 to {SEARCH_MAX} characters.")
        if level is not None and level not in LEVELS:
            raise refuse("level", f"must be one of {', '.join(LEVELS)}.")
        return cls(search or "", level or "")

    def __bool__(self) -> bool:
        return bool(self.text or self.level)

    def marks(self, lines: Iterable[bytes]) -> Iterator[bool]:
        """For each stored line of one container whether it is wanted. Begin at the start of a chunk: what a line goes on from
        is known from there. The pieces of a long line are judged one by one, but their level is that of the first.
        """
        needle = self.text.lower().encode()
        least = LEVELS.index(self.level) if self.level else None
        reader = _Levels()
        for line in lines:
            text = line[PREFIX_BYTES:]
            if b"\x1b" in text:
                text = _ESCAPE.sub(b"", text)
            rank = None if least is None else reader.rank(text, goes_on=is_continued(line))
            yield (least is None or (rank is not None and rank >= least)) and (
                not needle or needle in _lowered(text, needle)
            )


def _lowered(text: bytes, needle: bytes) -> bytes:
    """In lower case as its search text is: letters beyond ASCII only where that has some."""
    return text.lower() if needle.isascii() else text.decode("utf-8", "replace").lower().encode()


class _Levels:
    """The level of one line after the other of one container."""

    def __init__(self) -> None:
        self._rank: int | None = None

    def rank(self, text: bytes, *, goes_on: bool) -> int | None:
        """Where the level of the line stands in LEVELS; None for a line without one."""
        head = text[:_HEAD_BYTES]
        if _RAISED.match(head) and not goes_on:
            self._rank = LEVELS.index("error")
        elif not (goes_on or _INDENTED.match(head) or not head.strip()):
            self._rank = _said(head)
        return self._rank


def _said(head: bytes) -> int | None:
    if (klog := _KLOG.match(head)) is not None:
        return _RANKS[klog[1].lower()]
    if (field := _FIELD.search(head)) is not None:
        said = field[1].lower()
        known = _NUMBERED.get(said, _RANKS.get(said))
        if known is not None:
            return known
    word = _WORD.search(head)
    return None if word is None else _RANKS[(word[1] or word[2]).lower()]
