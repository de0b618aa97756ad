"""Which flavor and capacity type a pod template asks for by its resource, node labels and tolerations. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foundation.errors import FieldProblem
from jobs.imports.reading import Fields
from workloads.placement import (
    ON_DEMAND,
    PRODUCT_LABEL,
    FlavorFacts,
    NodeFacts,
    node_terms,
    tolerations,
)

GPU_WORDS = ("gpu", "/mig-", "mxgpu")
"""What the names of resources that are GPUs contain, of any vendor."""

TOLERATION = ("key", "operator", "value", "effect", "tolerationSeconds")


@dataclass(frozen=True, slots=True)
class Wish:
    """One demand on the labels of a node, and where it stands in the manifest."""

    path: str
    key: str
    operator: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlacementChoice:
    """The flavor and capacity for the request, or the problem that the user has to solve."""

    flavor: FlavorFacts | None = None
    capacity: str | None = None
    problem: FieldProblem | None = None


def is_gpu(resource: str, flavors: Sequence[FlavorFacts]) -> bool:
    """Whether units of the resource are what a flavor is for."""
    return any(flavor.resource == resource for flavor in flavors) or any(
        word in resource for word in GPU_WORDS
    )


def wishes(pod: Fields) -> list[Wish]:
    """What the pod asks of its node's labels."""
    return [*_of_selector(pod.object("nodeSelector")), *_of_affinity(pod.object("affinity"))]


def _of_selector(selector: Fields) -> Iterator[Wish]:
    for key in list(selector.names()):
        value = selector.take(key, str)
        if value is not None:
            yield Wish(selector.at(key), key, "In", (value,))


def _of_affinity(affinity: Fields) -> Iterator[Wish]:
    required = affinity.object("nodeAffinity").object("requiredDuringSchedulingIgnoredDuringExecution")
    terms = required.items("nodeSelectorTerms")
    for other in terms[1:]:
        affinity.notes.refuse(other.path, "A flavor is one term: alternatives have no place.")
        other.rest = {}
    for term in terms[:1]:
        for expression in term.items("matchExpressions"):
            key, operator = expression.take("key", str), expression.take("operator", str)
            yield Wish(expression.path, key or "", operator or "", tuple(expression.texts("values")))


def choose(
    resource: str | None, wanted: Sequence[Wish], flavors: Sequence[FlavorFacts], nodes: Sequence[NodeFacts]
) -> PlacementChoice:
    """The one flavor that gives what is wanted; a problem that lists them where there is none or several."""
    if resource is None:
        return PlacementChoice()
    fitting = [flavor for flavor in flavors if flavor.resource == resource]
    if not fitting:
        listed = ", ".join(f"{flavor.name} ({flavor.resource})" for flavor in flavors) or "none"
        return _problem(f"No flavor has {resource}. There is: {listed}.")
    pools = [(flavor, kind) for flavor in fitting for kind in flavor.capacity]
    open_to = [pool for pool in pools if not any(_against(wish, *pool) for wish in wanted)]
    implied = [pool for pool in open_to if all(_implied(wish, *pool, nodes) for wish in wanted)]
    chosen = implied or open_to
    names = sorted({flavor.name for flavor, _ in chosen})
    if len(names) != 1:
        why = "Several flavors fit" if names else "No flavor has such nodes"
        return _problem(f"{why}: choose one of {', '.join(names or [flavor.name for flavor in fitting])}.")
    capacities = [kind for _, kind in chosen]
    return PlacementChoice(chosen[0][0], ON_DEMAND if ON_DEMAND in capacities else capacities[0])


def _problem(message: str) -> PlacementChoice:
    return PlacementChoice(problem=FieldProblem(field="flavor", code="ambiguous_flavor", message=message))


def _against(wish: Wish, flavor: FlavorFacts, capacity: str) -> bool:
    """Whether no node of the pool can have what is wished."""
    values = flavor.selector(capacity).get(wish.key)
    return wish.operator == "In" and values is not None and not set(values) & set(wish.values)


def _implied(wish: Wish, flavor: FlavorFacts, capacity: str, nodes: Sequence[NodeFacts]) -> bool:
    """Whether every node on which the portal would place it has what is wished."""
    values = flavor.selector(capacity).get(wish.key)
    if wish.operator == "In" and values is not None and set(values) <= set(wish.values):
        return True
    if wish.operator == "Exists" and values is not None:
        return True
    if wish.operator == "NotIn" and wish.key == PRODUCT_LABEL:
        return all("-MIG-" in value or value.endswith("-SHARED") for value in wish.values)
    return _is_term(wish, flavor, capacity, nodes)


def _is_term(wish: Wish, flavor: FlavorFacts, capacity: str, nodes: Sequence[NodeFacts]) -> bool:
    return any(
        (term["key"], term["operator"]) == (wish.key, wish.operator)
        and set(term.get("values", ())) == set(wish.values)
        for term in node_terms(flavor, capacity, nodes)
    )


def check(pod: Fields, wanted: Sequence[Wish], choice: PlacementChoice, nodes: Sequence[NodeFacts]) -> None:
    """Refuse what the chosen flavor does not see to: labels of nodes, and taints that it does not tolerate."""
    flavor, capacity = choice.flavor, choice.capacity or ON_DEMAND
    for wish in wanted:
        if choice.problem is not None:
            pod.notes.drop(wish.path, "The flavor that you choose says on which nodes it runs.")
        elif flavor is None:
            pod.notes.refuse(
                wish.path, "Only a flavor says on which nodes a run may land; a run without GPUs has none."
            )
        elif not _implied(wish, flavor, capacity, nodes):
            pod.notes.refuse(wish.path, f"Flavor {flavor.name} ({capacity}) does not ask for it: {wish.key}.")
    tolerated = tolerations(flavor, capacity)
    for item in pod.items("tolerations"):
        toleration = {name: item.rest.pop(name) for name in TOLERATION if name in item.rest}
        if choice.problem is not None and toleration.get("key"):
            pod.notes.drop(item.path, "The flavor that you choose brings its tolerations.")
        elif not any(_covers(known, toleration) for known in tolerated):
            name = f"Flavor {flavor.name}" if flavor else "A run without a flavor"
            pod.notes.refuse(item.path, f"{name} does not tolerate {toleration.get('key') or 'every taint'}.")


def _covers(known: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Whether the portal's toleration is for the taint that the manifest's is for."""
    if not asked.get("key") or known.get("key") != asked.get("key"):
        return False
    return known.get("operator") == "Exists" or known.get("value") == asked.get("value")
