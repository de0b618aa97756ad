"""What the controller needs to know of a kind of workload. A new kind is a new app that registers one of these."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from cluster import names
from cluster.kinds import ObjectRef, ResourceKind
from controller.reconcile.decide import Plan
from workloads.kinds import UnknownKind, WorkloadKind, register_kind
from workloads.models import Workload
from workloads.placement import Placement
from workloads.pods.observation import Observation
from workloads.podspec.pod_template import ManifestSet
from workloads.podspec.specs import ContainerSpec

Raw = Mapping[str, Any]
"""An object as the API server answered it."""


class WorkloadAdapter(ABC):
    """Translates one kind of workload; every method but `record` is free of side effects, and all of cluster calls.

    A kind says what it is, what it asks for, which objects it becomes and what these mean. Everything else is a
    capability: a kind that lacks one leaves the method as it is here.
    """

    kind: ClassVar[WorkloadKind]
    primaries: ClassVar[tuple[ResourceKind, ...]]
    """Kinds that the one object which owns all others may be of; those of no core group only where they are served."""
    companions: ClassVar[tuple[ResourceKind, ...]] = ()
    """Kinds of objects beside the primary that say how it fares, such as a scaler; none is to be served everywhere."""
    makers: ClassVar[tuple[ResourceKind, ...]] = ()
    """Kinds of objects between the primary and its pods, which make these also where the primary has gone; a primary
    that is made again adopts them."""

    # --- what every kind has

    @abstractmethod
    def asked(self, workload: Workload) -> ContainerSpec:
        """What it asks for now."""

    @abstractmethod
    def manifests(self, workload: Workload, placement: Placement) -> ManifestSet:
        """The objects to be; the primary first, the others owned by it."""

    @abstractmethod
    def observe(
        self, primary: Raw | None, pods: Sequence[Raw], events: Sequence[Raw], companions: Sequence[Raw] = ()
    ) -> Observation:
        """What the raw objects mean; `companions` are those of `companion_refs` that are there."""

    def object_name(self, workload: Workload, *, attempt: int) -> str:
        """Deterministic name of the primary object, so that a repeated create meets the first one: another one for
        each attempt.
        """
        return names.object_name(workload_name=workload.name, short_id=workload.short_id, attempt=attempt)

    def primary_of(self, workload: Workload) -> ResourceKind:
        """Of which kind the primary of its next attempt is: of the first."""
        return self.primaries[0]

    # --- objects beside the primary

    def companion_refs(self, workload: Workload, *, object_name: str) -> Sequence[ObjectRef]:
        """The companions that the attempt whose primary has this name may have; those not there are left out."""
        return ()

    def adjustments(
        self, workload: Workload, companions: Sequence[Raw], observation: Observation, plan: Plan
    ) -> Sequence[tuple[Raw, Raw]]:
        """Merge patches of companions that are to be steered: each with the object that it changes."""
        return ()

    def takes_over(self, workload: Workload, pod: Raw) -> bool:
        """Whether what a primary makes that is made now takes over this pod, which has no controller."""
        return False

    # --- changes while it runs

    def live_patch(self, workload: Workload) -> Raw | None:
        """Merge patch that brings a running attempt's primary up to date; None where all manifests are applied.

        Empty where there is nothing that may change, as of a kind whose pods stay what they were made.
        """
        return {}

    def meanwhile(self, workload: Workload, placement: Placement, *, lost: bool) -> ManifestSet | None:
        """The objects to be while a change waits for room on top: as they were, with what of it needs none.

        None where all of it waits, unless the primary is `lost` and has to be made again.
        """
        return None

    def surge_units(self, workload: Workload, primary: Raw) -> int:
        """Units that bringing a change to the running pods of `primary` needs on top of the claim, while it lasts."""
        return 0

    # --- ends

    def retries(self, workload: Workload, ended: Observation) -> bool:
        """Whether another attempt may follow this end, by the rules that the workload brings: where it may help."""
        return ended.retryable

    def returns(self, workload: Workload) -> bool:
        """Whether an older version of it takes over where the newest cannot start, as `record` brings about."""
        return False

    # --- rows of its own

    def record(
        self, workload: Workload, observation: Observation | None, plan: Plan, now: datetime
    ) -> float | None:
        """The kind's own rows, brought up to date with what was seen and done, in the transaction that records both.

        Seconds until it wants another look at the latest; None for no wish. This one may write, and make the workload
        due again by changing its generation.
        """
        return None


_registry: dict[str, WorkloadAdapter] = {}


def register(adapter: WorkloadAdapter) -> None:
    """Called from the `ready` of the app that owns the kind, which is known to everybody from then on."""
    register_kind(adapter.kind)
    known = _registry.setdefault(adapter.kind.name, adapter)
    if type(known) is not type(adapter):
        raise ValueError(f"Two adapters want the kind {adapter.kind.name}.")


def adapter_for(kind: str) -> WorkloadAdapter:
    """The adapter of a kind; UnknownKind for one that no installed app owns."""
    if kind not in _registry:
        raise UnknownKind(kind)
    return _registry[kind]


def adapters() -> list[WorkloadAdapter]:
    return list(_registry.values())
