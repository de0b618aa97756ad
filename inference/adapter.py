"""An endpoint, as the controller sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cluster import kinds
from cluster.kinds import ObjectRef, ResourceKind
from cluster.names import object_name
from controller.observation import Observation
from controller.podspec import ManifestSet
from inference.manifests import build_endpoint
from inference.models import Endpoint
from inference.specs import SURGE, EndpointSpec
from inference.status import observe_endpoint
from workloads.models import Workload
from workloads.placement import Placement

KIND = "endpoint"
NOUN = "endpoint"


class EndpointAdapter:
    kind = KIND
    noun = NOUN
    primaries: tuple[ResourceKind, ...] = (kinds.DEPLOYMENT,)
    companions: tuple[ResourceKind, ...] = (kinds.SCALED_OBJECT, kinds.AUTOSCALER)
    ends = False

    def object_name(self, workload: Workload, *, attempt: int) -> str:
        """One name for life: revisions and restarts are rollouts of the same Deployment."""
        return object_name(workload_name=workload.name, short_id=workload.short_id, attempt=0)

    def primary_of(self, workload: Workload) -> ResourceKind:
        return kinds.DEPLOYMENT

    def manifests(self, workload: Workload, placement: Placement) -> ManifestSet:
        spec = _spec(workload)
        return build_endpoint(spec, placement, replicas=spec.min_replicas)

    def companion_refs(self, workload: Workload, *, object_name: str) -> tuple[ObjectRef, ...]:
        """None: its number of replicas is fixed."""
        return ()

    def surge_units(self, workload: Workload) -> int:
        """One pod more, as `maxSurge: 1` asks for."""
        spec = _spec(workload)
        return spec.gpus_per_replica if spec.strategy == SURGE else 0

    def live_patch(self, workload: Workload) -> None:
        """A new revision is a rollout of the same Deployment: all manifests are applied."""

    def retries(self, workload: Workload, ended: Observation) -> bool:
        return ended.retryable

    def observe(
        self,
        primary: Mapping[str, Any] | None,
        pods: Sequence[Mapping[str, Any]],
        events: Sequence[Mapping[str, Any]],
        companions: Sequence[Mapping[str, Any]] = (),
    ) -> Observation:
        return observe_endpoint(primary, pods, events, companions)


def _spec(workload: Workload) -> EndpointSpec:
    return Endpoint.objects.get(workload=workload).parsed
