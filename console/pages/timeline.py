"""What happened when, as steps with durations: from the event rows alone (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from workloads.states import FINAL, Phase

_NARROWEST = 0.6


class Moved(Protocol):
    """An event row, as far as the timeline reads it."""

    at: datetime
    to_phase: str
    reason: str
    attempt: int


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """One stretch in one phase. `left` and `width` are percentages of the whole, `ended_at` None while it lasts."""

    phase: str
    reason: str
    attempt: int
    started_at: datetime
    ended_at: datetime | None
    seconds: float
    left: str
    width: str


@dataclass(frozen=True, slots=True)
class Lane:
    """The steps of one attempt; number 0 is before the first."""

    number: int
    steps: list[TimelineStep]


@dataclass(frozen=True, slots=True)
class Timeline:
    lanes: list[Lane]
    started_at: datetime
    ended_at: datetime | None
    final_phase: str

    @property
    def steps(self) -> list[TimelineStep]:
        return [step for lane in self.lanes for step in lane.steps]


def timeline(events: Sequence[Moved], *, now: datetime) -> Timeline | None:
    """The events, oldest first, as lanes; None without any."""
    if not events:
        return None
    moves = [event for i, event in enumerate(events) if i == 0 or event.to_phase != events[i - 1].to_phase]
    final = moves[-1].to_phase if Phase(moves[-1].to_phase) in FINAL else ""
    start, end = moves[0].at, moves[-1].at if final else now
    whole = max((end - start).total_seconds(), 0.001)
    lanes: dict[int, list[TimelineStep]] = {}
    for index, move in enumerate(moves):
        if Phase(move.to_phase) in FINAL:
            continue
        until = moves[index + 1].at if index + 1 < len(moves) else None
        seconds = max(0.0, ((until or now) - move.at).total_seconds())
        left = min(100 - _NARROWEST, 100 * (move.at - start).total_seconds() / whole)
        step = TimelineStep(
            phase=move.to_phase,
            reason=_last_reason(events, move, until),
            attempt=move.attempt,
            started_at=move.at,
            ended_at=until,
            seconds=seconds,
            left=f"{left:.2f}",
            width=f"{max(_NARROWEST, 100 * seconds / whole):.2f}",
        )
        lanes.setdefault(move.attempt, []).append(step)
    return Timeline(
        [Lane(number, steps) for number, steps in sorted(lanes.items())], start, end if final else None, final
    )


def _last_reason(events: Sequence[Moved], move: Moved, until: datetime | None) -> str:
    """The newest reason of the stretch that begins with `move`."""
    within = [
        event
        for event in events
        if event.to_phase == move.to_phase and event.at >= move.at and (until is None or event.at <= until)
    ]
    return within[-1].reason if within else move.reason
