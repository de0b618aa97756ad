"""PodDisruptionBudget status: how many pods may go just now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typing_extensions import override

from devcluster import objects
from devcluster.kinds import BUDGET, DEPLOYMENT, JOB, POD, PYTORCH_JOB, REPLICA_SET
from devcluster.objects import Obj, controller_of, deleting, finished, is_true, namespace_of, uid_of
from devcluster.store import Change

from .loop import Controller


def scaled(value: int | str, total: int, *, up: bool) -> int:
    """`25%` of `total`, or the number itself."""
    if isinstance(value, int):
        return value
    share = int(value.removesuffix("%")) * total
    return -(-share // 100) if up else share // 100


class Budgets(Controller):
    """Key: a namespace."""

    @override
    def keys(self, change: Change) -> Iterable[Any]:
        if change.kind in {BUDGET, POD, DEPLOYMENT, REPLICA_SET} and any(
            self.store.list(BUDGET, namespace_of(change.obj))
        ):
            yield namespace_of(change.obj)

    @override
    def reconcile(self, key: Any) -> float | None:
        for budget in self.store.list(BUDGET, key):
            self._update(budget)
        return None

    def _update(self, budget: Obj) -> None:
        spec, where = budget.get("spec") or {}, namespace_of(budget)
        pods = [pod for pod in self.cluster.pods_of(where, spec.get("selector")) if not finished(pod)]
        healthy = sum(is_true(p, "Ready") and not deleting(p) for p in pods)
        expected = self._expected(pods)
        if "maxUnavailable" in spec:
            desired = max(0, expected - scaled(spec["maxUnavailable"], expected, up=True))
        elif isinstance(spec.get("minAvailable", 1), int):
            expected, desired = len(pods), spec.get("minAvailable", 1)
        else:
            desired = scaled(spec["minAvailable"], expected, up=True)
        allowed = max(0, healthy - desired) if expected else 0
        state = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
        seen = {"observedGeneration": budget["metadata"]["generation"]}
        condition = objects.made_condition("DisruptionAllowed", *state) | seen | {"message": ""}
        self.cluster.set_status(BUDGET, budget, seen | {
            "currentHealthy": healthy, "desiredHealthy": desired, "expectedPods": expected, "disruptionsAllowed": allowed,
            "conditions": objects.with_condition(budget.get("status", {}).get("conditions", []), condition),
        })  # fmt: skip

    def _expected(self, pods: list[Obj]) -> int:
        """The sum of the replicas that the pods' controllers want."""
        wanted: dict[str, int] = {}
        for pod in pods:
            reference = controller_of(pod)
            if reference is None:
                wanted[uid_of(pod)] = 1
                continue
            kind = _OWNERS.get(reference["kind"])
            owner = self.store.get(kind, namespace_of(pod), reference["name"]) if kind else None
            if owner is not None:
                wanted[uid_of(owner)] = _replicas(owner["spec"])
        return sum(wanted.values())


_OWNERS = {kind.name: kind for kind in (REPLICA_SET, JOB, PYTORCH_JOB)}


def _replicas(spec: Obj) -> int:
    """What the owner's scale says; that of a PyTorchJob knows its workers only."""
    if "pytorchReplicaSpecs" in spec:
        return int(spec["pytorchReplicaSpecs"].get("Worker", {}).get("replicas", 0))
    return int(spec["replicas"] if "replicas" in spec else spec["parallelism"])
