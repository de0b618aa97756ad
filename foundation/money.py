"""Money is an integer of micro-USD everywhere; floats never touch it."""

from __future__ import annotations

from typing import TypedDict

MICRO = 1_000_000
DECIMALS = 6


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


def _split(micro: int) -> tuple[str, int, int]:
    whole, fraction = divmod(abs(micro), MICRO)
    return ("-" if micro < 0 else ""), whole, fraction
