"""What the idle policy of a template does with a run now. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

IDLE_MINUTES_MIN: Final = 30
"""No less than the rule `idle` looks back by default: before that nothing counts as idle."""
IDLE_MINUTES_MAX: Final = 7 * 24 * 60


class IdleStep(StrEnum):
    """What it writes into a run's history."""

    WARNED = "IdleWarned"
    STOPPED = "IdleStopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdlePolicy:
    template: str
    warn_minutes: int
    stop_minutes: int | None

    @property
    def source(self) -> str:
        return f"template {self.template}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleRun:
    """`idle_since`: since when all its GPUs do nothing; None while one does something, or nobody knows."""

    idle_since: datetime | None
    warned_at: datetime | None
    now: datetime


def step_of(policy: IdlePolicy, run: IdleRun) -> IdleStep | None:
    """A run is stopped only after it had as long since its warning as the policy leaves between the two."""
    if run.idle_since is None:
        return None
    idle = run.now - run.idle_since
    if run.warned_at is None:
        return IdleStep.WARNED if idle >= timedelta(minutes=policy.warn_minutes) else None
    if policy.stop_minutes is None or idle < timedelta(minutes=policy.stop_minutes):
        return None
    left = timedelta(minutes=policy.stop_minutes - policy.warn_minutes)
    return IdleStep.STOPPED if run.now - run.warned_at >= left else None


def words_of(policy: IdlePolicy, step: IdleStep, *, idle_minutes: int) -> str:
    """What the owner reads."""
    so_far = f"All its GPUs have done nothing for {idle_minutes} minutes"
    if step is IdleStep.STOPPED:
        return (
            f"{so_far}; template {policy.template} stops a run after {policy.stop_minutes}. "
            "Resume it to go on from its last checkpoint."
        )
    if policy.stop_minutes is None:
        return f"{so_far}. Template {policy.template} warns of it and does nothing more."
    left = max(policy.stop_minutes - idle_minutes, policy.stop_minutes - policy.warn_minutes)
    return f"{so_far}. Template {policy.template} stops it in {left} minutes unless one does something."
