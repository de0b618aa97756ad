"""What is there of a cluster besides the configured one, as the rows of its own watcher would say."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import Model

from cluster.names import DEFAULT_CLUSTER
from foundation import clock
from workloads.models import (
    ClaimRecord,
    ForeignPod,
    NodePoolRecord,
    NodeRecord,
    ObjectRecord,
    PodRecord,
    StrayObject,
    WatchCursor,
    Workload,
)

ELSEWHERE = "elsewhere"
OBSERVED: tuple[type[Model], ...] = (
    PodRecord, ObjectRecord, NodeRecord, ForeignPod, StrayObject, NodePoolRecord, ClaimRecord, WatchCursor,
)  # fmt: skip
"""All models whose rows are of one cluster."""
CURSORS = ("Node", "Pod", "ForeignPod", "PersistentVolumeClaim", "NodePool", "batch/v1/Job")
PRODUCT = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}
BESIDE = {"cpu_millicores": 1000, "memory_bytes": 2**30, "storage_bytes": 0}


def make_rows(workload: Workload, *, cluster: str = ELSEWHERE, node: str = "a100-0") -> list[Model]:
    """A row of each kind of one cluster, all of them there now: a node of eight GPUs of which a pod of the workload
    and one of others hold one each.
    """
    now = clock.now()
    named: dict[str, Any] = {"cluster": cluster, "namespace": workload.team.namespace_name, "name": "train"}
    own: dict[str, Any] = {"workload": workload, "attempt": 1, "resource_version": "1", "created_at": now}
    job = {"api_version": "batch/v1", "kind": "Job"}
    return [
        NodeRecord.objects.create(**_node(cluster, node, now)),
        PodRecord.objects.create(
            uid=f"pod-{cluster}", node_name=node, units=1, phase="Running", **named, **own, **BESIDE
        ),
        ObjectRecord.objects.create(uid=f"job-{cluster}", **job, **named, **own),
        ForeignPod.objects.create(
            uid=f"foreign-{cluster}", node_name=node, requests={"nvidia.com/gpu": 1}, seen_at=now, **named, **BESIDE
        ),
        StrayObject.objects.create(
            uid=f"stray-{cluster}", owned=False, said_workload="-", units=1, created_at=now, found_at=now, **job, **named
        ),
        NodePoolRecord.objects.create(
            uid=f"pool-{cluster}", cluster=cluster, name="gpus", labels=PRODUCT, observed_at=now
        ),
        ClaimRecord.objects.create(
            uid=f"claim-{cluster}", access_modes=["ReadWriteMany"], phase="Bound", observed_at=now, **named
        ),
        *(
            WatchCursor.objects.create(
                cluster=cluster, kind=kind, resource_version="7", listed_at=now, seen_at=now
            )
            for kind in CURSORS
        ),
    ]  # fmt: skip


def _node(cluster: str, name: str, now: datetime) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "uid": f"node-{cluster}",
        "name": name,
        "resource_version": "1",
        "labels": PRODUCT,
        "allocatable": {"nvidia.com/gpu": 8},
        "others": {"cpu": "8", "memory": "64Gi", "pods": "110", "example.org/nic": "1"},
        "ready": True,
        "created_at": now,
    }


def rows_of(cluster: str = DEFAULT_CLUSTER) -> dict[str, list[dict[str, Any]]]:
    """All rows of a cluster, by the name of their model."""
    return {
        each.__name__: list(each._default_manager.filter(cluster=cluster).order_by("pk").values())
        for each in OBSERVED
    }
