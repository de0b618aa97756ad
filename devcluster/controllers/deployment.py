"""ReplicaSet and Deployment controllers."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable
from typing import Any

from typing_extensions import override

from devcluster import objects
from devcluster.errors import ApiError
from devcluster.kinds import DEPLOYMENT, POD, REPLICA_SET
from devcluster.objects import Obj, deleting, finished, is_true, made_condition, name_of, namespace_of, uid_of
from devcluster.store import Change

from .adoption import claimed, concerned, pod_of
from .disruption import scaled
from .loop import Controller

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"
_COUNTS = ("replicas", "updatedReplicas", "availableReplicas")


class ReplicaSets(Controller):
    """Key: (namespace, replica set)."""

    kind, source = REPLICA_SET, "replicaset-controller"

    @override
    def keys(self, change: Change) -> Iterable[Any]:
        yield from concerned(self.store, REPLICA_SET, change) if change.kind is POD else super().keys(change)

    @override
    def bring(self, obj: Obj) -> float | None:
        pods = claimed(self.cluster, POD, REPLICA_SET, obj)
        error = ""
        if not deleting(obj):
            try:
                self._scale(obj, [p for p in pods if not finished(p) and not deleting(p)])
            except ApiError as refusal:
                error = refusal.message
        return self._status(obj, error)

    def _scale(self, owner: Obj, active: list[Obj]) -> None:
        missing = owner["spec"]["replicas"] - len(active)
        for _ in range(missing):
            self.make(POD, owner, pod_of(REPLICA_SET, owner))
        if missing < 0:
            # The least useful first: not running, then not ready, then the youngest.
            active.sort(key=lambda p: p["metadata"]["creationTimestamp"], reverse=True)
            active.sort(key=lambda p: (bool(p["spec"].get("nodeName")), is_true(p, "Ready")))
            for pod in active[:-missing]:
                self.drop(POD, owner, pod)

    def _status(self, owner: Obj, error: str) -> float | None:
        owned = (pod for kind, pod in self.cluster.dependants(owner) if kind is POD)
        pods = [pod for pod in owned if not finished(pod) and not deleting(pod)]
        ready = [objects.condition(p, "Ready") or {} for p in pods if is_true(p, "Ready")]
        patience = owner["spec"].get("minReadySeconds", 0)
        waits = [objects.seconds(c["lastTransitionTime"]) + patience - time.time() for c in ready]
        counts = {
            "fullyLabeledReplicas": len(pods), "readyReplicas": len(ready),
            "availableReplicas": sum(not patience or wait <= 0 for wait in waits),
        }  # fmt: skip
        status: Obj = {"replicas": len(pods), "observedGeneration": owner["metadata"]["generation"]}
        status |= {name: count for name, count in counts.items() if count}
        if error:
            failure = made_condition("ReplicaFailure", "True", "FailedCreate", error)
            status["conditions"] = objects.with_condition(owner["status"].get("conditions", []), failure)
        self.cluster.set_status(REPLICA_SET, owner, status)
        return 1.0 if error else min((wait for wait in waits if patience and wait > 0), default=None)


class Deployments(Controller):
    """Key: (namespace, deployment)."""

    kind, source = DEPLOYMENT, "deployment-controller"

    @override
    def keys(self, change: Change) -> Iterable[Any]:
        yield from super().keys(change)
        if change.kind is REPLICA_SET:
            yield from concerned(self.store, DEPLOYMENT, change)
        elif change.kind is POD and change.type == "DELETED":
            # Recreate waits for the last old pod.
            yield from map(objects.key_of, self.store.list(DEPLOYMENT, namespace_of(change.obj)))

    @override
    def bring(self, obj: Obj) -> float | None:
        if deleting(obj):
            return None
        sets = [s for s in claimed(self.cluster, REPLICA_SET, DEPLOYMENT, obj) if not deleting(s)]
        digest = template_hash(obj["spec"]["template"])
        same = [s for s in sets if template_hash(s["spec"]["template"]) == digest]
        newest = min(same, key=lambda s: s["metadata"]["creationTimestamp"], default=None)
        old = [s for s in sets if s is not newest]
        if not obj["spec"].get("paused"):
            recreate = obj["spec"]["strategy"]["type"] == "Recreate"
            newest = (self._recreate if recreate else self._roll)(obj, newest, old)
            self._forget(obj, old)
        return self._status(obj, newest, old)

    # Rolling

    def _recreate(self, owner: Obj, newest: Obj | None, old: list[Obj]) -> Obj | None:
        for one in old:
            self._resize(owner, one, 0)
        pods = (pod for one in old for kind, pod in self.cluster.dependants(one) if kind is POD)
        if any(not finished(pod) for pod in pods):
            return newest
        newest = self._current(owner, newest, old)
        return self._resize(owner, newest, owner["spec"]["replicas"])

    def _roll(self, owner: Obj, newest: Obj | None, old: list[Obj]) -> Obj:
        wanted, rolling = owner["spec"]["replicas"], owner["spec"]["strategy"]["rollingUpdate"]
        surge = scaled(rolling["maxSurge"], wanted, up=True)
        unavailable = scaled(rolling["maxUnavailable"], wanted, up=False)
        if not surge and not unavailable:
            unavailable = 1
        newest = self._current(owner, newest, old)
        have = newest["spec"]["replicas"]
        total = have + sum(s["spec"]["replicas"] for s in old)
        if have > wanted:
            newest = self._resize(owner, newest, wanted)
        elif have < wanted:
            newest = self._resize(owner, newest, have + max(0, min(wanted - have, wanted + surge - total)))
        self._shrink(owner, newest, old, wanted - unavailable)
        return newest

    def _shrink(self, owner: Obj, newest: Obj, old: list[Obj], least: int) -> None:
        """Take old pods away, the unhealthy first, while `least` stay available."""
        total = newest["spec"]["replicas"] + sum(s["spec"]["replicas"] for s in old)
        new_missing = newest["spec"]["replicas"] - newest["status"].get("availableReplicas", 0)
        spare = total - least - new_missing
        sizes = {uid_of(s): s["spec"]["replicas"] for s in old}
        available = newest["status"].get("availableReplicas", 0) + sum(
            s["status"].get("availableReplicas", 0) for s in old
        )
        for one in sorted(old, key=lambda s: s["metadata"]["creationTimestamp"]):
            size = sizes[uid_of(one)]
            unhealthy = max(0, size - one["status"].get("availableReplicas", 0))
            healthy_cut = max(0, min(size - unhealthy, available - least))
            cut = max(0, min(spare, unhealthy + healthy_cut))
            if cut:
                spare -= cut
                available -= max(0, cut - unhealthy)
                self._resize(owner, one, size - cut)

    def _current(self, owner: Obj, newest: Obj | None, old: list[Obj]) -> Obj:
        """The replica set of the template; going back to an old one makes it the newest revision."""
        revision = 1 + max(map(_revision, old), default=0)
        if newest is None:
            return self._add(owner, revision)
        if _revision(newest) >= revision:
            return newest
        change = {REVISION: str(revision)}
        return self.cluster.modify(REPLICA_SET, newest, lambda new: _note(new, change)) or newest

    def _add(self, owner: Obj, revision: int) -> Obj:
        template, collisions = owner["spec"]["template"], owner["status"].get("collisionCount", 0)
        digest = template_hash(template, collisions)
        labels = ((template.get("metadata") or {}).get("labels") or {}) | {HASH: digest}
        selector = owner["spec"]["selector"]
        if self.store.get(REPLICA_SET, namespace_of(owner), f"{name_of(owner)}-{digest}") is not None:
            # It has another owner: a different name is tried when the status has changed.
            self.cluster.set_status(DEPLOYMENT, owner, owner["status"] | {"collisionCount": collisions + 1})
        return self.cluster.create(REPLICA_SET, namespace_of(owner), {
            "metadata": {
                "name": f"{name_of(owner)}-{digest}", "labels": labels,
                "annotations": {REVISION: str(revision), **_sizes(owner)},
                "ownerReferences": [objects.owner_reference(DEPLOYMENT, owner)],
            },
            "spec": {
                "replicas": 0, "minReadySeconds": owner["spec"].get("minReadySeconds", 0),
                "selector": selector | {"matchLabels": (selector.get("matchLabels") or {}) | {HASH: digest}},
                "template": template | {"metadata": (template.get("metadata") or {}) | {"labels": labels}},
            },
        })  # fmt: skip

    def _resize(self, owner: Obj, one: Obj, size: int) -> Obj:
        before = one["spec"]["replicas"]
        if before == size:
            return one
        way = "up" if size > before else "down"
        self.event(
            owner, "ScalingReplicaSet", f"Scaled {way} replica set {name_of(one)} from {before} to {size}"
        )

        def change(new: Obj) -> None:
            new["spec"].update(replicas=size)
            _note(new, _sizes(owner))

        return self.cluster.modify(REPLICA_SET, one, change) or one

    def _forget(self, owner: Obj, old: list[Obj]) -> None:
        idle = [s for s in old if not s["spec"]["replicas"] and not s["status"].get("replicas")]
        idle.sort(key=_revision)
        for one in idle[: max(0, len(idle) - owner["spec"]["revisionHistoryLimit"])]:
            self.cluster.remove(REPLICA_SET, one)

    # Status

    def _status(self, owner: Obj, newest: Obj | None, old: list[Obj]) -> float | None:
        every = [*([newest] if newest else []), *old]

        def total(name: str) -> int:
            return sum(one["status"].get(name, 0) for one in every)

        wanted, available = owner["spec"]["replicas"], total("availableReplicas")
        counts = {
            "replicas": total("replicas"), "readyReplicas": total("readyReplicas"), "availableReplicas": available,
            "updatedReplicas": newest["status"].get("replicas", 0) if newest else 0,
            "unavailableReplicas": max(0, sum(one["spec"]["replicas"] for one in every) - available),
        }  # fmt: skip
        status = {name: value for name, value in owner["status"].items() if name not in counts}
        status |= {name: value for name, value in counts.items() if value}
        status["observedGeneration"] = owner["metadata"]["generation"]
        rolling = owner["spec"]["strategy"].get("rollingUpdate")
        may_miss = scaled(rolling["maxUnavailable"], wanted, up=False) if rolling else 0
        conditions = objects.with_condition(
            status.get("conditions", []), _available(available >= wanted - may_miss)
        )
        failures = (objects.condition(one, "ReplicaFailure") for one in every)
        failure = next(filter(None, failures), None)
        conditions = [c for c in conditions if c["type"] != "ReplicaFailure"] + ([failure] if failure else [])
        progress, wait = self._progress(owner, newest, counts)
        status["conditions"] = conditions if progress is None else _with_progress(conditions, progress)
        if newest is not None:
            revision = {REVISION: str(_revision(newest))}
            self.cluster.modify(DEPLOYMENT, owner, lambda new: _note(new, revision))
        self.cluster.set_status(DEPLOYMENT, owner, status)
        return wait

    @staticmethod
    def _progress(owner: Obj, newest: Obj | None, counts: Obj) -> tuple[Obj | None, float | None]:
        """The Progressing condition, and when its deadline is to be looked at."""
        last, patience = objects.condition(owner, "Progressing"), owner["spec"]["progressDeadlineSeconds"]
        if owner["spec"].get("paused"):
            return _progressing("Unknown", "DeploymentPaused", "Deployment is paused"), None
        name = name_of(newest) if newest else name_of(owner)
        if all(counts[count] == owner["spec"]["replicas"] for count in _COUNTS):
            text = f'ReplicaSet "{name}" has successfully progressed.'
            return _progressing("True", "NewReplicaSetAvailable", text), None
        moved = any(counts[count] != owner["status"].get(count, 0) for count in _COUNTS)
        changed = owner["status"].get("observedGeneration") != owner["metadata"]["generation"]
        if last is None or moved or changed:
            if counts["updatedReplicas"]:
                return _progressing(
                    "True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.'
                ), patience
            return _progressing("True", "NewReplicaSetCreated", f'Created new replica set "{name}"'), patience
        left = objects.seconds(last["lastUpdateTime"]) + patience - time.time()
        if left <= 0 and last["reason"] not in {"NewReplicaSetAvailable", "ProgressDeadlineExceeded"}:
            text = f'ReplicaSet "{name}" has timed out progressing.'
            return _progressing("False", "ProgressDeadlineExceeded", text), None
        return None, left if left > 0 else None


def _available(enough: bool) -> Obj:  # noqa: FBT001
    if enough:
        return made_condition(
            "Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability."
        )
    text = "Deployment does not have minimum availability."
    return made_condition("Available", "False", "MinimumReplicasUnavailable", text)


def _progressing(status: str, reason: str, message: str) -> Obj:
    return made_condition("Progressing", status, reason, message)


def _with_progress(conditions: list[Obj], new: Obj) -> list[Obj]:
    """`lastUpdateTime` is the deadline's start, so it moves only when the condition says something new."""
    last = next((c for c in conditions if c["type"] == "Progressing"), None)
    same = last is not None and last["reason"] == new["reason"] == "NewReplicaSetAvailable"
    since = last["lastUpdateTime"] if same and last else objects.timestamp()
    return objects.with_condition(conditions, new | {"lastUpdateTime": since})


def _revision(one: Obj) -> int:
    """0 of a set that no deployment has made."""
    return int(objects.annotations_of(one).get(REVISION, 0))


def _note(obj: Obj, annotations: dict[str, str]) -> None:
    obj["metadata"].setdefault("annotations", {}).update(annotations)


def _sizes(owner: Obj) -> dict[str, str]:
    """What each set remembers of the size of the whole."""
    wanted, rolling = owner["spec"]["replicas"], owner["spec"]["strategy"].get("rollingUpdate")
    surge = scaled(rolling["maxSurge"], wanted, up=True) if rolling else 0
    return {DESIRED: str(wanted), MOST: str(wanted + surge)}


def template_hash(template: Obj, collisions: int = 0) -> str:
    """Stable for equal templates; the real server uses another hash of the same look."""
    labels = {k: v for k, v in ((template.get("metadata") or {}).get("labels") or {}).items() if k != HASH}
    metadata = {k: v for k, v in (template.get("metadata") or {}).items() if v} | {"labels": labels}
    text = json.dumps([template | {"metadata": metadata}, collisions], sort_keys=True)
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(objects.RANDOM_ALPHABET[b % len(objects.RANDOM_ALPHABET)] for b in digest[:10])
