"""Money is an integer of micro-USD everywhere; floats never touch it."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TypedDict

MICRO = 1_000_000
DECIMALS = 6
_AMOUNT = re.compile(r"(-?)(\d{1,12})(?:\.(\d{1,30}))?", re.ASCII)


class AmountJSON(TypedDict):
    amount_micro_usd: int
    usd: str


def as_json(micro: int | None) -> AmountJSON | None:
    """The shape of an amount in the REST API, exact to the micro-dollar; None stays None (no price)."""
    if micro is None:
        return None
    sign, whole, fraction = _split(micro)
    return {"amount_micro_usd": micro, "usd": f"{sign}{whole}.{fraction:06d}"}


def format_usd(micro: int, places: int = 2) -> str:
    """An amount for people, such as "$1,234.50": rounded half up (away from zero) to `places` (0 to 6).

    What is not nothing is not shown as nothing: what would be rounded to 0 is "<$0.01" (">-$0.01" below zero).
    """
    step = 10 ** (DECIMALS - places)
    rounded = (abs(micro) + step // 2) // step * step
    least = micro != 0 and not rounded
    _, whole, fraction = _split(step if least else rounded)
    sign = "-" if micro < 0 else ""
    than = (">" if micro < 0 else "<") if least else ""
    shown = f".{fraction:06d}"[: places + 1] if places else ""
    return f"{than}{sign}${whole:,}{shown}"


def half_up(amount: Fraction | int) -> int:
    """The nearest whole number; a half goes up."""
    return (2 * amount.numerator + amount.denominator) // (2 * amount.denominator)


class NotAnAmount(ValueError):
    """A text that says no amount of USD. `code` is one for programs."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def micro_of_usd(text: str) -> int:
    """Micro-USD of an amount in USD, such as "2.744705": digits with at most one point and 6 decimals.

    Raises NotAnAmount for anything else: another currency, an exponent, a comma, `nan`, less than 0. Whether 0 and how
    much is accepted is the caller's to say.
    """
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        raise NotAnAmount("An amount in USD is needed, written like 2.744705.", "invalid")
    sign, whole, fraction = found.groups(default="")
    if sign:
        raise NotAnAmount("An amount of 0 USD or more is needed.", "min_value")
    fraction = fraction.rstrip("0")
    if len(fraction) > DECIMALS:
        message = f"At most {DECIMALS} decimals are accepted: less than a millionth of a USD is not counted."
        raise NotAnAmount(message, "max_decimal_places")
    return int(whole) * MICRO + int(fraction.ljust(DECIMALS, "0"))


def _split(micro: int) -> tuple[str, int, int]:
    whole, fraction = divmod(abs(micro), MICRO)
    return ("-" if micro < 0 else ""), whole, fraction
