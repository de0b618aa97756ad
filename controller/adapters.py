"""What the controller needs to know of a kind of workload. A new kind is a new app that registers one of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from cluster.kinds import ObjectRef, ResourceKind
from controller.decide import Plan
from controller.observation import Observation
from controller.podspec import ManifestSet
from controller.specs import ContainerSpec
from workloads.models import Workload
from workloads.placement import Placement


class WorkloadAdapter(Protocol):
    """Translates one kind of workload; every method but `settled` is free of side effects, and all of cluster calls."""

    kind: str
    """`Workload.kind` of this adapter's rows, and the value of the kind label."""
    noun: str
    """What people call it in a sentence."""
    primaries: tuple[ResourceKind, ...]
    """Kinds that the one object which owns all others may be of; those of no core group only where they are served."""
    companions: tuple[ResourceKind, ...]
    """Kinds of objects beside the primary that say how it fares, such as a scaler; none is to be served everywhere."""
    makers: tuple[ResourceKind, ...]
    """Kinds of objects between the primary and its pods, which make these also where the primary has gone; a primary
    that is made again adopts them."""
    ends: bool
    """Whether it finishes by itself; what does not is made anew when somebody deletes its object."""

    def object_name(self, workload: Workload, *, attempt: int) -> str:
        """Deterministic name of the primary object, so that a repeated create meets the first one."""
        ...

    def primary_of(self, workload: Workload) -> ResourceKind:
        """Of which kind the primary of its next attempt is."""
        ...

    def asked(self, workload: Workload) -> ContainerSpec:
        """What it asks for now."""
        ...

    def manifests(self, workload: Workload, placement: Placement) -> ManifestSet:
        """The objects to be; the primary first, the others owned by it."""
        ...

    def meanwhile(self, workload: Workload, placement: Placement, *, lost: bool) -> ManifestSet | None:
        """The objects to be while a change waits for room on top: as they were, with what of it needs none.

        None where all of it waits, unless the primary is `lost` and has to be made again.
        """
        ...

    def companion_refs(self, workload: Workload, *, object_name: str) -> Sequence[ObjectRef]:
        """The companions that the attempt whose primary has this name may have; those not there are left out."""
        ...

    def surge_units(self, workload: Workload, primary: Mapping[str, Any]) -> int:
        """Units that bringing a change to the running pods of `primary` needs on top of the claim, while it lasts."""
        ...

    def takes_over(self, workload: Workload, pod: Mapping[str, Any]) -> bool:
        """Whether what a primary makes that is made now takes over this pod, which has no controller."""
        ...

    def live_patch(self, workload: Workload) -> Mapping[str, Any] | None:
        """Merge patch that brings a running attempt's primary up to date; None where all manifests are applied.

        Empty where there is nothing that may change.
        """
        ...

    def returns(self, workload: Workload) -> bool:
        """Whether an older version of it takes over where the newest cannot start, as `settled` brings about."""
        ...

    def retries(self, workload: Workload, ended: Observation) -> bool:
        """Whether another attempt may follow this end, by the rules that the workload brings."""
        ...

    def observe(
        self,
        primary: Mapping[str, Any] | None,
        pods: Sequence[Mapping[str, Any]],
        events: Sequence[Mapping[str, Any]],
        companions: Sequence[Mapping[str, Any]] = (),
    ) -> Observation:
        """What the raw objects mean; `companions` are those of `companion_refs` that are there."""
        ...

    def adjustments(
        self,
        workload: Workload,
        companions: Sequence[Mapping[str, Any]],
        observation: Observation,
        plan: Plan,
    ) -> Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """Merge patches of companions that are to be steered: each with the object that it changes."""
        ...

    def settled(
        self, workload: Workload, observation: Observation | None, plan: Plan, now: datetime
    ) -> float | None:
        """The kind's own rows, brought up to date with what was seen and done, in the transaction that records both.

        Seconds until it wants another look at the latest; None for no wish. This one may write, and make the workload
        due again by changing its generation.
        """
        ...


_registry: dict[str, WorkloadAdapter] = {}


def register(adapter: WorkloadAdapter) -> None:
    """Called from the `ready` of the app that owns the kind."""
    if adapter.kind in _registry and type(_registry[adapter.kind]) is not type(adapter):
        raise ValueError(f"Two adapters want the kind {adapter.kind}.")
    _registry[adapter.kind] = adapter


def adapter_for(kind: str) -> WorkloadAdapter:
    """The adapter of a kind; KeyError for one that no installed app owns."""
    return _registry[kind]


def adapters() -> list[WorkloadAdapter]:
    return list(_registry.values())
