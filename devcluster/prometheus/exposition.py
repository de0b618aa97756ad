"""Prometheus' text format 0.0.4: lines of `name{label="value"} number`, with comments for type and help."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .storage import NAME

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,|(?=\}))')
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}
_ESCAPE = re.compile(r'\\[\\"n]')


class FormatError(Exception):
    """A line that is none of the format."""


def parse(text: str) -> Iterator[tuple[dict[str, str], float, int | None]]:
    """Labels, with the name as `__name__`, value, and the time in milliseconds where the line has one."""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        try:
            yield _sample(line)
        except ValueError as error:
            raise FormatError(f"line {number}: {error}") from error


def _sample(line: str) -> tuple[dict[str, str], float, int | None]:
    name = _NAME.match(line)
    if name is None:
        raise ValueError(f"no metric name in {line[:80]!r}")
    labels, rest = {NAME: name[0]}, line[name.end() :].lstrip()
    if rest.startswith("{"):
        rest = _labels(rest, labels)
    parts = rest.split()
    if not 1 <= len(parts) <= 2:
        raise ValueError(f"a value, and perhaps a time, is expected in {line[:80]!r}")
    return labels, number(parts[0]), int(parts[1]) if len(parts) == 2 else None


def _labels(text: str, labels: dict[str, str]) -> str:
    at = 1
    while text[at:].lstrip()[:1] != "}":
        found = _LABEL.match(text, at)
        if found is None:
            raise ValueError(f"no label in {text[at : at + 80]!r}")
        labels[found[1]] = _ESCAPE.sub(lambda match: _ESCAPES[match[0]], found[2])
        at = found.end()
    return text[at:].lstrip()[1:]


def number(text: str) -> float:
    """A float as Go reads it. ValueError where it is none."""
    if "_" in text:
        raise ValueError(f"{text!r} is no number")
    return float(text)
