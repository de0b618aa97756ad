"""How far an attempt came, and how long each step took beside what is usual. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Final

STEPS: Final = ("submitted", "admitted", "scheduled", "image_pulled", "started", "running", "done")
"""In their order; an attempt may pass one without leaving a time of it."""
SAMPLES_MIN: Final = 3
OUTLIER_FACTOR: Final = 2.0
OUTLIER_SECONDS: Final = 30.0
"""A step is out of the ordinary if it took twice as long as the median of the like, and half a minute longer."""


@dataclass(frozen=True, slots=True)
class Passage:
    """When an attempt came to each step; only of those that it came to."""

    attempt: int
    at: Mapping[str, datetime]
    over: bool
    """Whether it has ended, or gone back to the queue."""


@dataclass(frozen=True, slots=True)
class Milestone:
    """A step that was reached. `seconds` is from there to the next one, or until now; None of the last."""

    attempt: int
    name: str
    at: datetime
    seconds: float | None
    going: bool
    """Whether it is still at this step."""
    usual_seconds: float | None
    """Median of the like; None where there are too few."""
    samples: int
    outlier: bool

    @property
    def label(self) -> str:
        """The step in words."""
        return self.name.replace("_", " ").capitalize()


def milestones(
    passages: Sequence[Passage], *, usual: Mapping[str, Sequence[float]], now: datetime
) -> list[Milestone]:
    """The steps of all attempts in their order; `usual` are the seconds that the like took from each step to its next."""
    found: list[Milestone] = []
    for passage in passages:
        reached = ordered(passage.at)
        for index, (name, at) in enumerate(reached):
            last = index + 1 == len(reached)
            going = last and not passage.over
            until = now if last else reached[index + 1][1]
            seconds = max(0.0, (until - at).total_seconds()) if going or not last else None
            like = usual.get(name, ())
            # How long a program runs, or until it fails, is its own matter.
            ends = name == "running" or (not last and reached[index + 1][0] == STEPS[-1])
            typical = median(like) if len(like) >= SAMPLES_MIN else None
            found.append(
                Milestone(
                    attempt=passage.attempt,
                    name=name,
                    at=at,
                    seconds=seconds,
                    going=going,
                    usual_seconds=typical,
                    samples=len(like),
                    outlier=not ends and _is_out(seconds, typical),
                )
            )
    return found


def ordered(at: Mapping[str, datetime]) -> list[tuple[str, datetime]]:
    """The steps in their order. Clocks of nodes differ: none is earlier than the one before it."""
    found: list[tuple[str, datetime]] = []
    for name in STEPS:
        if name in at:
            found.append((name, max(at[name], found[-1][1]) if found else at[name]))
    return found


def seconds_of(at: Mapping[str, datetime]) -> dict[str, float]:
    """How long each step took until the next one that was reached."""
    reached = ordered(at)
    return {name: (after - begun).total_seconds() for (name, begun), (_, after) in pairwise(reached)}


def _is_out(seconds: float | None, typical: float | None) -> bool:
    if seconds is None or typical is None:
        return False
    return seconds > OUTLIER_FACTOR * typical and seconds > typical + OUTLIER_SECONDS
