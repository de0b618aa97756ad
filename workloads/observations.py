"""Rows of what the API server showed: written by the watcher and by reconciles, from raw JSON.

Facts that decide money (times, exit codes) are written once and never erased by a later, older or
poorer description of the same pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from cluster import labels as label_names
from cluster import quantities
from foundation.digits import whole_number
from workloads.models import (
    ClaimRecord,
    ForeignPod,
    NodePoolRecord,
    NodeRecord,
    ObjectRecord,
    PodRecord,
    Workload,
)

ENDED = frozenset({"Succeeded", "Failed"})
STATE = frozenset({"phase", "ready", "restarts", "reason", "message", "exit_code", "resource_version"})
# What such a field holds when a description says nothing of it.
KEPT: dict[str, Any] = {"node_name": "", "units": 0, "exit_code": None, "image_id": "", "disruption": ""}
KEPT_OF_ENDED: dict[str, Any] = {"reason": "", "message": ""}
GPU_PREFIXES = ("nvidia.com/", "amd.com/", "gpu.intel.com/")


def parse_time(text: str | None) -> datetime | None:
    """An RFC 3339 time of the Kubernetes API as an aware datetime."""
    return datetime.fromisoformat(text) if text else None


def created_at(metadata: Mapping[str, Any]) -> datetime:
    """When the API server made the object."""
    return datetime.fromisoformat(metadata["creationTimestamp"])


def workload_of(manifest: Mapping[str, Any]) -> Workload | None:
    """The workload whose id the object's labels carry; None for objects that are not the portal's."""
    labels = manifest.get("metadata", {}).get("labels") or {}
    if labels.get(label_names.MANAGED_BY) != label_names.MANAGER:
        return None
    public_id = labels.get(label_names.WORKLOAD_ID, "")
    try:
        found = Workload.objects.select_related("flavor", "team").filter(public_id=public_id).first()
    except ValidationError:
        # Whoever may write to the namespace may write any label.
        return None
    # Nor does a label in another namespace make somebody else's pod this team's to pay for.
    own = found is not None and manifest["metadata"].get("namespace") == found.team.namespace_name
    return found if own else None


def _attempt_of(metadata: Mapping[str, Any]) -> int:
    """The attempt that the label names; 0 where somebody has spoilt it."""
    text = str((metadata.get("labels") or {}).get(label_names.ATTEMPT, ""))
    return whole_number(text) or 0


def record_pod(
    manifest: Mapping[str, Any], *, workload: Workload, now: datetime, gone: bool = False
) -> PodRecord:
    """The row of this pod, brought up to date; `gone` says that the API server no longer has it."""
    metadata = manifest["metadata"]
    with transaction.atomic():
        # The watcher and a reconcile may see a new pod at the same moment.
        facts = {key: value for key, value in _pod_facts(manifest, workload).items() if value is not None}
        PodRecord.objects.get_or_create(uid=metadata["uid"], defaults={**facts, "workload": workload})
        record = PodRecord.objects.select_for_update(no_key=True).get(uid=metadata["uid"])
        for field, value in _news(record, _pod_facts(manifest, workload)).items():
            setattr(record, field, value)
        times = _pod_times(manifest)
        for field, value in times.items():
            if getattr(record, field) is None:
                setattr(record, field, value)
        if gone and record.gone_at is None:
            record.gone_at = now
        record.ready = record.ready and record.gone_at is None
        record.save()
    return record


def _news(record: PodRecord, facts: dict[str, Any]) -> dict[str, Any]:
    """The facts that may replace what is known: a pod that has ended does not live again, and what decides
    money is not forgotten because one description leaves it out.
    """
    if record.phase in ENDED and facts["phase"] not in ENDED:
        facts = {name: value for name, value in facts.items() if name not in STATE}
    kept = KEPT | KEPT_OF_ENDED if record.phase in ENDED else KEPT
    return {name: value for name, value in facts.items() if name not in kept or value != kept[name]}


def mark_pods_gone(*, workload: Workload, present_uids: set[str], now: datetime) -> list[PodRecord]:
    """Rows of pods that a complete list no longer shows; call only with a list that is known to be whole."""
    with transaction.atomic():
        missing = list(
            PodRecord.objects.select_for_update(no_key=True)
            .filter(workload=workload, gone_at__isnull=True)
            .exclude(uid__in=present_uids)
        )
        for record in missing:
            record.gone_at = now
            record.ready = False
            record.save(update_fields=["gone_at", "ready"])
    return missing


def _pod_facts(manifest: Mapping[str, Any], workload: Workload) -> dict[str, Any]:
    metadata, spec, status = manifest["metadata"], manifest.get("spec", {}), manifest.get("status", {})
    resource = workload.flavor.resource if workload.flavor else ""
    conditions = {condition["type"]: condition for condition in status.get("conditions") or []}
    containers = status.get("containerStatuses") or []
    ended = [item["state"]["terminated"] for item in containers if item.get("state", {}).get("terminated")]
    worst = max(ended, key=lambda state: state.get("exitCode", 0), default=None)
    return {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "attempt": _attempt_of(metadata),
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
        "exit_code": worst.get("exitCode") if worst else None,
        "image_id": _image_id(spec, containers),
    }


def _disruption(condition: Mapping[str, Any]) -> str:
    """The word of what takes the pod away (kube-controller-manager, scheduler, kubelet, eviction API)."""
    return str(condition.get("reason") or "")[:63] if condition.get("status") == "True" else ""


def _image_id(spec: Mapping[str, Any], statuses: Sequence[Mapping[str, Any]]) -> str:
    """Of the pod's first container; what others an admission webhook may add run is nobody's code."""
    first = next((container["name"] for container in spec.get("containers") or []), None)
    return next((str(each.get("imageID") or "")[:1024] for each in statuses if each.get("name") == first), "")


def _pod_times(manifest: Mapping[str, Any]) -> dict[str, datetime | None]:
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
    finished = status.get("phase") in {"Succeeded", "Failed"}
    known_ends = [time for time in ended if time is not None]
    return {
        "scheduled_at": scheduled[0] if scheduled else None,
        "started_at": min((time for time in started if time is not None), default=None),
        "finished_at": (max(known_ends) if known_ends else _last_change(status)) if finished else None,
        "deletion_at": parse_time(metadata.get("deletionTimestamp")),
    }


def _last_change(status: Mapping[str, Any]) -> datetime | None:
    """When a pod ended whose containers left no end, such as an evicted one: its conditions changed last then."""
    changes = [
        parse_time(condition.get("lastTransitionTime")) for condition in status.get("conditions") or []
    ]
    return max((change for change in changes if change is not None), default=None)


def record_object(
    manifest: Mapping[str, Any], *, workload: Workload, now: datetime, gone: bool = False
) -> ObjectRecord:
    """The row of an object that the portal made."""
    metadata = manifest["metadata"]
    record, _ = ObjectRecord.objects.update_or_create(
        uid=metadata["uid"],
        defaults={
            "api_version": manifest["apiVersion"],
            "kind": manifest["kind"],
            "namespace": metadata.get("namespace", ""),
            "name": metadata["name"],
            "workload": workload,
            "attempt": _attempt_of(metadata),
            "resource_version": metadata["resourceVersion"],
            "created_at": created_at(metadata),
        }
        | ({"gone_at": now} if gone else {}),
    )
    return record


def record_node(manifest: Mapping[str, Any], *, now: datetime, gone: bool = False) -> NodeRecord:
    """The row of a node, with whole units of the extended resources it offers."""
    metadata, spec, status = manifest["metadata"], manifest.get("spec", {}), manifest.get("status", {})
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in status.get("conditions") or []
    )
    allocatable = gpu_units(status.get("allocatable"))
    record, _ = NodeRecord.objects.update_or_create(
        uid=metadata["uid"],
        defaults={
            "name": metadata["name"],
            "resource_version": metadata["resourceVersion"],
            "labels": metadata.get("labels") or {},
            "taints": spec.get("taints") or [],
            "allocatable": allocatable,
            "others": {
                name: str(value)
                for name, value in (status.get("allocatable") or {}).items()
                if name not in allocatable
            },
            "ready": ready,
            "unschedulable": bool(spec.get("unschedulable")),
            "created_at": created_at(metadata),
            "gone_at": now if gone else None,
        },
    )
    return record


def gpu_units(amounts: Mapping[str, Any] | None) -> dict[str, int]:
    """Whole units of GPU resources among these amounts, by resource name."""
    named = (amounts or {}).items()
    return {name: int(quantities.parse(value)) for name, value in named if name.startswith(GPU_PREFIXES)}


def gpus_of_pod(spec: Mapping[str, Any]) -> dict[str, int]:
    """GPU units for which the scheduler sets room aside, by Kubernetes' rule: containers and sidecars together, or
    the largest init container with the sidecars that were started before it.
    """
    together = [_requests(container) for container in spec.get("containers") or []]
    sidecars: list[Mapping[str, int]] = []
    peaks: list[dict[str, int]] = []
    for container in spec.get("initContainers") or []:
        own = _requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars.append(own)
        peaks.append(_sum([own, *sidecars] if container.get("restartPolicy") != "Always" else sidecars))
    peaks.append(_sum([*together, *sidecars]))
    names = {name for peak in peaks for name in peak}
    most = {name: max(peak.get(name, 0) for peak in peaks) for name in sorted(names)}
    return {name: units for name, units in most.items() if units > 0}


def _requests(container: Mapping[str, Any]) -> dict[str, int]:
    resources = container.get("resources") or {}
    # Of extended resources a request equals the limit, and a limit alone is a request.
    return gpu_units(resources.get("limits")) | gpu_units(resources.get("requests"))


def _sum(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, units in part.items():
            total[name] = total.get(name, 0) + units
    return total


def record_foreign_pod(manifest: Mapping[str, Any], *, now: datetime, gone: bool = False) -> set[str]:
    """Keep a row of a pod that is not the portal's for as long as it holds GPUs of a node.

    Returns the names of the nodes on which others now hold something else than before.
    """
    metadata, spec = manifest["metadata"], manifest.get("spec") or {}
    ended = gone or (manifest.get("status") or {}).get("phase") in ENDED
    node = spec.get("nodeName") or ""
    requests = gpus_of_pod(spec) if node and not ended else {}
    before = ForeignPod.objects.filter(uid=metadata["uid"]).first()
    if not requests:
        ForeignPod.objects.filter(uid=metadata["uid"]).delete()
        return {before.node_name} if before else set()
    if before and (before.node_name, before.requests) == (node, requests):
        return set()
    ForeignPod.objects.update_or_create(
        uid=metadata["uid"],
        defaults={
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "node_name": node,
            "requests": requests,
            "seen_at": now,
        },
    )
    return {node, before.node_name} if before else {node}


def record_node_pool(manifest: Mapping[str, Any], *, now: datetime) -> NodePoolRecord:
    """The row of a Karpenter NodePool: what its nodes may be, and how many GPUs it may still bring."""
    metadata, spec, status = manifest["metadata"], manifest.get("spec") or {}, manifest.get("status") or {}
    template = spec.get("template") or {}
    made = template.get("spec") or {}
    record, _ = NodePoolRecord.objects.update_or_create(
        uid=metadata["uid"],
        defaults={
            "name": metadata["name"],
            "labels": (template.get("metadata") or {}).get("labels") or {},
            "requirements": made.get("requirements") or [],
            "taints": made.get("taints") or [],
            "limits": gpu_units(spec.get("limits")),
            "in_use": gpu_units(status.get("resources")),
            "observed_at": now,
        },
    )
    return record


def record_claim(manifest: Mapping[str, Any], *, now: datetime) -> ClaimRecord:
    """The row of a PersistentVolumeClaim as it was seen now."""
    metadata, spec, status = manifest["metadata"], manifest.get("spec") or {}, manifest.get("status") or {}
    ends = bool(metadata.get("deletionTimestamp"))
    record, _ = ClaimRecord.objects.update_or_create(
        uid=metadata["uid"],
        defaults={
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "access_modes": list(spec.get("accessModes") or ()),
            "phase": "Terminating" if ends else status.get("phase") or "Pending",
            "observed_at": now,
        },
    )
    return record
