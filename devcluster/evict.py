"""The eviction API: a delete that asks the disruption budgets first."""

from __future__ import annotations

from .cluster import Cluster
from .errors import ApiError
from .kinds import BUDGET, POD
from .objects import Obj, finished, is_true, labels_of, matches, name_of, namespace_of, with_condition

_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


def evict(cluster: Cluster, pod: Obj, body: Obj) -> Obj:
    options = body.get("deleteOptions") or {}
    for budget in cluster.store.list(BUDGET, namespace_of(pod)):
        spec = budget.get("spec") or {}
        if finished(pod) or not matches(spec.get("selector"), labels_of(pod)):
            continue
        always = spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow" and not is_true(pod, "Ready")
        if not always and budget.get("status", {}).get("disruptionsAllowed", 0) < 1:
            needed, healthy = (
                budget.get("status", {}).get(k, 0) for k in ("desiredHealthy", "currentHealthy")
            )
            text = f"The disruption budget {name_of(budget)} needs {needed} healthy pods and has {healthy} currently"
            causes = [{"reason": "DisruptionBudget", "message": text}]
            raise ApiError(429, "TooManyRequests", _REFUSED, {"causes": causes})
    if "All" not in (options.get("dryRun") or ()):
        mark_disrupted(cluster, pod, "EvictionByEvictionAPI", "Eviction API: evicting")
        cluster.remove(POD, pod, **options)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def mark_disrupted(cluster: Cluster, pod: Obj, reason: str, message: str) -> None:
    """Say on the pod why it is about to go, so that a Job may not count it."""
    new = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    status = pod.get("status", {})
    cluster.set_status(POD, pod, status | {"conditions": with_condition(status.get("conditions", []), new)})
