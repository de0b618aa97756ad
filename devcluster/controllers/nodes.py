"""Node health as the heartbeat would show it, and eviction by NoExecute taints."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from typing_extensions import override

from devcluster import objects
from devcluster.evict import mark_disrupted
from devcluster.kinds import NODE, POD
from devcluster.kubelet.base import node_lost
from devcluster.objects import Obj, deleting, is_true, made_condition, name_of, timestamp, with_condition
from devcluster.store import Change

from .loop import Controller
from .scheduler import tolerates

_PRESSURES = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}
_UNREACHABLE = "node.kubernetes.io/unreachable"
_CORDONED = "node.kubernetes.io/unschedulable"


class Nodes(Controller):
    """Key: ("", node). Sets its conditions, and the taints that follow from them."""

    kind, source = NODE, "node-controller"

    @override
    def bring(self, obj: Obj) -> float | None:
        name, lost, was_ready = name_of(obj), node_lost(obj), is_true(obj, "Ready")
        conditions = list(obj["status"].get("conditions", []))
        stamps = {c["type"]: c.get("lastHeartbeatTime") for c in conditions if c.get("status") != "Unknown"}
        for new in _health(lost=lost):
            new["lastHeartbeatTime"] = stamps.get(new["type"]) or timestamp()
            conditions = with_condition(conditions, new)
        addresses = [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}]
        status = {"addresses": addresses} | obj["status"] | {"conditions": conditions}
        self.cluster.set_status(NODE, obj, status)
        self.cluster.modify(NODE, obj, lambda new: _set_taints(new, lost=lost))
        if lost and was_ready:
            self.event(obj, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
            self._unready_pods(name)
        return None

    def _unready_pods(self, node: str) -> None:
        for pod in self.cluster.pods_on(node):
            if is_true(pod, "Ready"):
                conditions = with_condition(pod["status"]["conditions"], made_condition("Ready", "False"))
                self.cluster.set_status(POD, pod, pod["status"] | {"conditions": conditions})
                text = "Node is not ready"
                self.cluster.event(POD, pod, "NodeNotReady", text, source=self.source, warning=True)


def _health(*, lost: bool) -> list[Obj]:
    if lost:
        word = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
        return [made_condition(type_, *word) for type_ in (*_PRESSURES, "Ready")]
    fine = [made_condition(type_, "False", *word) for type_, word in _PRESSURES.items()]
    return [*fine, made_condition("Ready", "True", "KubeletReady", "kubelet is posting ready status")]


def _set_taints(node: Obj, *, lost: bool) -> None:
    spec, own = node["spec"], {_UNREACHABLE, _CORDONED}
    before = spec.get("taints") or []
    taints = [t for t in before if t["key"] not in own]
    if spec.get("unschedulable"):
        taints.append({"key": _CORDONED, "effect": "NoSchedule"})
    if lost:
        taints += [{"key": _UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
    stamps = {(t["key"], t["effect"]): t["timeAdded"] for t in before if "timeAdded" in t}
    for taint in taints:
        if taint["key"] in own or taint["effect"] == "NoExecute":
            taint["timeAdded"] = stamps.get((taint["key"], taint["effect"]), timestamp())
    spec.pop("taints", None)
    if taints:
        spec["taints"] = taints


class TaintEviction(Controller):
    """Key: a node. Deletes the pods that do not, or no longer, tolerate its NoExecute taints."""

    @override
    def keys(self, change: Change) -> Iterable[Any]:
        if change.kind is NODE:
            yield name_of(change.obj)
        elif change.kind is POD and change.obj["spec"].get("nodeName") and change.type != "DELETED":
            old = change.old
            if old is None or old["spec"] != change.obj["spec"]:
                yield change.obj["spec"]["nodeName"]

    @override
    def reconcile(self, key: Any) -> float | None:
        node = self.store.get(NODE, "", key)
        taints = [t for t in (node or {}).get("spec", {}).get("taints") or () if t["effect"] == "NoExecute"]
        if not taints:
            return None
        waits = []
        for pod in self.cluster.pods_on(key):
            left = None if deleting(pod) or objects.finished(pod) else _patience(pod, taints)
            if left is not None and left <= 0:
                self._evict(pod)
            elif left is not None:
                waits.append(left)
        return min(waits, default=None)

    def _evict(self, pod: Obj) -> None:
        text = f"Marking for deletion Pod {objects.namespace_of(pod)}/{name_of(pod)}"
        self.cluster.event(POD, pod, "TaintManagerEviction", text, source="taint-eviction-controller")
        text = "Taint manager: deleting due to NoExecute taint"
        mark_disrupted(self.cluster, pod, "DeletionByTaintManager", text)
        self.cluster.remove(POD, pod)


def _patience(pod: Obj, taints: list[Obj]) -> float | None:
    """Seconds until the pod must go; None when it may stay for ever."""
    waits = []
    for taint in taints:
        toleration = tolerates(pod["spec"], taint)
        if toleration is None:
            return 0.0
        if "tolerationSeconds" in toleration:
            since = objects.seconds(taint["timeAdded"]) if "timeAdded" in taint else time.time()
            waits.append(since + toleration["tolerationSeconds"] - time.time())
    return min(waits, default=None)
