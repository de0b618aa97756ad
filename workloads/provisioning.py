"""Nodes that do not exist yet: what a flavor declares, and what Karpenter's NodePools may still bring. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any

from workloads.placement import PRODUCT_LABEL, FlavorFacts, NodeFacts, Sharing, tolerated

POOL_LABEL = "karpenter.sh/nodepool"
GPU_COUNT = "karpenter.k8s.aws/instance-gpu-count"
UNLIMITED = 1_000_000
"""Units that a NodePool without a limit of the resource counts for."""
# Karpenter fills these in for every node; any other label a NodePool has to name.
WELL_KNOWN = (
    "karpenter.sh/",
    "karpenter.k8s.",
    "kubernetes.io/",
    "node.kubernetes.io/",
    "topology.kubernetes.io/",
)
_COMPARED: Mapping[str, Callable[[int, int], bool]] = {"Gt": gt, "Gte": ge, "Lt": lt, "Lte": le}


@dataclass(frozen=True)
class NodePoolFacts:
    """A Karpenter NodePool; `limits` names a resource only where it limits it."""

    name: str
    labels: Mapping[str, str]
    requirements: Sequence[Mapping[str, Any]]
    taints: Sequence[Mapping[str, Any]]
    limits: Mapping[str, int]
    in_use: Mapping[str, int]


def remaining(
    flavor: FlavorFacts,
    capacity_type: str,
    matching: Sequence[NodeFacts],
    pools: Sequence[NodePoolFacts],
) -> tuple[int, int]:
    """Units that one new node brings, and units that may still come; (0, 0) where none come from zero.

    `matching` are the nodes that offer the flavor. Where both the flavor declares and NodePools fit, the declared
    block and the smaller of the two limits hold.
    """
    resource = flavor.resource
    exists = sum(node.allocatable[resource] for node in matching)
    declared = flavor.declared_units(capacity_type)
    block = flavor.declared_block(capacity_type)
    fitting = [pool for pool in pools if brings(pool, flavor, capacity_type)]
    limits = [max(0, declared - exists)] if block else []
    if fitting:
        limits.append(sum(_left(pool, resource) for pool in fitting))
        block = block or max(
            *(node.allocatable[resource] for node in matching), *(_count(pool, flavor) for pool in fitting), 0
        )
    units = min(limits, default=0)
    return (block, units) if block else (0, 0)


def brings(pool: NodePoolFacts, flavor: FlavorFacts, capacity_type: str) -> bool:
    """Whether Karpenter may make a node of this pool for a pod of the flavor."""
    if not _names(pool, flavor.resource) or not all(
        tolerated(taint, flavor.tolerates(capacity_type)) for taint in pool.taints
    ):
        return False
    return all(_may_have(pool, key, values) for key, values in flavor.selector(capacity_type).items())


def _names(pool: NodePoolFacts, resource: str) -> bool:
    """Whether the pool is known to bring the resource at all: a pool of CPU nodes names no GPU anywhere."""
    required = (
        requirement["key"]
        for requirement in pool.requirements
        if requirement.get("operator") != "DoesNotExist"
    )
    return (
        resource in pool.limits
        or pool.in_use.get(resource, 0) > 0
        or PRODUCT_LABEL in pool.labels
        or any(key == PRODUCT_LABEL or key.startswith("karpenter.k8s.aws/instance-gpu-") for key in required)
    )


def _may_have(pool: NodePoolFacts, key: str, values: Sequence[str]) -> bool:
    labels = {POOL_LABEL: pool.name, **pool.labels}
    if key in labels:
        return labels[key] in values
    terms = [requirement for requirement in pool.requirements if requirement["key"] == key]
    # A label that neither the pool nor Karpenter defines is one that no new node will have.
    return any(all(_allows(term, value) for term in terms) for value in values) and (
        bool(terms) or key.startswith(WELL_KNOWN)
    )


def _allows(term: Mapping[str, Any], value: str) -> bool:
    operator, named = str(term.get("operator")), term.get("values") or []
    if operator in _COMPARED:
        bound = str(named[0]) if named else ""
        return bound.isdecimal() and value.isdecimal() and _COMPARED[operator](int(value), int(bound))
    if operator == "NotIn":
        return value not in named
    return operator == "Exists" or (operator == "In" and value in named)


def _left(pool: NodePoolFacts, resource: str) -> int:
    if resource not in pool.limits:
        return UNLIMITED
    return max(0, pool.limits[resource] - pool.in_use.get(resource, 0))


def _count(pool: NodePoolFacts, flavor: FlavorFacts) -> int:
    """GPUs of the pool's largest node by its requirements; 0 if they do not tell, or tell nothing of shares."""
    if flavor.sharing is not Sharing.NONE:
        return 0
    counts = [
        int(value)
        for requirement in pool.requirements
        if requirement["key"] == GPU_COUNT and requirement.get("operator") == "In"
        for value in requirement.get("values") or []
        if str(value).isdecimal()
    ]
    return max(counts, default=0)
