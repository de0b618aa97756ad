"""Default CPU and memory of a pod that asks only for GPUs: the GPUs' share of the node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import TypeVar

from workloads.models import ResourceFlavor
from workloads.nodes.capacity import Observed, cards_on, hosts_of, nodes
from workloads.placement import FlavorFacts, NodeFacts, matching_nodes
from workloads.podrequests import CPU, MEMORY, Others, others_offered, quantity_of
from workloads.podspec.specs import (
    CAPACITY_TYPES,
    DEFAULT_CPU,
    DEFAULT_MEMORY,
    SPOT_FIRST,
    Amount,
    ContainerSpec,
)

Spec = TypeVar("Spec", bound=ContainerSpec)

KEPT_BACK = Fraction(1, 10)
"""Of each node, for what runs on all nodes beside the pods of the portal."""
_DEFAULTS = {"cpu": Amount.from_json(DEFAULT_CPU), "memory": Amount.from_json(DEFAULT_MEMORY)}
MILLICORES_STEP = 100
GIB = 1024**3
SMALL_STEP = GIB // 4
"""In what steps less than four GiB is given; more than that in whole ones."""


def with_host_share(
    spec: Spec, *, before: ContainerSpec | None = None, known: Observed | None = None
) -> Spec:
    """The spec with omitted cpu and memory filled in: nine tenths of a node, divided by its cards, of the node with the
    least per card. The plain defaults if it asks for no GPU or no node of the flavor is known.

    What was filled in `before` stays as long as the GPUs are the same, whatever nodes have come since. `known` spares
    the queries.
    """
    if not spec.left_out:
        return spec
    shares = share_of(spec, known=known) if spec.gpus_per_replica else {}
    amounts = _DEFAULTS | {name: Amount(text, text) for name, text in shares.items()}
    if before is not None and _gpus(before) == _gpus(spec):
        amounts |= {name: getattr(before, name) for name in before.left_out}
    amounts = {name: amounts[name] for name in spec.left_out}
    return replace(spec, cpu=amounts.get("cpu", spec.cpu), memory=amounts.get("memory", spec.memory))


def beside_with(
    spec: ContainerSpec, *, flavor: str, capacity: str, units: int, known: Observed
) -> tuple[int, int, int]:
    """What each pod would request besides GPUs if it requested `units` of this flavor."""
    changed = replace(spec, flavor=flavor, capacity=capacity, gpus_per_replica=units)
    return with_host_share(changed, known=known).beside


def _gpus(spec: ContainerSpec) -> tuple[str | None, str, int]:
    return spec.flavor, spec.capacity, spec.gpus_per_replica


def is_shared(sized: ContainerSpec) -> bool:
    """Whether the filled-in amounts are certainly a share: one of them differs from the plain default."""
    return any(getattr(sized, name) != _DEFAULTS[name] for name in sized.left_out)


def knows_nodes(spec: ContainerSpec) -> bool:
    """Whether any node of the spec's flavor is known, whatever its size."""
    facts = _facts_of(spec, None)
    if facts is None:
        return False
    there = nodes()
    return any(matching_nodes(facts, kind, there) for kind in _may_be_on(spec))


def share_of(spec: ContainerSpec, *, known: Observed | None = None) -> dict[str, str]:
    """Cpu and memory as quantities, by field; empty if no known node has enough GPUs and known CPU and memory."""
    facts = _facts_of(spec, known)
    if facts is None:
        return {}
    of_nodes = hosts_of if known is None else known.hosts_of
    hosts = [host for capacity_type in _may_be_on(spec) for host in of_nodes(facts, capacity_type)]
    offers = [(host.node, others_offered(host.others)) for host in hosts]
    share = least_share(offers, facts, spec.gpus_per_replica)
    return (
        {} if share is None else {"cpu": quantity_of(CPU, share[0]), "memory": quantity_of(MEMORY, share[1])}
    )


def least_share(
    hosts: Iterable[tuple[NodeFacts, Others]], flavor: FlavorFacts, units: int
) -> tuple[int, int] | None:
    """(millicores, bytes) for a pod of `units` of the flavor, each by the node that has the least of it per card; None
    if no node has enough units and known CPU and memory.
    """
    by_node = (_of(node, others, flavor, units) for node, others in hosts)
    shares = [share for share in by_node if share is not None]
    if not shares:
        return None
    return min(share[0] for share in shares), min(share[1] for share in shares)


def _facts_of(spec: ContainerSpec, known: Observed | None) -> FlavorFacts | None:
    if known is not None:
        return next((facts for facts in known.flavors if facts.name == spec.flavor), None)
    flavor = ResourceFlavor.objects.filter(name=spec.flavor).first()
    return flavor.facts if flavor else None


def _may_be_on(spec: ContainerSpec) -> tuple[str, ...]:
    """The capacity types on whose nodes its pods may land: the share must fit nodes of all of them."""
    return CAPACITY_TYPES if spec.capacity == SPOT_FIRST else (spec.capacity,)


def _of(node: NodeFacts, others: Others, facts: FlavorFacts, units: int) -> tuple[int, int] | None:
    """(millicores, bytes) for `units` on the node; None if it has too few units or unknown CPU or memory."""
    cpu, memory = others[:2] or (None, None)
    if cpu is None or memory is None or node.allocatable[facts.resource] < units:
        return None
    part = (1 - KEPT_BACK) * units * facts.gpu_fraction / cards_on(facts, node)
    millicores = int(cpu * part.numerator // part.denominator)
    size = int(memory * part.numerator // part.denominator)
    return max(MILLICORES_STEP, _down(millicores, MILLICORES_STEP)), max(
        SMALL_STEP, _down(size, GIB if size >= 4 * GIB else SMALL_STEP)
    )


def _down(value: int, step: int) -> int:
    return value // step * step
