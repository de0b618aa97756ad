"""The scheduler: filters nodes as the real one does, and words its refusals the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

from typing_extensions import override

from devcluster import objects
from devcluster.kinds import CLAIM, NODE, POD
from devcluster.objects import Obj, condition, deleting, finished, labels_of, matches_expression, name_of
from devcluster.store import Change

from .loop import Controller

# Copied from the node to the pod, as 1.36 does.
_TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_UNTOLERATED = "node(s) had untolerated taint(s)"
_NO_MATCH = "node(s) didn't match Pod's node affinity/selector"
_CORDONED = "node(s) were unschedulable"


def tolerates(pod_spec: Obj, taint: Obj) -> Obj | None:
    """The first toleration that fits the taint."""
    for toleration in pod_spec.get("tolerations") or ():
        if toleration.get("effect") not in {None, "", taint["effect"]}:
            continue
        if toleration.get("key") not in {None, "", taint["key"]}:
            continue
        same = toleration.get("value", "") == taint.get("value", "")
        if same or toleration.get("operator", "Equal") == "Exists":
            return dict(toleration)
    return None


class _Room:
    """What one node still has."""

    def __init__(self, node: Obj) -> None:
        self.node = node
        allocatable = node.get("status", {}).get("allocatable") or {}
        self.size = {key: objects.quantity(value) for key, value in allocatable.items()}
        self.free = dict(self.size)

    def take(self, pod: Obj) -> None:
        for key, value in (objects.pod_requests(pod["spec"]) | {"pods": Fraction(1)}).items():
            self.free[key] = self.free.get(key, Fraction(0)) - value

    def refusals(self, spec: Obj, wants: dict[str, Fraction]) -> tuple[list[str], bool]:
        """Why the pod does not fit here, and whether evicting others could help."""
        taints = self.node.get("spec", {}).get("taints") or []
        cordoned = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        if self.node.get("spec", {}).get("unschedulable") and not tolerates(spec, cordoned):
            return [_CORDONED], False
        if any(t["effect"] in {"NoSchedule", "NoExecute"} and not tolerates(spec, t) for t in taints):
            return [_UNTOLERATED], False
        if not _selected(spec, self.node):
            return [_NO_MATCH], False
        short, possible = [], True
        if self.free.get("pods", Fraction(0)) < 1:
            short.append("Too many pods")
        for key, value in wants.items():
            if value > self.free.get(key, Fraction(0)):
                short.append(f"Insufficient {key}")
                possible = possible and value <= self.size.get(key, Fraction(0))
        return short, possible


def _selected(spec: Obj, node: Obj) -> bool:
    labels = labels_of(node)
    if any(labels.get(k) != v for k, v in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    own_name = {"metadata.name": name_of(node)}
    return any(
        all(matches_expression(e, labels) for e in term.get("matchExpressions") or ())
        and all(matches_expression(e, own_name) for e in term.get("matchFields") or ())
        for term in required["nodeSelectorTerms"]
        if term.get("matchExpressions") or term.get("matchFields")
    )


class Scheduler(Controller):
    """One key: a pass over all waiting pods, woken by whatever may have made room."""

    kind, source = POD, "default-scheduler"

    @override
    def keys(self, change: Change) -> Iterable[Any]:
        if change.kind is NODE or change.kind is CLAIM:
            yield "pass"
        elif change.kind is POD:
            old, new = change.old, change.obj
            waiting = change.type != "DELETED" and not new["spec"].get("nodeName")
            freed = change.type == "DELETED" or (finished(new) and not (old and finished(old)))
            if freed or (waiting and (old is None or old["spec"] != new["spec"])):
                yield "pass"

    @override
    def reconcile(self, key: Any) -> float | None:
        waiting = [
            p for p in self.store.list(POD)
            if not p["spec"].get("nodeName") and not deleting(p) and not finished(p)
            and p["spec"].get("schedulerName") == self.source
        ]  # fmt: skip
        if not waiting:
            return None
        rooms = {name_of(node): _Room(node) for node in self.store.list(NODE)}
        for pod in self.store.list(POD):
            if pod["spec"].get("nodeName") in rooms and not finished(pod):
                rooms[pod["spec"]["nodeName"]].take(pod)
        for pod in sorted(waiting, key=_turn):
            self._place(pod, rooms)
        return None

    def _place(self, pod: Obj, rooms: dict[str, _Room]) -> None:
        gates = pod["spec"].get("schedulingGates")
        if gates:
            names = ", ".join(g["name"] for g in gates)
            text = f"Scheduling is blocked due to non-empty scheduling gates: [{names}]"
            self._say(pod, "SchedulingGated", text)
            return
        problem = self._claims(pod)
        if problem is not None or not rooms:
            self._refuse(pod, _unplaceable(len(rooms), problem))
            return
        wants = {k: v for k, v in objects.pod_requests(pod["spec"]).items() if v}
        reasons: Counter[str] = Counter()
        helpless, fitting = 0, []
        for name, room in rooms.items():
            refused, possible = room.refusals(pod["spec"], wants)
            reasons.update(refused)
            helpless += bool(refused) and not possible
            if not refused:
                fitting.append((_fullness(room), name))
        if not fitting:
            self._refuse(pod, _refusal(pod, len(rooms), reasons, helpless))
            return
        chosen = min(fitting)[1]
        rooms[chosen].take(pod)
        self._bind(pod, chosen)

    def _claims(self, pod: Obj) -> str | None:
        for volume in pod["spec"].get("volumes") or ():
            name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if name is None:
                continue
            claim = self.store.get(CLAIM, objects.namespace_of(pod), name)
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found. not found'
            if deleting(claim):
                return f'persistentvolumeclaim "{name}" is being deleted.'
        return None

    def _bind(self, pod: Obj, node: str) -> None:
        home = self.cluster.get(NODE, "", node)

        def change(new: Obj) -> None:
            new["spec"]["nodeName"] = node
            place = {k: v for k, v in labels_of(home).items() if k in _TOPOLOGY}
            new["metadata"]["labels"] = place | labels_of(new)
            new["status"]["conditions"] = _with_scheduled(new, "True")

        bound = self.cluster.modify(POD, pod, change)
        if bound is not None:
            text = f"Successfully assigned {objects.namespace_of(pod)}/{name_of(pod)} to {node}"
            self.event(bound, "Scheduled", text)

    def _refuse(self, pod: Obj, text: str) -> None:
        if self._say(pod, "Unschedulable", text):
            self.event(pod, "FailedScheduling", text, warning=True)

    def _say(self, pod: Obj, reason: str, text: str) -> bool:
        """Write the condition; False when it says so already."""
        known = condition(pod, "PodScheduled")
        if known is not None and known.get("message") == text:
            return False
        status = pod["status"] | {"conditions": _with_scheduled(pod, "False", reason, text)}
        self.cluster.set_status(POD, pod, status)
        return True


def _turn(pod: Obj) -> tuple[int, str, int]:
    metadata = pod["metadata"]
    return -pod["spec"].get("priority", 0), metadata["creationTimestamp"], int(metadata["resourceVersion"])


def _with_scheduled(pod: Obj, *word: str) -> list[Obj]:
    new = objects.made_condition("PodScheduled", *word) | {
        "observedGeneration": pod["metadata"].get("generation", 1)
    }
    return objects.with_condition(pod["status"].get("conditions", []), new)


def _fullness(room: _Room) -> Fraction:
    """Most room first; nodes with devices last, so that they stay free for those who ask for them."""
    share: Iterator[Fraction] = (
        1 - room.free.get(key, Fraction(0)) / room.size[key]
        for key in ("cpu", "memory", "pods")
        if room.size.get(key)
    )
    return max(share, default=Fraction(0)) + sum("/" in key for key in room.size)


def _unplaceable(nodes: int, problem: str | None) -> str:
    if problem is None:
        return "no nodes available to schedule pods"
    return f"0/{nodes} nodes are available: {problem}"


def _refusal(pod: Obj, nodes: int, reasons: Counter[str], helpless: int) -> str:
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    text = f"0/{nodes} nodes are available: {listed}."
    if pod["spec"].get("preemptionPolicy") == "Never":
        return f"{text} no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."
    parts = []
    if nodes - helpless:
        parts.append(f"{nodes - helpless} No preemption victims found for incoming pod")
    if helpless:
        parts.append(f"{helpless} Preemption is not helpful for scheduling")
    return f"{text} no new claims to deallocate, preemption: 0/{nodes} nodes are available: {', '.join(sorted(parts))}."
