"""What is there, and in which state: the kernel shared by runs and endpoints, and what was observed of it."""

from __future__ import annotations

from workloads.models.dismissed import Dismissal
from workloads.models.kernel import Attempt, CapacityType, ResourceFlavor, Workload, WorkloadEvent
from workloads.models.observed import (
    ClaimRecord,
    ForeignPod,
    LogChunk,
    NodeInterval,
    NodePoolRecord,
    NodeRecord,
    ObjectRecord,
    PodRecord,
    StrayObject,
    WatchCursor,
)
from workloads.models.reported import Checkpoint, ProgressReport
from workloads.models.said import EventRecord

__all__ = [
    "Attempt",
    "CapacityType",
    "Checkpoint",
    "ClaimRecord",
    "Dismissal",
    "EventRecord",
    "ForeignPod",
    "LogChunk",
    "NodeInterval",
    "NodePoolRecord",
    "NodeRecord",
    "ObjectRecord",
    "PodRecord",
    "ProgressReport",
    "ResourceFlavor",
    "StrayObject",
    "WatchCursor",
    "Workload",
    "WorkloadEvent",
]
