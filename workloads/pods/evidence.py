"""What is kept of an object's status so that it can be said later why it failed. Pure: raw JSON in, small JSON out.

Of a pod that does well nothing is kept; the rest is what its status says in so many words, shortened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

Json = Mapping[str, Any]

TEXT_LENGTH_MAX: Final = 4_000
GATE_OF_WORKERS: Final = "init-pytorch"
"""The init container in which the training operator's workers wait for their master: that it runs on tells something."""
_STATES: Final = ("waiting", "terminated", "running")
_OF_A_STATE: Final = ("reason", "message", "exitCode", "signal", "startedAt", "finishedAt")
_OF_A_CONDITION: Final = ("type", "status", "reason", "message", "lastTransitionTime")
_ENDS: Final = frozenset({"Complete", "Succeeded", "Failed"})
_GOOD_WHEN_TRUE: Final = frozenset({"PodScheduled", "Ready"})
_BAD_WHEN_TRUE: Final = frozenset({"DisruptionTarget"})
_GOOD_OF_A_NODE: Final = frozenset({"Ready", "Sufficient"})


def of_pod(manifest: Json) -> dict[str, Any]:
    """The pod's telling conditions and containers, and while it has no node what it asks of one; empty if it does well."""
    metadata, spec, status = manifest["metadata"], manifest.get("spec") or {}, manifest.get("status") or {}
    conditions = [_condition(item) for item in status.get("conditions") or () if _tells(item)]
    placed = bool(spec.get("nodeName"))
    found: dict[str, Any] = {
        "reason": _text(status.get("reason")),
        "message": _text(status.get("message")),
        "conditions": conditions,
        "containers": list(_containers(status)),
        "nominated": str(status.get("nominatedNodeName") or "") if not placed else "",
        "finalizers": list(metadata.get("finalizers") or ()) if metadata.get("deletionTimestamp") else [],
        "asks": {} if placed else _asks(spec),
    }
    told = {name: value for name, value in found.items() if value}
    # Without a condition that says so, a pod without a node is one that no scheduler has looked at.
    if not placed and "conditions" not in told and status.get("phase") == "Pending":
        told["unseen"] = True
    return told


def of_object(manifest: Json) -> dict[str, Any]:
    """The conditions of a Job, Deployment, ScaledObject or the like, and what else its status says of trouble."""
    status = manifest.get("status") or {}
    conditions = [_condition(item) for item in status.get("conditions") or () if isinstance(item, Mapping)]
    health = {
        name: {"status": str(value.get("status") or ""), "failures": value.get("numberOfFailures") or 0}
        for name, value in (status.get("health") or {}).items()
        if isinstance(value, Mapping) and value.get("status") != "Happy"
    }
    metadata = manifest.get("metadata") or {}
    finalizers = list(metadata.get("finalizers") or ()) if metadata.get("deletionTimestamp") else []
    deleted = str(metadata.get("deletionTimestamp") or "")
    found: dict[str, Any] = {
        "conditions": conditions,
        "health": health,
        "finalizers": finalizers,
        "deleted_at": deleted,
    }
    found["completed_at"] = str(status.get("completionTime") or "")
    return {name: value for name, value in found.items() if value}


def end_of_object(kept: Json) -> datetime | None:
    """When an object of which this was kept says that its work was over: a Job, or what an operator runs as one."""
    times = [
        str(item["lastTransitionTime"])
        for item in kept.get("conditions") or ()
        if item.get("type") in _ENDS and item.get("status") == "True" and item.get("lastTransitionTime")
    ]
    told = [str(kept["completed_at"])] if kept.get("completed_at") else times
    return min(map(datetime.fromisoformat, told), default=None)


def of_node(manifest: Json) -> list[dict[str, str]]:
    """The conditions of a node that are not as they should be."""
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    return [
        _condition(item)
        for item in conditions
        if item.get("status") != ("True" if item.get("type") in _GOOD_OF_A_NODE else "False")
    ]


def _tells(item: Json) -> bool:
    kind, state = item.get("type"), item.get("status")
    if kind == "Ready":
        # False is what every pod is before it is up, and after its end.
        return state == "Unknown" or item.get("reason") == "NodeLost"
    return (kind in _GOOD_WHEN_TRUE and state != "True") or (kind in _BAD_WHEN_TRUE and state == "True")


def _condition(item: Json) -> dict[str, str]:
    return {name: _text(item.get(name)) for name in _OF_A_CONDITION if item.get(name)}


def _containers(status: Json) -> Iterator[dict[str, Any]]:
    for key in ("initContainerStatuses", "containerStatuses"):
        for item in status.get(key) or ():
            told = _container(item)
            if told:
                yield {"name": str(item.get("name") or ""), "init": key.startswith("init"), **told}


def _container(item: Json) -> dict[str, Any]:
    """The states that are not simply running, or well ended."""
    found: dict[str, Any] = {}
    for key, name in (("state", "state"), ("lastState", "last")):
        state = _state(item.get(key) or {}, runs=item.get("name") == GATE_OF_WORKERS)
        if state:
            found[name] = state
    restarts = item.get("restartCount") or 0
    if restarts:
        found["restarts"] = restarts
    if found:
        found["image"] = str(item.get("image") or "")
        found["ready"] = bool(item.get("ready"))
    return found


def _state(state: Json, *, runs: bool) -> dict[str, Any]:
    kind = next((name for name in _STATES if isinstance(state.get(name), Mapping)), "")
    value = state.get(kind) or {}
    if not kind or (kind == "running" and not runs) or (kind == "terminated" and not value.get("exitCode")):
        return {}
    told = {name: value[name] for name in _OF_A_STATE if value.get(name) is not None}
    return {
        "kind": kind,
        **{name: _text(told[name]) if isinstance(told[name], str) else told[name] for name in told},
    }


def _asks(spec: Json) -> dict[str, Any]:
    terms = (
        ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        )
        or {}
    ).get("nodeSelectorTerms") or []
    found = {
        "resources": _requests(spec.get("containers") or ()),
        "selector": dict(spec.get("nodeSelector") or {}),
        "terms": terms,
        "tolerations": list(spec.get("tolerations") or ()),
        "scheduler": str(spec.get("schedulerName") or ""),
        "claims": [
            claim
            for volume in spec.get("volumes") or ()
            if (claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"))
        ],
    }
    return {name: value for name, value in found.items() if value}


def _requests(containers: Sequence[Json]) -> dict[str, str]:
    """What the containers ask for; of several the largest says enough."""
    asked: dict[str, str] = {}
    for container in containers:
        resources = container.get("resources") or {}
        for name, value in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            asked.setdefault(name, str(value))
    return asked


def _text(value: object) -> str:
    # What a program wrote last may hold anything; PostgreSQL stores no NUL.
    text = str(value or "").replace("\x00", "").encode(errors="replace").decode()
    return text if len(text) <= TEXT_LENGTH_MAX else text[: TEXT_LENGTH_MAX - 1] + "…"
