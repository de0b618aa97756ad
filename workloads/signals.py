"""Signals to other apps about workloads, inside the transaction of the change: an error in a receiver rolls it back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.dispatch import Signal

stopped = Signal()
"""`workload` has ended or is suspended now: it takes no place any more."""

moved = Signal()
"""`moves`, each a `PhaseMove`, have another phase or reason since `now`; several where a pass moved them together."""


@dataclass(frozen=True, slots=True)
class PhaseMove:
    """`workload` as it is now, and what it was before."""

    workload: Any
    from_phase: str
    from_reason: str
