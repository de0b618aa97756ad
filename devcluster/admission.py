"""What admission adds to a pod, and what it refuses before validation."""

from __future__ import annotations

from .errors import forbidden
from .kinds import POD, PRIORITY_CLASS, SERVICE_ACCOUNT
from .objects import Obj, name_of
from .store import Store

_NODE_TROUBLES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_EVICTION_SECONDS = 300


def admit_pod(store: Store, pod: Obj) -> None:
    """ServiceAccount, Priority and DefaultTolerationSeconds, in place."""
    spec, name = pod["spec"], pod["metadata"].get("name", "")
    account = spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", account)
    where = pod["metadata"]["namespace"]
    if store.get(SERVICE_ACCOUNT, where, account) is None:
        why = f'error looking up service account {where}/{account}: serviceaccount "{account}" not found'
        raise forbidden(POD, name, why)
    priority = _priority_class(store, name, spec.get("priorityClassName"))
    if priority:
        spec["priorityClassName"] = name_of(priority)
    spec["priority"] = priority["value"] if priority else 0
    spec.setdefault("preemptionPolicy", priority["preemptionPolicy"] if priority else "PreemptLowerPriority")
    tolerations = spec.setdefault("tolerations", [])
    for key in _NODE_TROUBLES:
        wait = {"key": key, "operator": "Exists", "effect": "NoExecute"}
        if not any(
            t.get("key") in {key, None} and t.get("effect") in {"NoExecute", None} for t in tolerations
        ):
            tolerations.append(wait | {"tolerationSeconds": _EVICTION_SECONDS})


def _priority_class(store: Store, pod_name: str, wanted: str | None) -> Obj | None:
    if wanted is None:
        return next((p for p in store.list(PRIORITY_CLASS) if p.get("globalDefault")), None)
    priority_class = store.get(PRIORITY_CLASS, "", wanted)
    if priority_class is None:
        raise forbidden(POD, pod_name, f"no PriorityClass with name {wanted} was found")
    return priority_class
