"""Where a workload's pods may land: the pure translation of a flavor and a capacity type.

The sharing rules are those of docs/reference/flavors.md: three different things are called
`nvidia.com/gpu` in the field (whole GPUs, time-slices that were not renamed, slices under MIG strategy
`single`), so a flavor says which of them it means and never lands on the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any

from workloads.podrequests import Others, others_offered

WHOLE_GPU = "nvidia.com/gpu"
PRODUCT_LABEL = "nvidia.com/gpu.product"
MIG_PREFIX = "nvidia.com/mig-"
# GPU feature discovery sets it where strategy `single` has cut the cards, and nowhere else.
SLICES_LABEL = "nvidia.com/gpu.slices.gi"
BINDING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
UNREACHABLE_SECONDS = 60
ON_DEMAND = "on-demand"
SPOT = "spot"
SPOT_TAINTS = ("kubernetes.azure.com/scalesetpriority", "cloud.google.com/gke-spot")
"""Taints of nodes that the cloud may take back: AKS sets the first by itself, GKE recommends the other."""

PASSING_TAINTS = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "node.cilium.io/",
    "karpenter.sh/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
)
"""Prefixes of the keys of taints that describe the state of a node, and not for which pods it is meant."""


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
    card: str = ""

    def selector(self, capacity_type: str) -> dict[str, list[str]]:
        """Label values that a node must have, of the flavor and its capacity type together."""
        merged = {key: list(values) for key, values in self.node_selector.items()}
        for key, values in self.capacity.get(capacity_type, {}).get("node_selector", {}).items():
            merged[key] = list(values)
        return merged

    def tolerates(self, capacity_type: str) -> list[Mapping[str, Any]]:
        """The flavor's own tolerations, and on spot those of the taints by which clouds mark such nodes."""
        if capacity_type != SPOT:
            return list(self.tolerations)
        marks = ({"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in SPOT_TAINTS)
        return [*self.tolerations, *marks]

    def declared_block(self, capacity_type: str) -> int:
        """Units of one node that does not exist yet; 0 if no node comes from zero."""
        return int(self._declared(capacity_type).get("block", 0))

    def declared_units(self, capacity_type: str) -> int:
        """Units that may exist in all, where nodes come from zero; 0 where that is not declared."""
        return int(self._declared(capacity_type).get("units", 0))

    def declared_others(self, capacity_type: str) -> Others:
        """What a node that does not exist yet has besides GPUs, as far as that is declared."""
        declared = self._declared(capacity_type)
        return others_offered({name.replace("_", "-"): value for name, value in declared.items()})

    def _declared(self, capacity_type: str) -> Mapping[str, Any]:
        declared: Mapping[str, Any] = self.capacity.get(capacity_type, {}).get("provisionable", {})
        return declared


@dataclass(frozen=True)
class NodeFacts:
    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, int]
    ready: bool = True
    unschedulable: bool = False
    taints: Sequence[Mapping[str, Any]] = ()


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
    git_image: str = ""
    """Of the init containers that fetch a git repository."""
    storage_image: str = ""
    """Of the init containers that fetch a model from an object store."""
    mlflow_uri: str = ""
    """Of the team's MLflow server; empty where it has none."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    gang_scheduler: str = ""
    """Scheduler that places the pods of a gang together; empty where there is none."""
    pod_monitors: bool = False
    """Whether the cluster has PodMonitors, by which Prometheus finds what to scrape."""
    capacity_type: str = ON_DEMAND
    """Which of them it was claimed on, where the request leaves a choice."""
    sharing: Sharing = Sharing.NONE
    """How the cards of its flavor are shared."""


def node_terms(flavor: FlavorFacts, capacity_type: str, nodes: Sequence[NodeFacts]) -> list[dict[str, Any]]:
    """Required node-affinity expressions: the flavor's labels, and what its sharing demands and forbids.

    They take the nodes that `matches` takes. No affinity operator matches a suffix, so of the products that a whole
    GPU must not have those seen or named are excluded by name; of nodes that come later the labels tell.
    """
    terms = _label_terms(flavor, capacity_type)
    if flavor.resource != WHOLE_GPU:
        return terms
    named = flavor.selector(capacity_type).get(PRODUCT_LABEL, [])
    products = {*named, *(node.labels.get(PRODUCT_LABEL, "") for node in nodes)} - {""}
    if flavor.sharing is Sharing.NONE:
        unfit = sorted(product for product in products if _cut(product))
        return [*terms, _term(PRODUCT_LABEL, "NotIn", unfit)] if unfit else terms
    if flavor.sharing is Sharing.MIG:
        slices = sorted(product for product in named or products if _is_slice(product))
        if not slices:
            return [*terms, _term(SLICES_LABEL, "Exists")]
        return [*(term for term in terms if term["key"] != PRODUCT_LABEL), _term(PRODUCT_LABEL, "In", slices)]
    return terms


def matches(flavor: FlavorFacts, capacity_type: str, node: NodeFacts) -> bool:
    """Whether the node offers this flavor, by labels, resource name and the sharing rules."""
    return bool(matching_nodes(flavor, capacity_type, [node]))


def matching_nodes(flavor: FlavorFacts, capacity_type: str, nodes: Iterable[NodeFacts]) -> list[NodeFacts]:
    """Those of the nodes that offer this flavor, usable now or not."""
    resource, terms = flavor.resource, _label_terms(flavor, capacity_type)
    found = []
    for node in nodes:
        if node.allocatable.get(resource, 0) <= 0:
            continue
        for term in terms:
            if not _holds(term, node.labels):
                break
        else:
            if _product_fits(flavor, node.labels.get(PRODUCT_LABEL, "")):
                found.append(node)
    return found


def _product_fits(flavor: FlavorFacts, product: str) -> bool:
    if flavor.resource != WHOLE_GPU or flavor.sharing not in {Sharing.NONE, Sharing.MIG}:
        return True
    return _is_slice(product) if flavor.sharing is Sharing.MIG else not _cut(product)


def takes_pods(flavor: FlavorFacts, capacity_type: str, node: NodeFacts) -> bool:
    """Whether the node takes new pods with these tolerations: ready, not cordoned, no other taint."""
    if not node.ready or node.unschedulable:
        return False
    return all(tolerated(taint, flavor.tolerates(capacity_type)) for taint in node.taints)


def takes_plain_pods(node: NodeFacts) -> bool:
    """Whether the node takes new pods that ask for no GPU, which tolerate nothing: any node may, GPUs or not."""
    return node.ready and not node.unschedulable and all(tolerated(taint, ()) for taint in node.taints)


def stays_away(taints: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a node with these taints never takes pods that tolerate nothing, in whatever state it is."""
    return any(
        not tolerated(taint, ()) and not str(taint.get("key", "")).startswith(PASSING_TAINTS)
        for taint in taints
    )


def usable(flavor: FlavorFacts, capacity_type: str, node: NodeFacts) -> bool:
    """Whether a pod of the flavor could be bound to the node now, if that has units free."""
    return takes_pods(flavor, capacity_type, node) and matches(flavor, capacity_type, node)


def tolerated(taint: Mapping[str, Any], tolerations: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the taint lets such a pod be bound: Kubernetes' rule for one taint."""
    return taint.get("effect") not in BINDING_EFFECTS or any(
        _tolerates(toleration, taint) for toleration in tolerations
    )


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    # Without a key, which is allowed with Exists alone, every taint is meant.
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


def _label_terms(flavor: FlavorFacts, capacity_type: str) -> list[dict[str, Any]]:
    """Expressions for what a node's labels alone can tell."""
    selector = flavor.selector(capacity_type)
    terms = [_term(key, "In", sorted(values)) for key, values in sorted(selector.items())]
    strategy = strategy_label(flavor.resource)
    if strategy is None:
        return terms
    if flavor.sharing is Sharing.MPS or (
        flavor.sharing is Sharing.TIME_SLICING and not _says_shared(flavor, selector)
    ):
        return [*terms, _term(strategy, "In", [flavor.sharing.value])]
    others = {Sharing.MPS, Sharing.TIME_SLICING} - {flavor.sharing}
    terms.append(_term(strategy, "NotIn", sorted(sharing.value for sharing in others)))
    if flavor.resource == WHOLE_GPU and flavor.sharing is Sharing.NONE:
        terms.append(_term(SLICES_LABEL, "DoesNotExist"))
    return terms


def strategy_label(resource: str) -> str | None:
    """The label in which GPU feature discovery says how units of that name are shared; None for other vendors."""
    if resource != WHOLE_GPU and not resource.startswith((f"{WHOLE_GPU}.", MIG_PREFIX)):
        return None
    return f"{resource.removesuffix('.shared')}.sharing-strategy"


def _says_shared(flavor: FlavorFacts, selector: Mapping[str, Sequence[str]]) -> bool:
    """Whether resource name or products say already that units are shared, so that an older node needs no label."""
    products = selector.get(PRODUCT_LABEL, [])
    return flavor.resource.endswith(".shared") or (
        flavor.resource == WHOLE_GPU
        and bool(products)
        and all(product.endswith("-SHARED") for product in products)
    )


def _cut(product: str) -> bool:
    return product.endswith("-SHARED") or "-MIG-" in product


def _is_slice(product: str) -> bool:
    return "-MIG-" in product and not product.endswith("-SHARED")


def _term(key: str, operator: str, values: Sequence[str] = ()) -> dict[str, Any]:
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def _holds(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Evaluates an expression of `node_terms` as the scheduler does."""
    key: str = term["key"]
    operator: str = term["operator"]
    if operator in {"Exists", "DoesNotExist"}:
        return (key in labels) == (operator == "Exists")
    values: Sequence[str] = term["values"]
    return (labels.get(key) in values) == (operator == "In")


def largest_block(flavor: FlavorFacts, capacity_type: str, nodes: Sequence[NodeFacts]) -> int:
    """Most units that one node, observed or declared, could ever hold."""
    observed = (node.allocatable[flavor.resource] for node in matching_nodes(flavor, capacity_type, nodes))
    return max([flavor.declared_block(capacity_type), *observed])


def tolerations(flavor: FlavorFacts | None, capacity_type: str) -> list[dict[str, Any]]:
    """The flavor's own and those of its capacity type, and 60 s for a node that is not ready or unreachable."""
    own = [dict(toleration) for toleration in flavor.tolerates(capacity_type)] if flavor else []
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
