"""Where a workload's pods may land: the pure translation of a flavor and a capacity type.

The sharing rules are those of docs/reference/flavors.md: three different things are called
`nvidia.com/gpu` in the field (whole GPUs, time-slices that were not renamed, slices under MIG strategy
`single`), so a flavor says which of them it means and never lands on the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any

WHOLE_GPU = "nvidia.com/gpu"
PRODUCT_LABEL = "nvidia.com/gpu.product"
SHARING_LABEL = "nvidia.com/gpu.sharing-strategy"
UNREACHABLE_SECONDS = 60


class Sharing(StrEnum):
    NONE = "none"
    MIG = "mig"
    TIME_SLICING = "time-slicing"
    MPS = "mps"


@dataclass(frozen=True)
class FlavorFacts:
    """What admission and manifests need to know of a ResourceFlavor, without its row."""

    name: str
    resource: str
    gpu_fraction: Fraction
    sharing: Sharing
    node_selector: Mapping[str, Sequence[str]]
    tolerations: Sequence[Mapping[str, Any]]
    capacity: Mapping[str, Mapping[str, Any]]

    def selector(self, capacity_type: str) -> dict[str, list[str]]:
        """Label values that a node must have, of the flavor and its capacity type together."""
        merged = {key: list(values) for key, values in self.node_selector.items()}
        for key, values in self.capacity.get(capacity_type, {}).get("node_selector", {}).items():
            merged[key] = list(values)
        return merged

    def declared_block(self, capacity_type: str) -> int:
        """Units that one node may bring that does not exist yet; 0 where no node comes from zero."""
        return int(self.capacity.get(capacity_type, {}).get("provisionable", {}).get("block", 0))


@dataclass(frozen=True)
class NodeFacts:
    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, int]
    ready: bool = True
    unschedulable: bool = False


@dataclass(frozen=True)
class Placement:
    """Everything a manifest takes from the platform rather than from the user."""

    namespace: str
    object_name: str
    workload_id: str
    short_id: str
    attempt: int
    team_slug: str
    labels: Mapping[str, str]
    resource_name: str | None
    node_terms: Sequence[Mapping[str, Any]]
    tolerations: Sequence[Mapping[str, Any]]
    service_account: str
    priority_class: str | None
    portal_url: str
    run_token_secret: str | None
    resume_from: str | None = None
    grace_seconds: int = 60
    annotations: Mapping[str, str] = field(default_factory=dict)


def node_terms(flavor: FlavorFacts, capacity_type: str, nodes: Sequence[NodeFacts]) -> list[dict[str, Any]]:
    """Required node-affinity expressions: the flavor's labels, and what its sharing forbids.

    A product suffix cannot be matched by an affinity operator, so the products seen on shared nodes are
    excluded by name; the sharing-strategy label covers nodes that come later.
    """
    terms: list[dict[str, Any]] = [
        {"key": key, "operator": "In", "values": sorted(values)}
        for key, values in sorted(flavor.selector(capacity_type).items())
    ]
    if _wants_whole(flavor):
        strategies = [Sharing.MPS.value, Sharing.TIME_SLICING.value]
        terms.append({"key": SHARING_LABEL, "operator": "NotIn", "values": strategies})
        products = sorted({node.labels.get(PRODUCT_LABEL, "") for node in nodes if _shared(node)} - {""})
        if products:
            terms.append({"key": PRODUCT_LABEL, "operator": "NotIn", "values": products})
    elif flavor.resource == WHOLE_GPU and PRODUCT_LABEL not in flavor.selector(capacity_type):
        products = sorted({node.labels.get(PRODUCT_LABEL, "") for node in nodes if _shared(node)} - {""})
        if products:
            terms.append({"key": PRODUCT_LABEL, "operator": "In", "values": products})
    return terms


def matches(flavor: FlavorFacts, capacity_type: str, node: NodeFacts) -> bool:
    """Whether the node offers this flavor, by labels, resource name and the sharing rules."""
    if node.allocatable.get(flavor.resource, 0) <= 0:
        return False
    for key, values in flavor.selector(capacity_type).items():
        if node.labels.get(key) not in values:
            return False
    return flavor.resource != WHOLE_GPU or _wants_whole(flavor) != _shared(node)


def _wants_whole(flavor: FlavorFacts) -> bool:
    return flavor.sharing is Sharing.NONE and flavor.resource == WHOLE_GPU


def _shared(node: NodeFacts) -> bool:
    product = node.labels.get(PRODUCT_LABEL, "")
    strategy = node.labels.get(SHARING_LABEL, Sharing.NONE.value)
    return product.endswith("-SHARED") or "-MIG-" in product or strategy not in {"", Sharing.NONE.value}


def largest_block(flavor: FlavorFacts, capacity_type: str, nodes: Sequence[NodeFacts]) -> int:
    """Most units that one node, observed or declared, could ever hold."""
    observed = (node.allocatable[flavor.resource] for node in nodes if matches(flavor, capacity_type, node))
    return max([flavor.declared_block(capacity_type), *observed])


def tolerations(flavor: FlavorFacts | None) -> list[dict[str, Any]]:
    """The flavor's own, and 60 s for a node that is not ready or unreachable."""
    own = [dict(toleration) for toleration in flavor.tolerations] if flavor else []
    lost = [
        {
            "key": f"node.kubernetes.io/{condition}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": UNREACHABLE_SECONDS,
        }
        for condition in ("not-ready", "unreachable")
    ]
    return own + lost
