"""The rules by which alerts open and idle holds are found: their defaults, and what of them may be changed. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

UTILIZATION: Final = "utilization"
MEMORY: Final = "memory"
TEMPERATURE: Final = "temperature"
METRICS: Final = (UTILIZATION, MEMORY, TEMPERATURE)
MEASURES: Final = ("highest", "average", "lowest")
UNITS: Final = {UTILIZATION: "%", MEMORY: "%", TEMPERATURE: "°C"}
WINDOW_MINUTES_MIN: Final = 5
"""Some scrapes, also where one comes a minute."""
WINDOW_MINUTES_MAX: Final = 24 * 60
THRESHOLD_MAX: Final = 150
IDLE: Final = "idle"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRule:
    """Holds of a card of which, through the window, the `measure` of `metric` is on the wrong side of the threshold: below it
    for utilization, above it for the others.
    """

    name: str
    title: str
    metric: str
    measure: str
    threshold: float
    window_minutes: int
    kinds: tuple[str, ...] = ()
    """Kinds of workloads that it is about; all if empty."""
    teams: tuple[str, ...] = ()
    """Slugs of the teams that it is about; all if empty."""
    enabled: bool = True

    @property
    def window_seconds(self) -> int:
        return self.window_minutes * 60

    def holds(self, value: float) -> bool:
        return value < self.threshold if self.metric == UTILIZATION else value > self.threshold

    def is_about(self, *, kind: str, team: str) -> bool:
        return (not self.kinds or kind in self.kinds) and (not self.teams or team in self.teams)

    @property
    def words(self) -> str:
        """What it says, as a sentence without its subject."""
        side = "below" if self.metric == UTILIZATION else "above"
        unit = UNITS[self.metric]
        what = {UTILIZATION: "GPU utilization", MEMORY: "GPU memory in use", TEMPERATURE: "GPU temperature"}
        return f"{self.measure} {what[self.metric]} {side} {self.threshold:g} {unit} for {self.window_minutes} minutes"

    def message(self, *, value: float, cards: int) -> str:
        """What it says of a workload with so many such cards, the worst of which has this value."""
        unit = UNITS[self.metric]
        which = "Its GPU has" if cards == 1 else f"{cards} of its GPUs have"
        worst = "" if cards == 1 else " at worst"
        return f"{which} {value:.0f} {unit}{worst}: {self.words}."


DEFAULTS: Final = (
    GpuRule(name=IDLE, title="Idle", metric=UTILIZATION, measure="highest", threshold=10, window_minutes=30),
    GpuRule(
        name="memory-full",
        title="Memory nearly full",
        metric=MEMORY,
        measure="lowest",
        threshold=95,
        window_minutes=5,
    ),
    GpuRule(name="hot", title="Hot", metric=TEMPERATURE, measure="lowest", threshold=85, window_minutes=5),
    GpuRule(
        name="little-used",
        title="Little used",
        metric=UTILIZATION,
        measure="average",
        threshold=30,
        window_minutes=120,
    ),
    GpuRule(
        name="little-used-in-training",
        title="Little used in training",
        metric=UTILIZATION,
        measure="average",
        threshold=50,
        window_minutes=120,
        kinds=("training-run",),
    ),
)
NAMES: Final = tuple(rule.name for rule in DEFAULTS)
_TITLES: Final = {rule.name: rule.title for rule in DEFAULTS}
CHANGEABLE: Final = ("threshold", "window_minutes", "kinds", "teams", "enabled")


def milder_of(names: Collection[str]) -> set[str]:
    """Those of the rules of one workload that say nothing more where a sterner one holds as well."""
    said = set(names)
    milder = {"little-used-in-training"} if said & {"little-used", IDLE} else set()
    return milder | ({"little-used"} if IDLE in said else set())


def title_of_rule(name: str) -> str:
    """What it is called; its name, where there is no such rule any more."""
    return _TITLES.get(name, name)
