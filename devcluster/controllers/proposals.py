"""How many replicas one metric of a HorizontalPodAutoscaler asks for, as Kubernetes' replica calculator works it out.

Amounts are thousandths, as Kubernetes compares them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from devcluster.kubelet.usage import Usage
from devcluster.objects import Obj, deleting, is_true, name_of, phase_of, quantity, show_quantity

Use = Callable[[Obj, str], Usage | None]
"""What a pod uses of the CPU, or with a name one container of it."""
TOLERANCE = 0.1
_MOST = 2**31 - 1
_LARGEST = 2**63 - 1


class MetricError(Exception):
    """A metric without a value; the text is the message of the condition."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """So many replicas, by which metric, and the value as `status.currentMetrics` shows it."""

    replicas: int
    metric: str
    status: Obj


@dataclass(frozen=True, slots=True)
class Target:
    """The workload as its scale shows it, with the pods that its selector finds."""

    wanted: int
    existing: int
    pods: list[Obj]

    def ready(self) -> int:
        if not self.pods:
            text = "no pods returned by selector while calculating replica count"
            raise MetricError(f"unable to calculate ready pods: {text}")
        return sum(phase_of(pod) == "Running" and is_true(pod, "Ready") for pod in self.pods)


def milli(text: str) -> int:
    return math.ceil(quantity(text) * 1000)


def shown(amount: int) -> str:
    return show_quantity(Fraction(amount, 1000))


def _within(ratio: float) -> bool:
    """Whether the change would be too small to make."""
    return 1.0 - TOLERANCE <= ratio <= 1.0 + TOLERANCE


def external(source: Obj, amount: int, target: Target) -> Proposal:
    """The proposal by a value that comes from outside of the cluster."""
    goal, identity = source["target"], source["metric"]
    name = f"external metric {identity['name']}({selector_text(identity.get('selector'))})"
    if "averageValue" in goal:
        wanted, per_replica = target.existing, milli(goal["averageValue"])
        ratio = amount / (per_replica * wanted) if wanted else math.inf
        if not _within(ratio):
            wanted = min(_MOST, math.ceil(amount / per_replica))
        share = math.ceil(amount / target.existing) if target.existing else _LARGEST
        return _external(wanted, name, identity, {"averageValue": shown(share)})
    ratio, wanted = amount / milli(goal["value"]), target.wanted
    if not wanted:
        wanted = math.ceil(ratio)
    elif not _within(ratio):
        wanted = min(_MOST, math.ceil(ratio * target.ready()))
    return _external(wanted, name, identity, {"value": shown(amount)})


def _external(replicas: int, name: str, identity: Obj, current: Obj) -> Proposal:
    return Proposal(
        replicas, name, {"type": "External", "external": {"metric": identity, "current": current}}
    )


def selector_text(selector: Obj | None) -> str:
    """As Go prints a LabelSelector in conditions."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    return f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{}},}}"


def resource(source: Obj, target: Target, use: Use) -> Proposal:
    """The proposal by the CPU use of the pods."""
    goal = source["target"]
    used, unready, missing = _grouped(target.pods, use)
    if not used:
        raise MetricError("did not receive metrics for targeted pods (pods might be unready)")
    current: Obj = {"averageValue": shown(sum(used.values()) // len(used))}
    name, percent = "cpu resource", goal.get("averageUtilization")
    if percent is None:
        per_pod, weights = milli(goal["averageValue"]), None
        filler = {name_of(pod): per_pod for pod in missing}
    else:
        per_pod, weights = percent, {name_of(pod): _request(pod) for pod in target.pods}
        filler = {name_of(pod): weights[name_of(pod)] * max(100, percent) // 100 for pod in missing}
        current["averageUtilization"] = int(_ratio(used, weights, per_pod) * per_pod)
        name = "cpu resource utilization (percentage of request)"

    def ratio(of: dict[str, int]) -> float:
        return _ratio(of, weights, per_pod)

    wanted = _count(used, ratio, target, unready, filler)
    return Proposal(
        wanted, name, {"type": "Resource", "resource": {"name": source["name"], "current": current}}
    )


def _grouped(pods: list[Obj], use: Use) -> tuple[dict[str, int], list[Obj], list[Obj]]:
    """Thousandths of a core by pod, the pods that are not ready, and those of which nothing is known."""
    used: dict[str, int] = {}
    unready: list[Obj] = []
    missing: list[Obj] = []
    for pod in pods:
        if deleting(pod) or phase_of(pod) == "Failed":
            continue
        if phase_of(pod) == "Pending" or not is_true(pod, "Ready"):
            unready.append(pod)
        elif (usage := use(pod, "")) is None:
            missing.append(pod)
        else:
            used[name_of(pod)] = int(usage.cores * 1000)
    return used, unready, missing


def _request(pod: Obj) -> int:
    """What the pod asks for; MetricError where a container asks for nothing."""
    total = 0
    for container in pod["spec"]["containers"]:
        request = (container["resources"].get("requests") or {}).get("cpu")
        if request is None:
            raise MetricError(
                f"missing request for cpu in container {container['name']} of Pod {name_of(pod)}"
            )
        total += milli(request)
    return total


def _ratio(used: dict[str, int], weights: dict[str, int] | None, per_pod: int) -> float:
    if weights is None:
        return sum(used.values()) // len(used) / per_pod
    return sum(used.values()) * 100 // sum(weights[name] for name in used) / per_pod


def _count(
    used: dict[str, int], ratio_of: Callable[[dict[str, int]], float], target: Target, unready: list[Obj],
    filler: dict[str, int]
) -> int:  # fmt: skip
    """Pods that say nothing count against the change that the others ask for."""
    ratio = ratio_of(used)
    waits = bool(unready) and ratio > 1.0
    if not waits and not filler:
        return target.wanted if _within(ratio) else math.ceil(ratio * len(used))
    guessed = dict(used)
    if ratio < 1.0:
        guessed |= filler
    elif ratio > 1.0:
        guessed |= dict.fromkeys(filler, 0)
    if waits:
        guessed |= {name_of(pod): 0 for pod in unready}
    second = ratio_of(guessed)
    if _within(second) or (ratio < 1.0 < second) or (second < 1.0 < ratio):
        return target.wanted
    wanted = math.ceil(second * len(guessed))
    turned = (second < 1.0 and wanted > target.wanted) or (second > 1.0 and wanted < target.wanted)
    return target.wanted if turned else wanted
