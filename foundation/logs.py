"""Log context and formatters.

`with logs.bind(workload_id=..., team=...)` puts the fields on every record made inside, in threads of
control that inherit the context (async tasks do, threads do not). Registered secrets, tokens and bearer
headers never leave a formatter.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from typing_extensions import override

_context: ContextVar[Mapping[str, Any]] = ContextVar("portal_log_context", default={})  # noqa: B039
_secrets: set[str] = set()

SECRET_LENGTH_MIN = 8
REDACTED = "[redacted]"
_TOKENS = re.compile(
    r"ml[pe]_[A-Za-z0-9]+_[A-Za-z0-9]+|mlr_[A-Za-z0-9_-]{8,}|(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{8,}"
    # The secret of a one-time link stands in its path, that of a ticket there or in the query: all are logged.
    r"|(?<=/sign-in/link/)[^/\s\"'?]+|(?<=/-/invoke/)[^/\s\"'?]+|(?<=ticket=)[^&\s\"']+"
)
_URL_PASSWORDS = re.compile(r"(?<=://)([^/\s:@]*):[^/\s@]+(?=@)")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "portal"}


@contextmanager
def bind(**fields: Any) -> Iterator[None]:
    """Add fields to every log record made inside the block; None leaves a field as it was."""
    bound = {name: value for name, value in fields.items() if value is not None}
    token = _context.set({**_context.get(), **bound})
    try:
        yield
    finally:
        _context.reset(token)


def bound() -> Mapping[str, Any]:
    """The fields bound here and now."""
    return _context.get()


def register_secret(value: str) -> None:
    """Never print this value. Values shorter than eight characters would redact plain words: ignored."""
    if len(value) >= SECRET_LENGTH_MIN:
        _secrets.add(value)


def redact(text: str) -> str:
    """`text` without registered secrets, tokens, links and tickets, bearer headers and passwords in URLs."""
    for secret in _secrets:
        text = text.replace(secret, REDACTED)
    return _URL_PASSWORDS.sub(rf"\1:{REDACTED}", _TOKENS.sub(REDACTED, text))


class ContextFilter(logging.Filter):
    """Copies the bound fields to `record.portal`; never drops a record."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        record.portal = dict(_context.get())
        return True


class JSONFormatter(logging.Formatter):
    """One JSON object a line: at, level, logger, event, the bound fields, the record's extra, exception."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "at": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return redact(json.dumps(entry, default=str, ensure_ascii=False))


class ConsoleFormatter(logging.Formatter):
    """A line for people: time, level, event, then the fields as name=value."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{name}={value}" for name, value in _fields(record).items())
        line = (
            f"{_moment(record)} {record.levelname:<7} {record.name} {record.getMessage()} {fields}".rstrip()
        )
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return redact(line)


def _moment(record: logging.LogRecord) -> str:
    return (
        datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    extra = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    return {**getattr(record, "portal", {}), **extra}
