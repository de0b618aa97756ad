"""Checks of what the nodes say about their GPUs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from cluster.preflight.registry import Check, ClusterFacts, register
from cluster.quantities import parse

PRODUCT = "nvidia.com/gpu.product"
_WHOLE = "nvidia.com/gpu"
_PREFIXES = ("nvidia.com/gpu", "nvidia.com/mig-", "amd.com/gpu", "gpu.intel.com/")


@register(id="gpu-nodes", title="GPU nodes")
def gpu_nodes(facts: ClusterFacts) -> Check:
    """Which GPU resources the nodes offer, and how many."""
    nodes: Counter[str] = Counter()
    units: Counter[str] = Counter()
    for node in facts.nodes:
        for resource, amount in gpu_resources(node).items():
            nodes[resource] += 1
            units[resource] += amount
    if not units:
        fix = "add GPU nodes and a device plugin; runs without GPUs work all the same"
        return Check(
            "gpu-nodes", "GPU nodes", "warn", f"none among {len(facts.nodes)} nodes offers a GPU", fix
        )
    detail = "; ".join(f"{name}: {units[name]} on {nodes[name]} nodes" for name in sorted(units))
    return Check("gpu-nodes", "GPU nodes", "ok", detail)


@register(id="device-plugin", title="Device plugin")
def device_plugin(facts: ClusterFacts) -> Check:
    """Nodes that have a GPU by their labels and offer none: there the device plugin is missing or broken."""
    mute = [
        _name(node)
        for node in facts.nodes
        if (_labels(node).get("nvidia.com/gpu.present") == "true" or PRODUCT in _labels(node))
        and not gpu_resources(node)
    ]
    if mute:
        fix = "look at the device plugin's pod on these nodes (kubectl -n gpu-operator get pods -o wide)"
        return Check(
            "device-plugin", "Device plugin", "warn", f"no GPU resource on {', '.join(mute[:6])}", fix
        )
    return Check("device-plugin", "Device plugin", "ok", "every node with GPU labels offers a GPU resource")


@register(id="gpu-labels", title="GPU feature discovery")
def gpu_labels(facts: ClusterFacts) -> Check:
    """Flavors select nodes by the product's label, which GPU feature discovery sets."""
    title = "GPU feature discovery"
    holders = [
        node for node in facts.nodes if any(name.startswith("nvidia.com/") for name in gpu_resources(node))
    ]
    bare = [_name(node) for node in holders if PRODUCT not in _labels(node)]
    if bare:
        fix = "install GPU feature discovery (part of the GPU operator), or label the nodes"
        return Check("gpu-labels", title, "warn", f"no {PRODUCT} on {', '.join(bare[:6])}", fix)
    products = sorted({_labels(node)[PRODUCT] for node in holders})
    return Check("gpu-labels", title, "ok", ", ".join(products) or "no NVIDIA node")


@register(id="sharing-truth", title="A GPU is a whole GPU")
def sharing_truth(facts: ClusterFacts) -> Check:
    """Nodes whose `nvidia.com/gpu` is a slice or a share: they look like whole GPUs to every scheduler."""
    title = "A GPU is a whole GPU"
    untrue = {_name(node): why for node in facts.nodes if (why := why_not_whole(node))}
    if not untrue:
        return Check("sharing-truth", title, "ok", f"no node offers less than a whole GPU as {_WHOLE}")
    detail = "; ".join(f"{name}: {why}" for name, why in list(untrue.items())[:6])
    fix = "set renameByDefault: true (sharing) or migStrategy: mixed (MIG), or give these nodes a flavor of their own"
    return Check("sharing-truth", title, "warn", detail, fix)


def gpu_resources(node: dict[str, Any]) -> dict[str, int]:
    """GPU resource name to allocatable units, zero left out."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    amounts = {name: int(parse(amount)) for name, amount in allocatable.items() if name.startswith(_PREFIXES)}
    return {name: amount for name, amount in amounts.items() if amount > 0}


def why_not_whole(node: dict[str, Any]) -> str | None:
    """Why this node's `nvidia.com/gpu` is less than a GPU, or None if it is one (or the node has none)."""
    if _WHOLE not in gpu_resources(node):
        return None
    labels = _labels(node)
    product = labels.get(PRODUCT, "")
    if "-MIG-" in product:
        return f"{_WHOLE} is a MIG slice ({product})"
    strategy = labels.get("nvidia.com/gpu.sharing-strategy", "none")
    if product.endswith("-SHARED") or strategy not in {"", "none"}:
        replicas = labels.get("nvidia.com/gpu.replicas", "several")
        return f"{_WHOLE} is shared by {replicas} ({strategy})"
    return None


def _labels(node: dict[str, Any]) -> dict[str, str]:
    return node["metadata"].get("labels") or {}


def _name(node: dict[str, Any]) -> str:
    return str(node["metadata"]["name"])
