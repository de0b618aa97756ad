"""Raw pods, Jobs and Deployments as API servers answer them, shortened to what matters."""

from __future__ import annotations

from datetime import datetime
from typing import Any

T0 = "2026-11-01T10:00:00Z"
T1 = "2026-11-01T10:00:05Z"
T2 = "2026-11-01T10:01:00Z"
T3 = "2026-11-01T10:30:00Z"
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": T1}
READY = {"type": "Ready", "status": "True", "lastTransitionTime": T2}


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def pod(
    phase: str = "Running",
    *,
    name: str = "a-1-x7k2p",
    owner: str = "job-uid",
    conditions: tuple[dict, ...] = (SCHEDULED,),
    containers: tuple[dict, ...] = (),
    inits: tuple[dict, ...] = (),
    node: str = "a100-0",
    spot: bool = False,
    deleted: bool = False,
    created: str = T0,
    **status: Any,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "team-vision",
        "uid": f"uid-{name}",
        "resourceVersion": "77",
        "creationTimestamp": created,
        "annotations": {"mlportal.dev/capacity-type": "spot" if spot else "on-demand"},
        "ownerReferences": [{"kind": "Job", "name": "a-1", "uid": owner, "controller": True}],
    }
    if deleted:
        metadata["deletionTimestamp"] = T3
    return {
        "metadata": metadata,
        "spec": {
            "nodeName": node,
            "initContainers": [{"name": "prepare", "image": "i"}] if inits else [],
            "containers": [{"name": "main", "image": "b", "resources": {"limits": {"memory": "16Gi"}}}],
        },
        "status": {
            "phase": phase,
            "conditions": list(conditions),
            "initContainerStatuses": list(inits),
            "containerStatuses": list(containers),
            **status,
        },
    }


def container(
    state: dict[str, Any], *, restarts: int = 0, last: dict[str, Any] | None = None, name: str = "main"
):
    return {
        "name": name,
        "image": "ghcr.io/vision/train:2",
        "restartCount": restarts,
        "ready": "running" in state,
        "state": state,
        "lastState": last or {},
    }


def running() -> dict[str, Any]:
    return {"running": {"startedAt": T2}}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


def ended(code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    state = {"exitCode": code, "reason": reason, "startedAt": T2, "finishedAt": T3}
    return {"terminated": {**state, **({"message": message} if message else {})}}


def failed(code: int, reason: str = "Error", message: str = "", **more: Any) -> dict[str, Any]:
    return pod("Failed", containers=(container(ended(code, reason, message)),), **more)


def disrupted(reason: str, message: str = "", *, phase: str = "Failed", **more: Any) -> dict[str, Any]:
    target = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    state = ended(143) if phase == "Failed" else running()
    return pod(phase, conditions=(SCHEDULED, target), containers=(container(state),), **more)


def unscheduled(reason: str, message: str) -> dict[str, Any]:
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": T1,
    }
    return pod("Pending", conditions=(condition,), node="")


def pending(state: dict[str, Any], **more: Any) -> dict[str, Any]:
    return pod("Pending", containers=(container(state),), **more)


def job(*conditions: tuple[str, str, str], deleted: bool = False, suspend: bool = False) -> dict[str, Any]:
    metadata = {"name": "a-1", "uid": "job-uid", "creationTimestamp": T0}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**metadata, "deletionTimestamp": T3} if deleted else metadata,
        "spec": {"suspend": suspend},
        "status": {
            "conditions": [
                {"type": kind, "status": "True", "reason": reason, "message": message}
                for kind, reason, message in conditions
            ]
        },
    }


BACKOFF = ("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")


def event(reason: str, message: str, *, uid: str, at: str = T1) -> dict[str, Any]:
    return {
        "reason": reason,
        "message": message,
        "involvedObject": {"uid": uid},
        "lastTimestamp": at,
        "eventTime": None,
    }


def deployment(
    *,
    desired: int = 2,
    total: int = 2,
    updated: int = 2,
    ready: int = 2,
    seen: bool = True,
    conditions: tuple[dict, ...] = (),
) -> dict[str, Any]:
    return {
        "metadata": {"name": "a-1", "uid": "d-uid", "generation": 4, "creationTimestamp": T0},
        "spec": {"replicas": desired},
        "status": {
            "observedGeneration": 4 if seen else 3,
            "replicas": total,
            "updatedReplicas": updated,
            "readyReplicas": ready,
            "conditions": list(conditions),
        },
    }
