"""How past use fades: half of it counts after each half-life. Use is in unit-seconds, time in seconds."""

from __future__ import annotations

import math


def decayed(use: float, seconds: float, half_life_seconds: float) -> float:
    """What is left of `use` after `seconds`; time that runs backwards adds nothing."""
    return use * math.exp2(-max(0.0, seconds) / half_life_seconds)


def integral(units: int, seconds: float, half_life_seconds: float) -> float:
    """The decayed use of `units` that were held for the last `seconds`: ∫ units · 2^(-age / half-life) d age."""
    rate = math.log(2) / half_life_seconds
    return units * -math.expm1(-rate * max(0.0, seconds)) / rate
