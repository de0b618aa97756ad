"""Whole numbers that come from outside as text. Pure."""

from __future__ import annotations


def whole_number(text: str, *, digits: int = 9) -> int | None:
    """The number that ASCII digits alone spell, at most as many of them; None for any other text.

    `int` alone takes signs, spaces, underscores and digits of every script, and raises ValueError for thousands of digits.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None
