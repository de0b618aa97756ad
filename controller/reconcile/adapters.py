"""The interface between the controller and a kind of workload. A new kind is a new app that registers an adapter."""

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

    The abstract methods say what a kind asks for, which objects it becomes and what these mean. The others are
    optional capabilities: a kind that lacks one does not override the method.
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
        """The spec that the workload asks for now."""

    @abstractmethod
    def manifests(self, workload: Workload, placement: Placement) -> ManifestSet:
        """The desired objects; the primary first, the others owned by it."""

    @abstractmethod
    def observe(
        self, primary: Raw | None, pods: Sequence[Raw], events: Sequence[Raw], companions: Sequence[Raw] = ()
    ) -> Observation:
        """The observation of the raw objects; `companions` are those of `companion_refs` that exist."""

    def object_name(self, workload: Workload, *, attempt: int) -> str:
        """Deterministic name of the primary object, so that a repeated create finds the first object; different for
        each attempt.
        """
        return names.object_name(workload_name=workload.name, short_id=workload.short_id, attempt=attempt)

    def primary_of(self, workload: Workload) -> ResourceKind:
        """The kind of the next attempt's primary: by default the first of `primaries`."""
        return self.primaries[0]

    # --- objects beside the primary

    def companion_refs(self, workload: Workload, *, object_name: str) -> Sequence[ObjectRef]:
        """References to the companions that an attempt with this primary name may have, whether or not they exist."""
        return ()

    def adjustments(
        self, workload: Workload, companions: Sequence[Raw], observation: Observation, plan: Plan
    ) -> Sequence[tuple[Raw, Raw]]:
        """Merge patches for companions: pairs of the object and its patch."""
        return ()

    def takes_over(self, workload: Workload, pod: Raw) -> bool:
        """Whether a newly made primary's own controllers adopt this pod, which has no controller."""
        return False

    # --- changes while it runs

    def live_patch(self, workload: Workload) -> Raw | None:
        """Merge patch that brings a running attempt's primary up to date; None where all manifests are applied.

        Empty if nothing can change, as for a kind whose pods are immutable.
        """
        return {}

    def meanwhile(self, workload: Workload, placement: Placement, *, lost: bool) -> ManifestSet | None:
        """The desired objects while a change waits for surge room: as before, with the parts that need no room.

        None if the whole change waits, unless the primary is `lost` and must be made again.
        """
        return None

    def set_back(self, workload: Workload, placement: Placement, primary: Raw) -> tuple[Raw, str] | None:
        """Of a primary that is never applied again: a merge patch of what somebody else changed, and what to say of it."""
        return None

    def surge_units(self, workload: Workload, primary: Raw) -> int | None:
        """Units of the pod beyond the claim that rolling out a change to the running pods of `primary` needs; None where it
        needs none.
        """
        return None

    # --- ends

    def retries(self, workload: Workload, ended: Observation) -> bool:
        """Whether another attempt may follow this end; by default if the observation is retryable."""
        return ended.retryable

    def returns(self, workload: Workload) -> bool:
        """Whether `record` rolls back to an older version if the newest cannot start."""
        return False

    # --- rows of its own

    def record(
        self, workload: Workload, observation: Observation | None, plan: Plan, now: datetime
    ) -> float | None:
        """Update the kind's own rows from the observation and the plan, in the transaction that records both.

        Returns the latest seconds until it needs another look, or None. This method may write, and make the workload
        due again by changing its generation.
        """
        return None


_registry: dict[str, WorkloadAdapter] = {}


def register(adapter: WorkloadAdapter) -> None:
    """Register an adapter and its kind; called from the `ready` of the app that owns the kind."""
    register_kind(adapter.kind)
    known = _registry.setdefault(adapter.kind.name, adapter)
    if type(known) is not type(adapter):
        raise ValueError(f"Two adapters want the kind {adapter.kind.name}.")


def adapter_for(kind: str) -> WorkloadAdapter:
    """The adapter of a kind. Raises UnknownKind if no installed app owns it."""
    if kind not in _registry:
        raise UnknownKind(kind)
    return _registry[kind]


def adapters() -> list[WorkloadAdapter]:
    return list(_registry.values())
