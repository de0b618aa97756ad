"""Runs of every kind: one that ends well, and each way to fail. docs/reference/training-kinds.md shows these tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from cluster.errors import ClusterUnavailable
from foundation import clock
from tests.controller.kinds_bed import KindsBed
from workloads.models import Workload


@dataclass(frozen=True)
class Shape:
    """A run of one kind that ends well."""

    body: dict[str, Any]
    pods: int
    gpu_pods: int
    gpus: int


SHAPES = {
    "job": Shape({"replicas": 4, "gpus_per_replica": 2}, 4, 4, 2),
    "pytorchjob": Shape({"replicas": 4, "gpus_per_replica": 8}, 4, 4, 8),
    "tfjob": Shape(
        {
            "replicas": 2,
            "gpus_per_replica": 4,
            "roles": [{"name": "Chief", "gpus_per_replica": 4}, {"name": "PS", "replicas": 2}],
        },
        5,
        3,
        4,
    ),
    "mpijob": Shape({"replicas": 2, "gpus_per_replica": 8}, 3, 2, 8),
}
SMALL: dict[str, dict[str, Any]] = {
    "job": {"replicas": 2},
    "pytorchjob": {"replicas": 2},
    "tfjob": {"replicas": 2, "roles": [{"name": "Chief", "gpus_per_replica": 2}, {"name": "PS"}]},
    "mpijob": {"replicas": 2},
}
"""What the failures happen to: two GPUs a pod, more than one pod."""


@dataclass(frozen=True)
class Fault:
    """What happens to a run, and how the portal says that it ended."""

    happens: Callable[[KindsBed, Workload], None]
    phase: str
    reason: str
    attempts: int
    retries: int = 0
    interruptions: int = 0
    first: tuple[str, ...] = ()
    """Reasons of the first attempt, any of them: which one depends on who was seen first."""
    env: dict[str, Any] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


def nothing_more(bed: KindsBed, run: Workload) -> None:
    """Its environment does it."""


def time_passes(bed: KindsBed, run: Workload) -> None:
    bed.running(run)
    run.attempts.update(started_at=clock.now() - timedelta(seconds=601))


def a_pod_is_deleted(bed: KindsBed, run: Workload) -> None:
    bed.running(run)
    bed.delete(bed.pods(run)[-1])
    bed.running(run, attempt=2)


def its_object_is_deleted(bed: KindsBed, run: Workload) -> None:
    bed.running(run)
    bed.delete(bed.primary(run))


def its_node_is_lost(bed: KindsBed, run: Workload) -> None:
    bed.running(run)
    with bed.lost(bed.pods(run)[-1]["spec"]["nodeName"]):
        bed.running(run, attempt=2)


def its_node_is_drained(bed: KindsBed, run: Workload) -> None:
    """Its budget holds a drain off; a taint that lets nothing run there is stronger."""
    bed.running(run)
    pod = bed.pods(run)[-1]
    with pytest.raises(ClusterUnavailable, match="disruption budget"):
        bed.evict(pod)
    with bed.tainted(pod["spec"]["nodeName"]):
        bed.running(run, attempt=2)


def its_spot_node_is_reclaimed(bed: KindsBed, run: Workload) -> None:
    """As Karpenter and the cloud's termination handlers do: cordoned, and its pods evicted."""
    bed.running(run)
    pod = bed.pods(run)[-1]
    # A spot node does not come back; what is evicted finds the other one.
    with bed.cordoned(pod["spec"]["nodeName"]):
        bed.evict(pod)
        bed.running(run, attempt=2)


def the_scheduler_preempts_it(bed: KindsBed, run: Workload) -> None:
    bed.running(run)
    with bed.intruder(bed.pods(run)[-1]["spec"]["nodeName"]):
        bed.running(run, attempt=2)


def a_higher_class_needs_its_quota(bed: KindsBed, run: Workload) -> None:
    bed.running(run)
    # All that the team has: the one below has to leave for it.
    other = bed.submit(gpus_per_replica=8, replicas=4, env={"BED_RUN_SECONDS": 1})
    bed.until(other, lambda other: other.reason == "WaitingForPreemptedWorkloads")
    bed.until(run, lambda run: run.phase == "Queued")
    bed.until(other, lambda other: other.is_final)
    assert other.phase == "Succeeded"
    bed.running(run, attempt=2)


FAULTS = {
    "exit code": Fault(
        nothing_more,
        "Failed",
        "ApplicationError",
        attempts=2,
        retries=1,
        env={"BED_RUN_SECONDS": 1, "BED_EXIT_CODE": 3},
        body={"max_retries": 1},
    ),
    "out of memory": Fault(
        nothing_more,
        "Failed",
        "OOMKilled",
        attempts=1,
        env={"BED_RUN_SECONDS": 1, "BED_OOM": "true"},
        body={"max_retries": 3},
    ),
    "image error": Fault(
        nothing_more,
        "Failed",
        "ImagePullFailed",
        attempts=1,
        body={"image": "example.org/does-not-exist:1", "max_retries": 3},
        settings={"image_pull_deadline_seconds": 2},
    ),
    "time limit": Fault(time_passes, "Failed", "DeadlineExceeded", attempts=1, body={"max_retries": 3}),
    "pod deleted": Fault(
        a_pod_is_deleted,
        "Succeeded",
        "Completed",
        attempts=2,
        interruptions=1,
        first=("NodeLost", "DeletedExternally"),
    ),
    "object deleted": Fault(its_object_is_deleted, "Failed", "DeletedExternally", attempts=1),
    "node lost": Fault(
        its_node_is_lost, "Succeeded", "Completed", attempts=2, interruptions=1, first=("NodeLost",)
    ),
    "node drained": Fault(
        its_node_is_drained, "Succeeded", "Completed", attempts=2, interruptions=1, first=("NodeLost",)
    ),
    "preempted by the scheduler": Fault(
        the_scheduler_preempts_it,
        "Succeeded",
        "Completed",
        attempts=2,
        interruptions=1,
        first=("Preempted",),
    ),
    "preempted by the portal": Fault(
        a_higher_class_needs_its_quota,
        "Succeeded",
        "Completed",
        attempts=2,
        first=("Preempted",),
        body={"priority": "low"},
    ),
    "spot reclaimed": Fault(
        its_spot_node_is_reclaimed,
        "Succeeded",
        "Completed",
        attempts=2,
        interruptions=1,
        first=("SpotReclaimed",),
        body={"capacity": "spot"},
    ),
}
