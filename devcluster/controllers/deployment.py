"""ReplicaSet and Deployment controllers."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable
from typing import Any

from typing_extensions import override

from devcluster.errors import ApiError
from devcluster.kinds import DEPLOYMENT, POD, REPLICA_SET
from devcluster.objects import (
    RANDOM_ALPHABET,
    Obj,
    condition,
    controller_of,
    deleting,
    finished,
    is_true,
    name_of,
    namespace_of,
    owner_reference,  # fmt: skip
    random_suffix,
    seconds,
    timestamp,
    uid_of,
    with_condition,
)
from devcluster.store import Change

from .adoption import claimed, concerned
from .disruption import scaled
from .loop import Controller

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"


def _owned_by(obj: Obj, uid: str) -> bool:
    owner = controller_of(obj)
    return owner is not None and owner["uid"] == uid


class ReplicaSets(Controller):
    """Key: (namespace, replica set)."""

    @override
    def keys(self, change: Change) -> Iterable[Any]:
        if change.kind is REPLICA_SET:
            yield namespace_of(change.obj), name_of(change.obj)
        elif change.kind is POD:
            yield from concerned(self.store, REPLICA_SET, change)

    @override
    def reconcile(self, key: Any) -> float | None:
        found = self.store.get(REPLICA_SET, *key)
        if found is None:
            return None
        pods = claimed(self.cluster, POD, REPLICA_SET, found)
        active = [p for p in pods if not finished(p) and not deleting(p)]
        error = "" if deleting(found) else self._scale(found, active)
        return self._status(found, error)

    def _scale(self, owner: Obj, active: list[Obj]) -> str:
        missing = owner["spec"]["replicas"] - len(active)
        for _ in range(missing):
            try:
                active.append(self._create(owner))
            except ApiError as error:
                text = f"Error creating: {error.message}"
                self.cluster.event(
                    REPLICA_SET, owner, "FailedCreate", text, source="replicaset-controller", warning=True
                )
                return error.message
        if missing < 0:
            # The least useful first: not running, then not ready, then the youngest.
            active.sort(key=lambda p: p["metadata"]["creationTimestamp"], reverse=True)
            active.sort(key=lambda p: (bool(p["spec"].get("nodeName")), is_true(p, "Ready")))
            for pod in active[:-missing]:
                self.cluster.delete(POD, namespace_of(pod), name_of(pod))
                text = f"Deleted pod: {name_of(pod)}"
                self.cluster.event(
                    REPLICA_SET, owner, "SuccessfulDelete", text, source="replicaset-controller"
                )
        return ""

    def _create(self, owner: Obj) -> Obj:
        template, name = owner["spec"]["template"], name_of(owner)
        metadata = {
            k: v for k, v in (template.get("metadata") or {}).items() if k in {"labels", "annotations"}
        }
        pod = self.cluster.create(POD, namespace_of(owner), {
            "metadata": metadata | {
                "generateName": f"{name}-", "name": f"{name[:57]}-{random_suffix()}",
                "ownerReferences": [owner_reference(REPLICA_SET, owner)],
            },
            "spec": template["spec"],
        })  # fmt: skip
        text = f"Created pod: {name_of(pod)}"
        self.cluster.event(REPLICA_SET, owner, "SuccessfulCreate", text, source="replicaset-controller")
        return pod

    def _status(self, owner: Obj, error: str) -> float | None:
        where = namespace_of(owner)
        pods = [
            p
            for p in self.store.list(POD, where)
            if _owned_by(p, uid_of(owner)) and not finished(p) and not deleting(p)
        ]
        ready = [p for p in pods if is_true(p, "Ready")]
        patience = owner["spec"].get("minReadySeconds", 0)
        waits = [
            seconds((condition(p, "Ready") or {})["lastTransitionTime"]) + patience - time.time()
            for p in ready
        ]
        available = sum(not patience or w <= 0 for w in waits)
        status: Obj = {"replicas": len(pods), "fullyLabeledReplicas": len(pods), "readyReplicas": len(ready),
                       "availableReplicas": available, "observedGeneration": owner["metadata"]["generation"]}  # fmt: skip
        status = {k: v for k, v in status.items() if v or k == "replicas"}
        if error:
            failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": error}
            status["conditions"] = with_condition(owner["status"].get("conditions", []), failure)
        self.cluster.set_status(REPLICA_SET, owner, status)
        later = [w for w in waits if patience and w > 0]
        return 1.0 if error else min(later, default=None)


class Deployments(Controller):
    """Key: (namespace, deployment)."""

    @override
    def keys(self, change: Change) -> Iterable[Any]:
        if change.kind is DEPLOYMENT:
            yield namespace_of(change.obj), name_of(change.obj)
        elif change.kind is REPLICA_SET:
            yield from concerned(self.store, DEPLOYMENT, change)
        elif change.kind is POD and change.type == "DELETED":
            # Recreate waits for the last old pod.
            for found in self.store.list(DEPLOYMENT, namespace_of(change.obj)):
                yield namespace_of(found), name_of(found)

    @override
    def reconcile(self, key: Any) -> float | None:
        found = self.store.get(DEPLOYMENT, *key)
        if found is None or deleting(found):
            return None
        sets = [s for s in claimed(self.cluster, REPLICA_SET, DEPLOYMENT, found) if not deleting(s)]
        digest = template_hash(found["spec"]["template"])
        same = [s for s in sets if template_hash(s["spec"]["template"]) == digest]
        newest = min(same, key=lambda s: s["metadata"]["creationTimestamp"], default=None)
        old = [s for s in sets if s is not newest]
        if not found["spec"].get("paused"):
            recreate = found["spec"]["strategy"]["type"] == "Recreate"
            newest = self._recreate(found, newest, old) if recreate else self._roll(found, newest, old)
            self._forget(found, old)
        return self._status(found, newest, old)

    # Rolling

    def _recreate(self, owner: Obj, newest: Obj | None, old: list[Obj]) -> Obj | None:
        for one in old:
            self._resize(owner, one, 0)
        uids = {uid_of(s) for s in old}
        if any(
            (controller_of(p) or {}).get("uid") in uids and not finished(p)
            for p in self.store.list(POD, namespace_of(owner))
        ):
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
            # Somebody else's: another name is tried when the status has changed.
            self.cluster.set_status(DEPLOYMENT, owner, owner["status"] | {"collisionCount": collisions + 1})
        return self.cluster.create(REPLICA_SET, namespace_of(owner), {
            "metadata": {
                "name": f"{name_of(owner)}-{digest}", "labels": labels,
                "annotations": {REVISION: str(revision), **_sizes(owner)},
                "ownerReferences": [owner_reference(DEPLOYMENT, owner)],
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
        text = f"Scaled {way} replica set {name_of(one)} from {before} to {size}"
        self.cluster.event(DEPLOYMENT, owner, "ScalingReplicaSet", text, source="deployment-controller")

        def change(new: Obj) -> None:
            new["spec"].update(replicas=size)
            _note(new, _sizes(owner))

        return self.cluster.modify(REPLICA_SET, one, change) or one

    def _forget(self, owner: Obj, old: list[Obj]) -> None:
        idle = [s for s in old if not s["spec"]["replicas"] and not s["status"].get("replicas")]
        idle.sort(key=_revision)
        for one in idle[: max(0, len(idle) - owner["spec"]["revisionHistoryLimit"])]:
            self.cluster.delete(REPLICA_SET, namespace_of(one), name_of(one))

    # Status

    def _status(self, owner: Obj, newest: Obj | None, old: list[Obj]) -> float | None:
        every = [*([newest] if newest else []), *old]
        wanted, status = owner["spec"]["replicas"], dict(owner["status"])
        total = sum(s["status"].get("replicas", 0) for s in every)
        available = sum(s["status"].get("availableReplicas", 0) for s in every)
        counts = {
            "replicas": total, "readyReplicas": sum(s["status"].get("readyReplicas", 0) for s in every),
            "updatedReplicas": newest["status"].get("replicas", 0) if newest else 0, "availableReplicas": available,
            "unavailableReplicas": max(0, sum(s["spec"]["replicas"] for s in every) - available),
        }  # fmt: skip
        for name, value in counts.items():
            status.pop(name, None)
            if value:
                status[name] = value
        status["observedGeneration"] = owner["metadata"]["generation"]
        least = wanted - self._may_miss(owner)
        conditions = with_condition(status.get("conditions", []), _available(available >= least))
        failure = next(
            (c for s in every for c in s["status"].get("conditions", ()) if c["type"] == "ReplicaFailure"),
            None,
        )
        conditions = [c for c in conditions if c["type"] != "ReplicaFailure"]
        if failure is not None:
            conditions.append(failure)
        progress, wait = self._progress(owner, newest, counts, conditions)
        status["conditions"] = conditions if progress is None else _with_progress(conditions, progress)
        self._annotate(owner, newest)
        self.cluster.set_status(DEPLOYMENT, owner, status)
        return wait

    @staticmethod
    def _may_miss(owner: Obj) -> int:
        rolling = owner["spec"]["strategy"].get("rollingUpdate")
        return scaled(rolling["maxUnavailable"], owner["spec"]["replicas"], up=False) if rolling else 0

    def _annotate(self, owner: Obj, newest: Obj | None) -> None:
        if newest is not None:
            revision = {REVISION: str(_revision(newest))}
            self.cluster.modify(DEPLOYMENT, owner, lambda new: _note(new, revision))

    def _progress(
        self, owner: Obj, newest: Obj | None, counts: Obj, known: list[Obj]
    ) -> tuple[Obj | None, float | None]:
        """The Progressing condition, and when its deadline is to be looked at."""
        last = next((c for c in known if c["type"] == "Progressing"), None)
        if owner["spec"].get("paused"):
            return _progressing("Unknown", "DeploymentPaused", "Deployment is paused"), None
        wanted, name = owner["spec"]["replicas"], name_of(newest) if newest else name_of(owner)
        if counts["updatedReplicas"] == counts["replicas"] == counts["availableReplicas"] == wanted:
            text = f'ReplicaSet "{name}" has successfully progressed.'
            return _progressing("True", "NewReplicaSetAvailable", text), None
        moved = any(
            counts[k] != owner["status"].get(k, 0)
            for k in ("replicas", "updatedReplicas", "availableReplicas")
        )
        if (
            last is None
            or moved
            or owner["status"].get("observedGeneration") != owner["metadata"]["generation"]
        ):
            created = not counts["updatedReplicas"]
            reason, verb = (
                ("NewReplicaSetCreated", "Created new replica set")
                if created
                else ("ReplicaSetUpdated", "is progressing.")
            )
            text = f'{verb} "{name}"' if created else f'ReplicaSet "{name}" {verb}'
            return _progressing("True", reason, text), float(owner["spec"]["progressDeadlineSeconds"])
        left = seconds(last["lastUpdateTime"]) + owner["spec"]["progressDeadlineSeconds"] - time.time()
        if left <= 0 and last["reason"] not in {"NewReplicaSetAvailable", "ProgressDeadlineExceeded"}:
            text = f'ReplicaSet "{name}" has timed out progressing.'
            return _progressing("False", "ProgressDeadlineExceeded", text), None
        return None, left if left > 0 else None


def _available(enough: bool) -> Obj:  # noqa: FBT001
    if enough:
        text = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        text = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    return {"type": "Available", "status": text[0], "reason": text[1], "message": text[2]}


def _progressing(status: str, reason: str, message: str) -> Obj:
    return {"type": "Progressing", "status": status, "reason": reason, "message": message}


def _with_progress(conditions: list[Obj], new: Obj) -> list[Obj]:
    """`lastUpdateTime` is the deadline's start, so it moves only when something is said anew."""
    last = next((c for c in conditions if c["type"] == "Progressing"), None)
    same = last is not None and last["reason"] == new["reason"] == "NewReplicaSetAvailable"
    return with_condition(
        conditions, new | {"lastUpdateTime": last["lastUpdateTime"] if same and last else timestamp()}
    )


def _revision(one: Obj) -> int:
    """0 of a set that no deployment has made."""
    return int((one["metadata"].get("annotations") or {}).get(REVISION, 0))


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
    plain = template | {"metadata": metadata}
    text = json.dumps(plain, sort_keys=True) + (str(collisions) if collisions else "")
    digest = hashlib.sha256(text.encode()).digest()
    return "".join(RANDOM_ALPHABET[b % len(RANDOM_ALPHABET)] for b in digest[:10])
