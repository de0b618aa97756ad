"""An endpoint, as the controller sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from cluster import kinds
from cluster.kinds import ObjectRef, ResourceKind
from cluster.names import object_name
from controller.decide import Plan
from controller.observation import Observation
from controller.podspec import ManifestSet
from controller.podstatus import revision_of
from inference.manifests import build_endpoint
from inference.models import Endpoint, EndpointRevision
from inference.settling import settle, way_back
from inference.specs import SURGE
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
        revision = _to_tell(workload)
        spec = revision.parsed
        return build_endpoint(
            spec, placement, replicas=spec.min_replicas, revision=revision.pods_of, strategy=revision.strategy
        )

    def companion_refs(self, workload: Workload, *, object_name: str) -> tuple[ObjectRef, ...]:
        """None: its number of replicas is fixed."""
        return ()

    def surge_units(self, workload: Workload, primary: Mapping[str, Any]) -> int:
        """One pod more, as `maxSurge: 1` asks for; nothing where the pods stay those that there are."""
        revision = _to_tell(workload)
        template = primary["spec"].get("template", {}).get("metadata", {})
        if revision.strategy != SURGE or revision.pods_of == revision_of(template):
            return 0
        return revision.parsed.gpus_per_replica

    def live_patch(self, workload: Workload) -> None:
        """A new revision is a rollout of the same Deployment: all manifests are applied."""

    def returns(self, workload: Workload) -> bool:
        return way_back(Endpoint.objects.get(workload=workload)) is not None

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

    def settled(
        self, workload: Workload, observation: Observation | None, plan: Plan, now: datetime
    ) -> float | None:
        return settle(workload, observation, plan, now)


def _to_tell(workload: Workload) -> EndpointRevision:
    return Endpoint.objects.get(workload=workload).to_tell
