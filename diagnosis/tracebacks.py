"""The traceback of the error that a program ended with, out of the last lines of its log. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

LINES_MAX: Final = 60
ERROR_LENGTH_MAX: Final = 160
_BEGIN: Final = re.compile(r"(?:\[?(?:default|rank)?\d*\]?:\s*)?Traceback \(most recent call last\):")
_PREFIX: Final = re.compile(r"\A\[?(?:default|rank)\d+\]?:\s?")
_ESCAPE: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ERROR: Final = re.compile(
    r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)(?::\s.*|\s*)", re.ASCII | re.DOTALL
)


def error_line(text: str) -> str:
    """`ModuleNotFoundError: No module named 'torchx'` of a line that says so, as a title; empty of another line."""
    plain = _PREFIX.sub("", _ESCAPE.sub("", text)).strip()
    if not _ERROR.fullmatch(plain):
        return ""
    return plain if len(plain) <= ERROR_LENGTH_MAX else plain[: ERROR_LENGTH_MAX - 1] + "…"


def traceback_before(lines: Sequence[str]) -> tuple[str, ...]:
    """The lines from where the last traceback begins up to its error, which is the last of `lines`; empty where none leads to
    it. Of a long one the middle is left out.
    """
    for place in range(len(lines) - 1, -1, -1):
        if _BEGIN.match(_ESCAPE.sub("", lines[place])):
            return _shortened([_ESCAPE.sub("", line) for line in lines[place:]])
    return ()


def _shortened(lines: Sequence[str]) -> tuple[str, ...]:
    if len(lines) <= LINES_MAX:
        return tuple(lines)
    half = LINES_MAX // 2
    return (*lines[:half], f"… {len(lines) - LINES_MAX} lines …", *lines[-half:])
