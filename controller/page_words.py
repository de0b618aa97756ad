"""The words of the pages: phases with their icons, what a reason means, durations (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from workloads.states import Phase, Reason


@dataclass(frozen=True, slots=True)
class PhaseLook:
    """`icon` is the symbol's name in static/portal/icons.svg."""

    icon: str


PHASES: Mapping[str, PhaseLook] = MappingProxyType(
    {
        Phase.QUEUED.value: PhaseLook("clock"),
        Phase.ADMITTED.value: PhaseLook("ticket"),
        Phase.STARTING.value: PhaseLook("loader"),
        Phase.RUNNING.value: PhaseLook("play"),
        Phase.STOPPING.value: PhaseLook("stop"),
        Phase.SUSPENDED.value: PhaseLook("pause"),
        Phase.SUCCEEDED.value: PhaseLook("check"),
        Phase.FAILED.value: PhaseLook("alert"),
        Phase.CANCELLED.value: PhaseLook("ban"),
    }
)

NEXT_STEP: Mapping[str, str] = MappingProxyType(
    {
        Reason.PENDING_EVALUATION.value: "It has just been handed in; admission looks at it within seconds.",
        Reason.WAITING_FOR_QUOTA.value: "It starts by itself when units of the team's quota are given back. "
        "Fewer GPUs may start sooner.",
        Reason.EXCEEDS_MAX_QUOTA.value: "It can only start with a larger quota or with fewer GPUs.",
        Reason.NO_MATCHING_FLAVOR.value: "The nodes or the quota it was accepted for are gone; "
        "it waits until they come back.",
        Reason.BACKOFF_WAITING.value: "The last try failed; the next one follows after a pause.",
        Reason.CLUSTER_UNAVAILABLE.value: "The cluster does not answer. Nothing is lost; the portal goes on trying.",
        Reason.UNSCHEDULABLE.value: "The quota is claimed, but no node has room now. Nodes may still be coming up.",
        Reason.OOM_KILLED.value: "The container used more memory than its limit. Ask for more memory, "
        "or make the batch smaller.",
        Reason.IMAGE_PULL_FAILED.value: "Check the image's name and tag, and whether the cluster may pull it.",
        Reason.APPLICATION_ERROR.value: "The program ended with an error. Its last lines are in the logs.",
        Reason.BACKOFF_LIMIT_EXCEEDED.value: "It failed as often as its retries allow. The logs of each attempt are kept.",
        Reason.DEADLINE_EXCEEDED.value: "It reached its time limit. Start it again with a longer one, "
        "best from a checkpoint.",
        Reason.INVALID_SPEC.value: "The cluster refused the objects; the message above is the API server's own.",
        Reason.NODE_LOST.value: "The node went away. This does not count as a retry.",
        Reason.DELETED_EXTERNALLY.value: "Somebody deleted its object in the cluster, not through the portal.",
        Reason.DEGRADED.value: "Some of its pods are not ready. The pods and the logs show which.",
    }
)


def duration_words(seconds: float) -> str:
    """`42s`, `3m 07s`, `1h 04m`, `2d 03h`; never more than two units."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d {whole % 86400 // 3600:02d}h"


def limit_words(seconds: int | None) -> str:
    """A time limit as the form takes it: `2h`, `90m`, `45s`; empty without one."""
    if seconds is None:
        return ""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
