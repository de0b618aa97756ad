"""The nodes of the field's misnamings, as the real test cluster has them, and flavors that mean one of them."""

from __future__ import annotations

from fractions import Fraction

from workloads.placement import FlavorFacts, NodeFacts, Sharing
from workloads.provisioning import NodePoolFacts

GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
STRATEGY = "nvidia.com/gpu.sharing-strategy"
A100 = "NVIDIA-A100-SXM4-40GB"
A100_80 = "NVIDIA-A100-SXM4-80GB"


COUNT = "nvidia.com/gpu.count"
SLICES = "nvidia.com/gpu.slices.gi"
COUNT_REQUIREMENT = "karpenter.k8s.aws/instance-gpu-count"
TAINT = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}


def _gpu_node(name, resources, product, *, capacity="on-demand", count=None, **labels):
    facts = {PRODUCT: product, "karpenter.sh/capacity-type": capacity, **labels}
    facts |= {COUNT: str(count or max(resources.values()))}
    return NodeFacts(name=name, labels=facts, allocatable=resources, taints=[TAINT])


NODES = [
    NodeFacts(name="cpu-0", labels={"karpenter.sh/capacity-type": "on-demand"}, allocatable={}),
    *[_gpu_node(f"a100-{index}", {GPU: 8}, A100) for index in range(4)],
    *[_gpu_node(f"a100-spot-{index}", {GPU: 8}, A100, capacity="spot") for index in range(2)],
    _gpu_node("h100-0", {GPU: 8}, "NVIDIA-H100-80GB-HBM3"),
    *[_gpu_node(f"t4-{index}", {GPU: 1}, "Tesla-T4") for index in range(4)],
    _gpu_node(
        "t4-shared-0",
        {"nvidia.com/gpu.shared": 4},
        "Tesla-T4-SHARED",
        count=1,
        **{STRATEGY: "time-slicing"},
    ),
    _gpu_node("t4-unrenamed-0", {GPU: 4}, "Tesla-T4-SHARED", count=1, **{STRATEGY: "time-slicing"}),
    _gpu_node(
        "a100-mig-single-0", {GPU: 56}, f"{A100_80}-MIG-1g.10gb", **{"nvidia.com/mig.strategy": "single"}
    ),
    _gpu_node(
        "a100-mig-0",
        {"nvidia.com/mig-1g.10gb": 28, "nvidia.com/mig-3g.40gb": 8, GPU: 0},
        A100_80,
        count=8,
        **{"nvidia.com/mig.strategy": "mixed"},
    ),
]
# What may be added to such a cluster one day, with the labels that GPU feature discovery sets on each.
LATE = [
    _gpu_node("l4-whole", {GPU: 2}, "NVIDIA-L4", **{STRATEGY: "none", "nvidia.com/mig.strategy": "single"}),
    _gpu_node("l4-sliced", {GPU: 8}, "NVIDIA-L4-SHARED", count=2, **{STRATEGY: "time-slicing"}),
    _gpu_node("t4-mps", {GPU: 4}, "Tesla-T4-SHARED", count=1, **{STRATEGY: "mps"}),
    _gpu_node("t4-mps-renamed", {"nvidia.com/gpu.shared": 4}, "Tesla-T4", count=1, **{STRATEGY: "mps"}),
    _gpu_node("a30-mig", {GPU: 4}, "NVIDIA-A30-MIG-1g.6gb", **{STRATEGY: "none", SLICES: "1"}),
    _gpu_node(
        "a30-mig-sliced", {GPU: 8}, "NVIDIA-A30-MIG-1g.6gb-SHARED", **{STRATEGY: "time-slicing", SLICES: "1"}
    ),
    _gpu_node(
        "a100-mig-mixed-sliced",
        {"nvidia.com/mig-1g.10gb": 56},
        A100_80,
        count=8,
        **{STRATEGY: "none", "nvidia.com/mig-1g.10gb.sharing-strategy": "time-slicing"},
    ),
]


def flavor(name, *, products=(), resource=GPU, sharing=Sharing.NONE, fraction=Fraction(1), capacity=None):
    return FlavorFacts(
        name=name,
        resource=resource,
        gpu_fraction=fraction,
        sharing=sharing,
        node_selector={PRODUCT: list(products)} if products else {},
        tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}],
        capacity=capacity if capacity is not None else {"on-demand": {}},
    )


ANY_GPU = flavor("any-gpu")
A100_40GB = flavor(
    "a100-40gb",
    products=[A100],
    capacity={
        "on-demand": {"node_selector": {"karpenter.sh/capacity-type": ["on-demand"]}},
        "spot": {"node_selector": {"karpenter.sh/capacity-type": ["spot"]}},
    },
)
T4 = flavor("t4", products=["Tesla-T4"])
T4_RENAMED = flavor(
    "t4-shared",
    products=["Tesla-T4-SHARED"],
    resource="nvidia.com/gpu.shared",
    sharing=Sharing.TIME_SLICING,
    fraction=Fraction(1, 4),
)
T4_UNRENAMED = flavor(
    "t4-slices", products=["Tesla-T4-SHARED"], sharing=Sharing.TIME_SLICING, fraction=Fraction(1, 4)
)
MIG_MIXED = flavor("mig-1g", resource="nvidia.com/mig-1g.10gb", sharing=Sharing.MIG, fraction=Fraction(1, 7))
MIG_SINGLE = flavor(
    "mig-single",
    products=[f"{A100_80}-MIG-1g.10gb", "NVIDIA-A30-MIG-1g.6gb"],
    sharing=Sharing.MIG,
    fraction=Fraction(1, 7),
)
MPS = flavor("t4-mps", sharing=Sharing.MPS, fraction=Fraction(1, 4))
MPS_RENAMED = flavor(
    "t4-mps-shared", resource="nvidia.com/gpu.shared", sharing=Sharing.MPS, fraction=Fraction(1, 4)
)
ANY_SLICED = flavor("any-sliced", sharing=Sharing.TIME_SLICING, fraction=Fraction(1, 4))
MIG_SLICED = flavor(
    "mig-sliced", resource="nvidia.com/mig-1g.10gb", sharing=Sharing.TIME_SLICING, fraction=Fraction(1, 14)
)
FLAVORS = (
    ANY_GPU, A100_40GB, T4, T4_RENAMED, T4_UNRENAMED, MIG_MIXED, MIG_SINGLE, MPS, MPS_RENAMED, ANY_SLICED, MIG_SLICED
)  # fmt: skip


def provisionable(block, units):
    """A capacity type whose nodes come from zero."""
    return {"provisionable": {"block": block, "units": units}}


def pool(**values):
    """A Karpenter NodePool of A100 nodes, changed as asked."""
    facts = {
        "name": "gpus",
        "labels": {PRODUCT: A100},
        "requirements": [],
        "taints": [TAINT],
        "limits": {GPU: 24},
        "in_use": {},
    } | values
    return NodePoolFacts(**facts)


def needs(key, operator, *values):
    """A requirement of a NodePool."""
    return {"key": key, "operator": operator, "values": list(values)}
