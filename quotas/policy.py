"""Who may start, and why not: one pure judgement used by admission, preview and the waiting card alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from workloads.placement import FlavorFacts, NodeFacts, largest_block, matches
from workloads.states import Reason


class Outcome(StrEnum):
    ADMIT = "admit"
    WAIT = "wait"
    NEVER = "never"


@dataclass(frozen=True)
class Demand:
    """What a workload asks for: `replicas` pods of `units_each` units of the flavor."""

    team: str
    flavor: FlavorFacts | None
    capacity_type: str
    units_each: int
    replicas: int
    noun: str = "run"

    @property
    def units(self) -> int:
        return self.units_each * self.replicas


@dataclass(frozen=True)
class QuotaFacts:
    nominal: int
    used: int


@dataclass(frozen=True)
class Waiter:
    """A workload that is before this one in the queue of the same quota."""

    public_id: str
    units: int


@dataclass(frozen=True)
class Supply:
    """Everything that a judgement may look at, frozen."""

    quota: QuotaFacts | None
    nodes: Sequence[NodeFacts]
    ahead: Sequence[Waiter] = ()


@dataclass(frozen=True)
class Evidence:
    fact: str
    value: int
    unit: str


@dataclass(frozen=True)
class Judgement:
    outcome: Outcome
    reason: Reason
    message: str
    evidence: tuple[Evidence, ...] = ()
    field: str = ""

    @property
    def admitted(self) -> bool:
        return self.outcome is Outcome.ADMIT


def judge(demand: Demand, supply: Supply) -> Judgement:
    """Admit, wait with the reason and its numbers, or never; deterministic in its arguments."""
    if demand.units == 0 or demand.flavor is None:
        return Judgement(Outcome.ADMIT, Reason.CREATING, f"This {demand.noun} asks for no GPU.")
    return (
        _never(demand, demand.flavor, supply)
        or _wait(demand, demand.flavor, supply)
        or _admit(demand, supply)
    )


def _never(demand: Demand, flavor: FlavorFacts, supply: Supply) -> Judgement | None:
    what = f"{flavor.name} ({demand.capacity_type})"
    if demand.capacity_type not in flavor.capacity:
        offered = ", ".join(sorted(flavor.capacity)) or "none"
        message = f"Flavor {flavor.name} has no capacity type {demand.capacity_type}; it has: {offered}."
        return Judgement(Outcome.NEVER, Reason.NO_MATCHING_FLAVOR, message, field="capacity")
    if supply.quota is None:
        message = f"Team {demand.team} has no quota for {what}."
        return Judgement(Outcome.NEVER, Reason.NO_MATCHING_FLAVOR, message, field="flavor")
    block = largest_block(flavor, demand.capacity_type, supply.nodes)
    if demand.units_each <= block:
        return None
    evidence = (Evidence("largest_block", block, flavor.name),)
    message = f"No node can hold {demand.units_each} {what} in one pod. {what_exists(flavor, supply.nodes)}"
    return Judgement(Outcome.NEVER, Reason.NO_MATCHING_FLAVOR, message, evidence, field="gpus_per_replica")


def what_exists(flavor: FlavorFacts, nodes: Sequence[NodeFacts]) -> str:
    """A sentence with the blocks of this flavor that nodes offer, or could be provisioned to offer."""
    parts = []
    for capacity_type in sorted(flavor.capacity):
        blocks = [node.allocatable[flavor.resource] for node in nodes if matches(flavor, capacity_type, node)]
        parts += [
            f"{blocks.count(size)} with {size} {flavor.name} ({capacity_type})"
            for size in sorted(set(blocks), reverse=True)
        ]
        declared = flavor.declared_block(capacity_type)
        if declared:
            parts.append(f"up to {declared} per new node ({capacity_type})")
    return f"Nodes that exist: {', '.join(parts)}." if parts else f"No node offers {flavor.name}."


def _wait(demand: Demand, flavor: FlavorFacts, supply: Supply) -> Judgement | None:
    quota = supply.quota
    if quota is None:
        return None
    what = f"{flavor.name} ({demand.capacity_type})"
    evidence = (
        Evidence("nominal", quota.nominal, flavor.name),
        Evidence("used", quota.used, flavor.name),
        Evidence("requested", demand.units, flavor.name),
        Evidence("ahead", len(supply.ahead), "workloads"),
    )
    if demand.units > quota.nominal:
        message = (
            f"This {demand.noun} needs {demand.units} {what}; the quota of team {demand.team} is {quota.nominal}. "
            f"Ask for more quota or for fewer GPUs."
        )
        return Judgement(Outcome.WAIT, Reason.EXCEEDS_MAX_QUOTA, message, evidence)
    uses = f"Team {demand.team} uses {quota.used} of {quota.nominal} {what}"
    if quota.used + demand.units > quota.nominal:
        message = f"{uses}; this {demand.noun} needs {demand.units}."
        return Judgement(Outcome.WAIT, Reason.WAITING_FOR_QUOTA, message, evidence)
    if supply.ahead:
        waiting = sum(waiter.units for waiter in supply.ahead)
        message = f"{uses}; {len(supply.ahead)} before this {demand.noun} in the queue need {waiting}."
        return Judgement(Outcome.WAIT, Reason.WAITING_FOR_QUOTA, message, evidence)
    return None


def _admit(demand: Demand, supply: Supply) -> Judgement:
    used = supply.quota.used if supply.quota else 0
    nominal = supply.quota.nominal if supply.quota else 0
    flavor = demand.flavor.name if demand.flavor else ""
    message = (
        f"Team {demand.team} will use {used + demand.units} of {nominal} {flavor} ({demand.capacity_type})."
    )
    return Judgement(Outcome.ADMIT, Reason.CREATING, message, (Evidence("used", used, flavor),))
