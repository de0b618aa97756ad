"""Flavors that nodes would make: GPUs that nodes report and no flavor offers, as the flavor that would offer them. Pure.

What is read are the labels of GPU feature discovery, the resource names of the device plugins, and taints.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from typing import Any

from foundation.digits import whole_number
from workloads.nodes.supply import COUNT_LABEL
from workloads.placement import (
    BINDING_EFFECTS,
    MIG_PREFIX,
    ON_DEMAND,
    PASSING_TAINTS,
    PRODUCT_LABEL,
    SPOT,
    SPOT_TAINTS,
    WHOLE_GPU,
    FlavorFacts,
    NodeFacts,
    Sharing,
    matching_nodes,
    strategy_label,
    tolerated,
)
from workloads.podrequests import GPU_PREFIXES

KIND_LABELS = (
    "karpenter.sh/capacity-type",
    "eks.amazonaws.com/capacityType",
    "cloud.google.com/gke-provisioning",
    "cloud.google.com/gke-spot",
    "kubernetes.azure.com/scalesetpriority",
)
"""Labels by which clouds and Karpenter tell spot nodes from others, the most telling first."""
_SPOT_VALUES = frozenset({"spot", "true"})
_MODEL_LABELS = (PRODUCT_LABEL, "amd.com/gpu.product-name", "cloud.google.com/gke-accelerator")
_TYPE_LABEL = "node.kubernetes.io/instance-type"
_PROFILE = re.compile(r"(\d)g\.(\d{1,3})gb")
_NOT_THE_MODEL = re.compile(r"nvidia|tesla|geforce|amd|instinct|sxm\d?|pcie|oam|hbm\d?e?")
_SLICES, _SLICES_OF_A30 = 7, 4


@dataclass(frozen=True)
class Proposal:
    """A flavor that would offer `units` of `nodes`. `beside` names flavors of the same card and resource that do not take
    these nodes: one of them may have been meant to.
    """

    name: str
    card: str
    resource: str
    gpu_fraction: Fraction
    memory_gib: int
    sharing: Sharing
    node_selector: Mapping[str, Sequence[str]]
    tolerations: Sequence[Mapping[str, Any]]
    capacity: Mapping[str, Mapping[str, Any]]
    product: str
    nodes: tuple[str, ...]
    units: int
    beside: tuple[str, ...]

    @property
    def key(self) -> str:
        """The same for the same units, whatever flavors and nodes come and go meanwhile."""
        told = (self.resource, self.product, self.sharing.value, self.tolerations)
        return sha256(repr(told).encode()).hexdigest()[:12]


def covering(node: NodeFacts, resource: str, flavors: Iterable[FlavorFacts]) -> list[str]:
    """Names of the flavors that offer this resource of the node, whatever state it is in."""
    meant = _meant(node)
    return [
        flavor.name
        for flavor in flavors
        if flavor.resource == resource
        and any(
            matching_nodes(flavor, kind, [node]) and all(tolerated(each, flavor.tolerates(kind)) for each in meant)
            for kind in flavor.capacity
        )
    ]  # fmt: skip


def proposals(nodes: Sequence[NodeFacts], flavors: Sequence[FlavorFacts]) -> list[Proposal]:
    """A flavor for each kind of units that none offers, by name; none that would not take its own nodes."""
    kinds: dict[tuple[str, str, Sharing, str], list[NodeFacts]] = defaultdict(list)
    for node in nodes:
        for resource, units in node.allocatable.items():
            if units > 0 and not covering(node, resource, flavors):
                sharing = _sharing(node, resource)
                kinds[resource, _model(node)[1], sharing, repr(_tolerations(node))].append(node)
    taken = {flavor.name for flavor in flavors}
    found = []
    for (resource, product, sharing, _), group in sorted(kinds.items()):
        proposal = _proposal(resource, product, sharing, group, flavors, taken)
        if proposal is not None:
            taken.add(proposal.name)
            found.append(proposal)
    return sorted(found, key=lambda each: each.name)


def _proposal(
    resource: str,
    product: str,
    sharing: Sharing,
    group: Sequence[NodeFacts],
    flavors: Sequence[FlavorFacts],
    taken: set[str],
) -> Proposal | None:
    node, card = group[0], _card(group, product, flavors)
    label = _model(node)[0]
    facts = FlavorFacts(
        name=_free(_name(card, resource, product, sharing), taken),
        resource=resource,
        card=card,
        gpu_fraction=_fraction(node, resource, product, sharing),
        sharing=sharing,
        node_selector={label: [product]} if label else {},
        tolerations=_tolerations(node),
        capacity=_capacity(group),
    )
    if not all(covering(each, resource, [facts]) for each in group):
        return None
    near = [each.name for each in flavors if each.resource == resource and each.card == card]
    return Proposal(
        **{name: getattr(facts, name) for name in FlavorFacts.__dataclass_fields__},
        memory_gib=_memory_gib(node, resource, product, facts.gpu_fraction),
        product=product,
        nodes=tuple(sorted(each.name for each in group)),
        units=sum(each.allocatable[resource] for each in group),
        beside=tuple(near),
    )


def _meant(node: NodeFacts) -> list[Mapping[str, Any]]:
    """The taints that say which pods it is for: neither its state nor that it is spot."""
    return [
        taint
        for taint in node.taints
        if taint.get("effect") in BINDING_EFFECTS
        and not str(taint.get("key", "")).startswith(PASSING_TAINTS)
        and taint.get("key") not in SPOT_TAINTS
    ]


def _tolerations(node: NodeFacts) -> list[dict[str, Any]]:
    """One for each taint. Those that keep others off GPUs have any value: `true`, `present` and none mean the same."""
    made = []
    for taint in _meant(node):
        key, value = str(taint["key"]), str(taint.get("value") or "")
        said = {"operator": "Equal", "value": value} if value and not key.startswith(GPU_PREFIXES) else None
        made.append({"key": key, **(said or {"operator": "Exists"}), "effect": taint["effect"]})
    return sorted(made, key=lambda each: (each["key"], each["effect"]))


def _model(node: NodeFacts) -> tuple[str, str]:
    """The label that names the GPU, and its value; of the machine where none does; empty where neither is there."""
    for label in (*_MODEL_LABELS, _TYPE_LABEL):
        if node.labels.get(label):
            return label, node.labels[label]
    return "", ""


def _sharing(node: NodeFacts, resource: str) -> Sharing:
    product, slices = node.labels.get(PRODUCT_LABEL, ""), resource.startswith(MIG_PREFIX)
    said = node.labels.get(strategy_label(resource) or "", "")
    if said == Sharing.MPS and not slices:
        return Sharing.MPS
    unnamed = resource == WHOLE_GPU and product.endswith("-SHARED")
    if said == Sharing.TIME_SLICING or resource.endswith(".shared") or unnamed:
        return Sharing.TIME_SLICING
    return Sharing.MIG if slices or (resource == WHOLE_GPU and "-MIG-" in product) else Sharing.NONE


def _fraction(node: NodeFacts, resource: str, product: str, sharing: Sharing) -> Fraction:
    """Of a slice its compute slices; of a share the replicas that a label tells. 1 where nobody says."""
    profile = _PROFILE.search(resource) or _PROFILE.search(product)
    parts = _SLICES_OF_A30 if "A30" in product.split("-") else _SLICES
    whole = min(Fraction(int(profile[1]), parts), Fraction(1)) if profile else Fraction(1)
    if sharing in {Sharing.NONE, Sharing.MIG}:
        return whole if sharing is Sharing.MIG else Fraction(1)
    told = whole_number(node.labels.get(f"{resource.removesuffix('.shared')}.replicas", ""), digits=3)
    cards = whole_number(node.labels.get(COUNT_LABEL, ""), digits=3)
    if not told and cards and not profile:
        told = node.allocatable[resource] // cards
    return whole / max(told or 1, 1)


def _memory_gib(node: NodeFacts, resource: str, product: str, fraction: Fraction) -> int:
    """Of one unit, rounded down; 0 where no label says."""
    profile = _PROFILE.search(resource) or _PROFILE.search(product)
    if profile:
        return int(profile[2])
    mib = whole_number(node.labels.get("nvidia.com/gpu.memory", ""), digits=9) or 0
    return int(mib * fraction / 1024)


def _capacity(group: Sequence[NodeFacts]) -> dict[str, dict[str, Any]]:
    """The capacity types of the nodes; each with the label by which its nodes are told, where all of them have one."""
    kinds: dict[str, list[NodeFacts]] = defaultdict(list)
    for node in group:
        kinds[SPOT if _is_spot(node) else ON_DEMAND].append(node)
    made: dict[str, dict[str, Any]] = {}
    for kind, there in sorted(kinds.items()):
        label = next((each for each in KIND_LABELS if all(each in node.labels for node in there)), None)
        values = sorted({node.labels[label] for node in there}) if label else []
        made[kind] = {"node_selector": {label: values}} if label else {}
    return made


def _is_spot(node: NodeFacts) -> bool:
    told = next((node.labels[each] for each in KIND_LABELS if each in node.labels), None)
    marked = any(taint.get("key") in SPOT_TAINTS for taint in node.taints)
    return marked if told is None else told.lower() in _SPOT_VALUES


def _card(group: Sequence[NodeFacts], product: str, flavors: Sequence[FlavorFacts]) -> str:
    """As flavors of these nodes, or of the same GPU, call it; else made of the product, such as `a100-80gb`."""
    whole = product.partition("-MIG-")[0].removesuffix("-SHARED")
    for flavor in flavors:
        products = {
            each.partition("-MIG-")[0].removesuffix("-SHARED")
            for each in flavor.node_selector.get(PRODUCT_LABEL, ())
        }
        near = any(matching_nodes(flavor, kind, group) for kind in flavor.capacity)
        if flavor.card and (near or whole in products):
            return flavor.card
    words = [each for each in re.split(r"[-_ .]+", whole.lower()) if each]
    return "-".join(each for each in words if not _NOT_THE_MODEL.fullmatch(each))[:40] or "gpu"


def _name(card: str, resource: str, product: str, sharing: Sharing) -> str:
    profile = _PROFILE.search(resource) or _PROFILE.search(product)
    sliced = f"{re.sub(r'-[0-9]+gb$', '', card)}-mig-{profile[0]}" if profile else card
    ending = {Sharing.MPS: "-mps", Sharing.TIME_SLICING: "-shared"}.get(sharing, "")
    return re.sub(r"[^-.a-z0-9]+", "-", f"{sliced}{ending}".lower()).strip("-.") or "gpu"


def _free(name: str, taken: set[str]) -> str:
    numbered = (name if number == 1 else f"{name}-{number}" for number in range(1, len(taken) + 2))
    return next(each for each in numbered if each not in taken)
