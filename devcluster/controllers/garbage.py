"""Owner references, foreground deletion, namespaces, and pods whose node is gone."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from typing_extensions import override

from devcluster.evict import mark_disrupted
from devcluster.kinds import BY_NAME, EVENT, NAMESPACE, NODE, POD, SERVICE_ACCOUNT, Kind
from devcluster.objects import Obj, deleting, finished, name_of, namespace_of, seconds, uid_of
from devcluster.store import Change

from .loop import Controller

EVENT_TTL_SECONDS = 3600.0


class Garbage(Controller):
    """Key: (kind, namespace, name) of an object that may have to go, or ("owner", uid, namespace) of one that went."""

    @override
    def keys(self, change: Change) -> Iterable[Any]:
        obj = change.obj
        if change.type == "DELETED":
            yield ("owner", uid_of(obj), namespace_of(obj))
            for reference in obj["metadata"].get("ownerReferences") or ():
                kind = BY_NAME.get((reference["apiVersion"], reference["kind"]))
                if kind is not None:
                    yield (kind, namespace_of(obj) if kind.namespaced else "", reference["name"])
        elif deleting(obj) or (change.type == "ADDED" and obj["metadata"].get("ownerReferences")):
            yield (change.kind, namespace_of(obj), name_of(obj))

    @override
    def reconcile(self, key: Any) -> float | None:
        if key[0] == "owner":
            self._collect(key[1], key[2])
            return None
        kind, namespace, name = key
        obj = self.store.get(kind, namespace, name)
        if obj is None:
            return None
        if deleting(obj):
            self._finish_foreground(kind, obj)
        elif obj["metadata"].get("ownerReferences"):
            self._collect_if_orphan(kind, obj)
        return None

    def _collect(self, owner_uid: str, namespace: str) -> None:
        ghost = {"metadata": {"uid": owner_uid, "namespace": namespace}}
        for kind, obj in self.cluster.dependants(ghost):
            self._collect_if_orphan(kind, obj)

    def _collect_if_orphan(self, kind: Kind, obj: Obj) -> None:
        """Delete when no owner is left; take a lost owner off when another one stays."""
        references = obj["metadata"]["ownerReferences"]
        lost = [r for r in references if not self._exists(r, namespace_of(obj))]
        if len(lost) == len(references) and not deleting(obj):
            self.cluster.remove(kind, obj, propagationPolicy="Background")
        elif lost and len(lost) < len(references):
            for reference in lost:
                self.cluster.release(kind, obj, reference["uid"])

    def _exists(self, reference: Obj, namespace: str) -> bool:
        kind = BY_NAME.get((reference["apiVersion"], reference["kind"]))
        if kind is None:
            return True  # A kind that is not served here is never known to be gone.
        owner = self.store.get(kind, namespace if kind.namespaced else "", reference["name"])
        return owner is not None and uid_of(owner) == reference["uid"]

    def _finish_foreground(self, kind: Kind, obj: Obj) -> None:
        if "foregroundDeletion" not in obj["metadata"].get("finalizers", ()):
            return
        for child_kind, child in self.cluster.dependants(obj):
            if not deleting(child):
                policy = "Foreground" if child_kind is not POD else "Background"
                self.cluster.remove(child_kind, child, propagationPolicy=policy)
        if not any(
            r.get("blockOwnerDeletion") for _, c in self.cluster.dependants(obj)
            for r in c["metadata"]["ownerReferences"] if r["uid"] == uid_of(obj)
        ):  # fmt: skip
            self.cluster.drop_finalizer(kind, obj, "foregroundDeletion")


class Namespaces(Controller):
    """Key: a namespace. Gives it its ServiceAccount, and empties it before it goes."""

    @override
    def keys(self, change: Change) -> Iterable[Any]:
        if change.kind is NAMESPACE:
            yield name_of(change.obj)
        elif change.type == "DELETED" and change.kind.namespaced:
            yield namespace_of(change.obj)

    @override
    def reconcile(self, key: Any) -> float | None:
        namespace = self.store.get(NAMESPACE, "", key)
        if namespace is None:
            return None
        if not deleting(namespace):
            if self.store.get(SERVICE_ACCOUNT, key, "default") is None:
                self.cluster.create(SERVICE_ACCOUNT, key, {"metadata": {"name": "default"}})
            return None
        left = 0
        for kind, obj in self.store.items():
            if not kind.namespaced or namespace_of(obj) != key:
                continue
            if not deleting(obj):
                self.cluster.remove(kind, obj, propagationPolicy="Background")
            left += self.store.get(kind, key, name_of(obj)) is not None
        if not left:
            self.cluster.drop_finalizer(NAMESPACE, namespace, "kubernetes")
        return None


class PodGarbage(Controller):
    """Key: a node's name, or an unscheduled pod that is being deleted. Also forgets old Events."""

    @override
    def keys(self, change: Change) -> Iterable[Any]:
        if change.kind is NODE and change.type == "DELETED":
            yield name_of(change.obj)
        elif change.kind is POD and change.type == "ADDED" and change.obj["spec"].get("nodeName"):
            yield change.obj["spec"]["nodeName"]
        elif change.kind is EVENT and change.type == "ADDED":
            self.later("events", EVENT_TTL_SECONDS / 6)

    @override
    def reconcile(self, key: Any) -> float | None:
        if key == "events":
            return self._forget_events()
        if self.store.get(NODE, "", key) is not None:
            return None
        for pod in self.cluster.pods_on(key):
            if not finished(pod):
                mark_disrupted(self.cluster, pod, "DeletionByPodGC", "PodGC: node no longer exists")
                live = self.store.newest(POD, pod) or pod
                self.cluster.set_status(POD, live, live["status"] | {"phase": "Failed"})
            self.cluster.remove(POD, pod, gracePeriodSeconds=0)
        return None

    def _forget_events(self) -> float | None:
        horizon = time.time() - EVENT_TTL_SECONDS
        for event in self.store.list(EVENT):
            if seconds(event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]) < horizon:
                self.store.remove(EVENT, event)
        return EVENT_TTL_SECONDS / 6 if any(True for _ in self.store.list(EVENT)) else None
