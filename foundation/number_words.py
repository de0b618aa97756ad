"""Numbers as pages say them, one form each: durations, shares, sizes, counts. Pure."""

from __future__ import annotations

import re
from decimal import Decimal

_LIMIT = re.compile(r"(?:(\d{1,6})d)?\s*(?:(\d{1,6})h)?\s*(?:(\d{1,6})m)?\s*(?:(\d{1,9})s?)?\Z", re.ASCII)
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))


def duration_words(seconds: float) -> str:
    """`42s`, `3m 07s`, `1h 04m`, `2d 03h`; never more than two units."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d {whole % 86400 // 3600:02d}h"


def span_words(seconds: float) -> str:
    """`45s`, `20m`, `1h 30m`, `2d 3h`: as `duration_words`, of an amount that stands still, without a part that is zero."""
    whole = max(0, int(seconds))
    for (size, unit), (small, small_unit) in zip(_UNITS, (*_UNITS[1:], (1, "s")), strict=True):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size}{unit} {rest}{small_unit}" if rest else f"{whole // size}{unit}"
    return f"{whole}s"


def limit_words(seconds: int | None) -> str:
    """A time limit as the form takes it: `2h`, `90m`, `45s`; empty without one."""
    if seconds is None:
        return ""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def seconds_of(value: str) -> int | str | None:
    """Seconds of `1d 12h`, `90m` or a plain number; None for nothing, the text itself where it is neither."""
    if not value.strip():
        return None
    # One space where there are many: an expression with four places for them tries every way to share them out.
    match = _LIMIT.match(" ".join(value.split()))
    if match is None:
        return value
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + seconds


def cores_words(millicores: int) -> str:
    """`3.6 cores`, `1 core`: rounded to a tenth, but what is something is never shown as nothing."""
    tenths = max(int(millicores > 0), (millicores + 50) // 100)
    number = f"{tenths // 10}.{tenths % 10}" if tenths % 10 else str(tenths // 10)
    return f"{number} core{'' if tenths == 10 else 's'}"


def percent_words(number: float, places: int = 1) -> str:
    """`12.5 %` of a number of hundredths; what is not nothing is not shown as nothing: `<0.1 %`."""
    if 0 < number < 0.5 / 10**places:
        return f"<{1 / 10**places:.{places}f} %"
    return f"{number:,.{places}f} %"


def counted(number: int, noun: str) -> str:
    """`1 file`, `3 files`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def size_words(size: int) -> str:
    """Bytes in the largest unit that they fill, with one decimal: `3.4 MiB`; `812 bytes`."""
    if size < 1024:
        return f"{size} byte{'' if size == 1 else 's'}"
    units = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    amount, unit = Decimal(size) / 1024, 0
    # What rounds to 1024.0 is one of the next unit.
    while round(amount, 1) >= 1024 and unit + 1 < len(units):
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.1f} {units[unit]}"


def gib(size: int) -> str:
    """Bytes as GiB with one decimal, rounded up so that a need is never shown as smaller than what has room."""
    tenths = -(-size * 10 // 2**30)
    return f"{tenths // 10:,}.{tenths % 10}"
