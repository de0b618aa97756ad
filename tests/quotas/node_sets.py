"""The nodes of the field's misnamings, as the real test cluster has them, and flavors that mean one of them."""

from __future__ import annotations

from fractions import Fraction

from workloads.placement import FlavorFacts, NodeFacts, Sharing

GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"
STRATEGY = "nvidia.com/gpu.sharing-strategy"
A100 = "NVIDIA-A100-SXM4-40GB"
A100_80 = "NVIDIA-A100-SXM4-80GB"


def _gpu_node(name, resources, product, *, capacity="on-demand", **labels):
    facts = {PRODUCT: product, "karpenter.sh/capacity-type": capacity, **labels}
    return NodeFacts(name=name, labels=facts, allocatable=resources)


NODES = [
    NodeFacts(name="cpu-0", labels={"karpenter.sh/capacity-type": "on-demand"}, allocatable={}),
    *[_gpu_node(f"a100-{index}", {GPU: 8}, A100) for index in range(4)],
    *[_gpu_node(f"a100-spot-{index}", {GPU: 8}, A100, capacity="spot") for index in range(2)],
    _gpu_node("h100-0", {GPU: 8}, "NVIDIA-H100-80GB-HBM3"),
    *[_gpu_node(f"t4-{index}", {GPU: 1}, "Tesla-T4") for index in range(4)],
    _gpu_node("t4-shared-0", {"nvidia.com/gpu.shared": 4}, "Tesla-T4-SHARED", **{STRATEGY: "time-slicing"}),
    _gpu_node("t4-unrenamed-0", {GPU: 4}, "Tesla-T4-SHARED", **{STRATEGY: "time-slicing"}),
    _gpu_node(
        "a100-mig-single-0", {GPU: 56}, f"{A100_80}-MIG-1g.10gb", **{"nvidia.com/mig.strategy": "single"}
    ),
    _gpu_node(
        "a100-mig-0",
        {"nvidia.com/mig-1g.10gb": 28, "nvidia.com/mig-3g.40gb": 8, GPU: 0},
        A100_80,
        **{"nvidia.com/mig.strategy": "mixed"},
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
    "mig-single", products=[f"{A100_80}-MIG-1g.10gb"], sharing=Sharing.MIG, fraction=Fraction(1, 7)
)
