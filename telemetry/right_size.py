"""What a run that has ended should ask for the next time, by what its GPUs did. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from foundation.money import half_up

SPARE: Final = 1.2
"""So much more memory than its peak must be there."""
BUSY_MAX: Final = 90.0
"""Percent: a part of the card may not be busier than that by the whole card's average."""
LITTLE_USED: Final = 50.0
"""Percent: at this average or above it, a card is not too large."""
COVERED_WELL, COVERED_HALF = 0.9, 0.5
LONG_ENOUGH_SECONDS: Final = 1800
MIB_OF_GIB: Final = 1024
NOTHING: Final = Fraction(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedGpus:
    """What the GPUs of a run did, from its start to its end."""

    units_each: int
    pods: int
    seconds: int
    used_each: int
    """The most cards that one pod did anything with."""
    average: float
    """Percent: utilization of all cards that did anything."""
    peak_memory_mib: float
    coverage: float
    """The share of its time that is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorOption:
    """A flavor that the team may ask for; `rate_per_hour` in micro-USD of one unit, exact, None without a price."""

    name: str
    card: str
    fraction: Fraction
    memory_gib: int
    rate_per_hour: Fraction | None
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeAdvice:
    """`changes` are fields of its request; none where it used what it asked for."""

    message: str
    confidence: str
    """high, medium or low."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    saving_micro_usd: int | None = None
    """What a run as long as this one would have cost less; None without prices, or without a change."""

    @property
    def draft_words(self) -> str:
        """What the changes are, such as "1 GPU a pod"."""
        if "flavor" in self.changes:
            return f"flavor {self.changes['flavor']}"
        gpus = self.changes.get("gpus_per_replica")
        return "" if gpus is None else f"{gpus} GPU{'' if gpus == 1 else 's'} a pod"


def advise(used: UsedGpus, own: FlavorOption, others: Iterable[FlavorOption]) -> SizeAdvice:
    sure = _confidence(used)
    if not used.used_each:
        return _idle(used, own, sure)
    if used.used_each < used.units_each:
        return _fewer(used, own, sure)
    smaller = _smaller(used, own, others)
    if smaller is None:
        message = (
            f"It used what it asked for: {used.average:.0f} % on average, {_memory(used)} of memory at most."
        )
        return SizeAdvice(message=message, confidence=sure)
    message = (
        f"Its GPUs were busy {used.average:.0f} % of the time and held {_memory(used)} at most: "
        f"{smaller.name} with {smaller.memory_gib} GiB should do."
    )
    saving = _saving(used, own.rate_per_hour, smaller.rate_per_hour, units=used.units_each)
    # A part of a card does the same work slower; how much slower no metric says.
    return SizeAdvice(
        message=message,
        confidence="medium" if sure == "high" else "low",
        changes={"flavor": smaller.name},
        saving_micro_usd=saving,
    )


def _idle(used: UsedGpus, own: FlavorOption, sure: str) -> SizeAdvice:
    if used.units_each == 1:
        message = "Its GPU did nothing: see whether the program finds it, or ask for none."
        return SizeAdvice(message=message, confidence=sure)
    message = f"None of its {used.units_each} GPUs did anything: try with one, and see whether the program finds it."
    return SizeAdvice(
        message=message,
        confidence=sure,
        changes={"gpus_per_replica": 1},
        saving_micro_usd=_saving(used, own.rate_per_hour, NOTHING, units=used.units_each - 1),
    )


def _fewer(used: UsedGpus, own: FlavorOption, sure: str) -> SizeAdvice:
    pod = "" if used.pods == 1 else " of each pod"
    return SizeAdvice(
        message=f"Only {used.used_each} of {used.units_each} GPUs{pod} did anything.",
        confidence=sure,
        changes={"gpus_per_replica": used.used_each},
        saving_micro_usd=_saving(used, own.rate_per_hour, NOTHING, units=used.units_each - used.used_each),
    )


def _smaller(used: UsedGpus, own: FlavorOption, others: Iterable[FlavorOption]) -> FlavorOption | None:
    """The smallest part of the same card that holds its memory and its work; only for pods of one GPU, as parts of cards
    do not work together.
    """
    if used.units_each != 1 or used.average >= LITTLE_USED:
        return None
    need = used.peak_memory_mib * SPARE
    fits = [
        each
        for each in others
        if each.card == own.card
        and each.fraction < own.fraction
        and not each.shared
        and each.memory_gib * MIB_OF_GIB >= need
        and used.average * float(own.fraction / each.fraction) <= BUSY_MAX
    ]
    return min(fits, key=lambda each: (each.fraction, each.name), default=None)


def _saving(used: UsedGpus, before: Fraction | None, after: Fraction | None, *, units: int) -> int | None:
    if before is None or after is None:
        return None
    return half_up((before - after) * units * used.pods * used.seconds / 3600)


def _confidence(used: UsedGpus) -> str:
    if used.coverage >= COVERED_WELL and used.seconds >= LONG_ENOUGH_SECONDS:
        return "high"
    return "medium" if used.coverage >= COVERED_HALF else "low"


def _memory(used: UsedGpus) -> str:
    return f"{used.peak_memory_mib / MIB_OF_GIB:.1f} GiB"
