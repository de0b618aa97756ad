"""Money is an integer of micro-USD everywhere; floats never touch it."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TypedDict

from foundation.errors import Invalid

MICRO = 1_000_000
DECIMALS = 6
AMOUNT_MICRO_USD_MAX = 2**63 - 1


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
    """An amount for people, such as "$1,234.50": rounded half up (away from zero) to `places` (0 to 6)."""
    step = 10 ** (DECIMALS - places)
    rounded = (abs(micro) + step // 2) // step * step
    _, whole, fraction = _split(rounded)
    sign = "-" if micro < 0 and rounded else ""
    shown = f".{fraction:06d}"[: places + 1] if places else ""
    return f"{sign}${whole:,}{shown}"


def parse_usd(text: str) -> int:
    """Micro-USD of a decimal number such as "5000" or "0.001234".

    Raises Invalid for anything else: more than six decimals, exponents, infinities, more than a bigint holds.
    """
    cleaned = text.strip().removeprefix("$").replace(",", "")
    plain = cleaned.removeprefix("-")
    if not plain or not plain.isascii() or not plain.replace(".", "", 1).isdigit():
        raise _refuse("not_a_number", f"{text!r} is not an amount in dollars.")
    try:
        micro = Decimal(cleaned).scaleb(DECIMALS)
    except InvalidOperation as error:
        raise _refuse("not_a_number", f"{text!r} is not an amount in dollars.") from error
    if micro != micro.to_integral_value():
        raise _refuse("too_precise", "An amount has at most six decimals.")
    if abs(micro) > AMOUNT_MICRO_USD_MAX:
        raise _refuse("too_large", "The amount is too large.")
    return int(micro)


def _split(micro: int) -> tuple[str, int, int]:
    whole, fraction = divmod(abs(micro), MICRO)
    return ("-" if micro < 0 else ""), whole, fraction


def _refuse(code: str, message: str) -> Invalid:
    return Invalid.of_field("amount_usd", message, code=code)
