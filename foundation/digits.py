"""Numbers in text: whole numbers from outside, sizes for people. Pure."""

from __future__ import annotations

from decimal import Decimal


def whole_number(text: str, *, digits: int = 9) -> int | None:
    """The number that ASCII digits alone spell, at most as many of them; None for any other text.

    `int` alone takes signs, spaces, underscores and digits of every script, and raises ValueError for thousands of digits.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None


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
