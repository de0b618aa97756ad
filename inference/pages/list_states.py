"""What people call the states of an endpoint, by which its list is filtered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from django.db.models import Q

from console.pages.chips import LIVE_STATE, ListState
from workloads.models import Workload
from workloads.states import Phase, Reason

_PHASES: Final[Mapping[Phase, str]] = {
    Phase.QUEUED: "Waiting",
    Phase.ADMITTED: "Starting",
    Phase.STARTING: "Starting",
    Phase.STOPPING: "Stopping",
    Phase.SUSPENDED: "Stopped",
    Phase.SUCCEEDED: "Stopped",
    Phase.FAILED: "Failed",
    Phase.CANCELLED: "Deleted",
}
_RUNNING: Final[Mapping[Reason, str]] = {
    Reason.READY: "Ready",
    Reason.PROGRESSING: "Ready",
    Reason.DEGRADED: "Degraded",
    Reason.SCALER_FAILED: "Degraded",
    Reason.UPDATING: "Updating",
    Reason.SCALED_TO_ZERO: "Scaled to zero",
    Reason.WAKING: "Scaled to zero",
}
"""Of what runs, its reason says how it is."""
ORDER: Final = (
    "Ready",
    "Updating",
    "Degraded",
    "Scaled to zero",
    "Starting",
    "Waiting",
    "Stopping",
    "Stopped",
    "Failed",
    "Deleted",
)


def state_of(workload: Workload) -> str:
    """What people call its state."""
    if workload.phase == Phase.RUNNING:
        return next((name for reason, name in _RUNNING.items() if reason == workload.reason), "Ready")
    return next(name for phase, name in _PHASES.items() if phase == workload.phase)


def _where(label: str) -> Q:
    phases = [phase.value for phase, name in _PHASES.items() if name == label]
    reasons = [reason.value for reason, name in _RUNNING.items() if name == label]
    where = Q(phase__in=phases) if phases else Q()
    return where | Q(phase=Phase.RUNNING.value, reason__in=reasons) if reasons else where


ENDPOINT_STATES: Final = (
    LIVE_STATE,
    *(ListState(label.lower().replace(" ", "-"), label, _where(label)) for label in ORDER),
)
