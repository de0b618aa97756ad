"""What a pod's raw JSON says of it, as the columns of its row. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from cluster import labels as label_names
from cluster import quantities
from foundation.digits import whole_number
from workloads.podrequests import CPU, MEMORY, STORAGE, others_of_pod
from workloads.pods import evidence

ENDED = frozenset({"Succeeded", "Failed"})


def parse_time(text: str | None) -> datetime | None:
    """An RFC 3339 time of the Kubernetes API as an aware datetime."""
    return datetime.fromisoformat(text) if text else None


def created_at(metadata: Mapping[str, Any]) -> datetime:
    """When the API server made the object."""
    return datetime.fromisoformat(metadata["creationTimestamp"])


def attempt_of(metadata: Mapping[str, Any]) -> int:
    """The attempt that the label names; 0 if it is missing or no number."""
    text = str((metadata.get("labels") or {}).get(label_names.ATTEMPT, ""))
    return whole_number(text) or 0


def pod_facts(manifest: Mapping[str, Any], *, resource: str) -> dict[str, Any]:
    """All that may change; `resource` is the one whose units it pays for."""
    metadata, spec, status = manifest["metadata"], manifest.get("spec", {}), manifest.get("status", {})
    conditions = {condition["type"]: condition for condition in status.get("conditions") or []}
    containers = status.get("containerStatuses") or []
    ended = [item["state"]["terminated"] for item in containers if item.get("state", {}).get("terminated")]
    worst = max(ended, key=lambda state: state.get("exitCode", 0), default=None)
    return {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "attempt": attempt_of(metadata),
        "resource_version": metadata["resourceVersion"],
        "created_at": created_at(metadata),
        "phase": status.get("phase", ""),
        "ready": conditions.get("Ready", {}).get("status") == "True",
        "restarts": sum(item.get("restartCount", 0) for item in containers),
        "reason": status.get("reason") or (worst or {}).get("reason", ""),
        "disruption": _disruption(conditions.get("DisruptionTarget", {})),
        "message": status.get("message") or conditions.get("PodScheduled", {}).get("message", ""),
        "node_name": spec.get("nodeName", ""),
        "units": sum(
            int(quantities.parse(container.get("resources", {}).get("limits", {}).get(resource, 0)))
            for container in spec.get("containers", [])
        ),
        **others_held(spec),
        "exit_code": worst.get("exitCode") if worst else None,
        "image_id": _image_id(spec, containers),
        "evidence": evidence.of_pod(manifest),
    }


def others_held(spec: Mapping[str, Any]) -> dict[str, int]:
    """What the pod takes of its node besides GPUs, by the columns that keep it."""
    requests = others_of_pod(spec)
    return {
        "cpu_millicores": requests.get(CPU, 0),
        "memory_bytes": requests.get(MEMORY, 0),
        "storage_bytes": requests.get(STORAGE, 0),
    }


def _disruption(condition: Mapping[str, Any]) -> str:
    """The reason of the pod's DisruptionTarget condition, set by kube-controller-manager, scheduler or kubelet."""
    return str(condition.get("reason") or "")[:63] if condition.get("status") == "True" else ""


def _image_id(spec: Mapping[str, Any], statuses: Sequence[Mapping[str, Any]]) -> str:
    """The image of the pod's first container; further ones may come from an admission webhook, and run no user's code."""
    first = next((container["name"] for container in spec.get("containers") or []), None)
    return next(
        (str(status.get("imageID") or "")[:1024] for status in statuses if status.get("name") == first), ""
    )


def pod_times(manifest: Mapping[str, Any]) -> dict[str, datetime | None]:
    """The API's own times, each of which is recorded once."""
    metadata, status = manifest["metadata"], manifest.get("status", {})
    containers = status.get("containerStatuses") or []
    scheduled = [
        parse_time(condition.get("lastTransitionTime"))
        for condition in status.get("conditions") or []
        if condition["type"] == "PodScheduled" and condition["status"] == "True"
    ]
    started, ended = [], []
    for item in containers:
        state = item.get("state", {})
        started.append(parse_time((state.get("running") or state.get("terminated") or {}).get("startedAt")))
        ended.append(parse_time((state.get("terminated") or {}).get("finishedAt")))
    finished = status.get("phase") in ENDED
    known_ends = [time for time in ended if time is not None]
    return {
        "scheduled_at": scheduled[0] if scheduled else None,
        "started_at": min((time for time in started if time is not None), default=None),
        "finished_at": (max(known_ends) if known_ends else _last_change(status)) if finished else None,
        "deletion_at": parse_time(metadata.get("deletionTimestamp")),
        "deletion_asked_at": _asked_to_end(metadata),
    }


def _asked_to_end(metadata: Mapping[str, Any]) -> datetime | None:
    """When it was deleted: the deletion timestamp is the end of its grace period, also where that was shortened since."""
    ends = parse_time(metadata.get("deletionTimestamp"))
    return ends and ends - timedelta(seconds=int(metadata.get("deletionGracePeriodSeconds") or 0))


def _last_change(status: Mapping[str, Any]) -> datetime | None:
    """When a pod ended whose containers left no end, such as an evicted one: its conditions changed last then."""
    changes = [
        parse_time(condition.get("lastTransitionTime")) for condition in status.get("conditions") or []
    ]
    return max((change for change in changes if change is not None), default=None)
