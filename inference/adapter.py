"""An endpoint, as the controller sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from typing_extensions import override

from cluster import kinds
from cluster.kinds import ObjectRef
from cluster.names import object_name
from controller.reconcile.adapters import Raw, WorkloadAdapter
from controller.reconcile.decide import Action, Plan
from inference.autoscaling.platform import border_of, engine, scaler_platform
from inference.autoscaling.sampling import follow_size, sample
from inference.autoscaling.scalers import AUTOSCALER, KEDA, query_patch, scaler_refs, steering, steering_patch
from inference.changes import size_of
from inference.manifests import build_endpoint
from inference.models import Endpoint, EndpointRevision
from inference.revisions.record import settle, way_back
from inference.specs import KIND, SURGE, EndpointSpec
from inference.status import observe_endpoint
from tenancy.namespace_manifests import priority_class
from workloads.kinds import WorkloadKind
from workloads.models import Workload
from workloads.placement import Placement
from workloads.pods.observation import Observation
from workloads.pods.pod_status import revision_of
from workloads.podspec.pod_template import ManifestSet
from workloads.podspec.specs import ContainerSpec
from workloads.services import change_generation
from workloads.states import Reason
from workloads.watches import Followed, followed_kinds


class EndpointAdapter(WorkloadAdapter):
    kind = WorkloadKind(
        name=KIND,
        noun="endpoint",
        page_path="endpoints",
        resource_path="endpoints",
        ends=False,
        takes_requests=True,
        replicas_field="max_replicas",
    )
    primaries = (kinds.DEPLOYMENT,)
    companions = (kinds.SCALED_OBJECT, kinds.AUTOSCALER)
    makers = (kinds.REPLICA_SET,)

    @override
    def object_name(self, workload: Workload, *, attempt: int) -> str:
        """One name for life: revisions and restarts are rollouts of the same Deployment."""
        return object_name(workload_name=workload.name, short_id=workload.short_id, attempt=0)

    @override
    def asked(self, workload: Workload) -> ContainerSpec:
        return Endpoint.objects.get(workload=workload).parsed

    @override
    def manifests(self, workload: Workload, placement: Placement) -> ManifestSet:
        endpoint = Endpoint.objects.get(workload=workload)
        revision = endpoint.to_tell
        return manifests_by(endpoint, revision, endpoint.spec_of(revision), placement)

    @override
    def meanwhile(self, workload: Workload, placement: Placement, *, lost: bool) -> ManifestSet | None:
        """The pods that it has, and as many as are wanted now: a size needs no room for a new pod beside an old one."""
        endpoint = Endpoint.objects.get(workload=workload)
        untold = endpoint.untold
        resized = any(size_of(revision.spec) != size_of(untold[0].spec) for revision in untold)
        # An autoscaler comes and goes as the endpoint is held or not, which no revision says.
        may_be_held = engine() == AUTOSCALER and endpoint.parsed.scales
        if not resized and not may_be_held and not lost:
            return None
        revision = endpoint.applied
        return manifests_by(endpoint, revision, endpoint.spec_of(revision), placement)

    @override
    def companion_refs(self, workload: Workload, *, object_name: str) -> tuple[ObjectRef, ...]:
        """Its scaler, where it has one, or may still have an earlier one."""
        endpoint = Endpoint.objects.get(workload=workload)
        if not any(revision.parsed.scales for revision in endpoint.untold):
            return ()
        return scaler_refs(workload.team.namespace_name, object_name, engine())

    @override
    def surge_units(self, workload: Workload, primary: Raw) -> int | None:
        """One pod more, as `maxSurge: 1` asks for; None where the pods stay those that there are, or are none."""
        revision = _to_tell(workload)
        template = primary["spec"].get("template", {}).get("metadata", {})
        stays = revision.pods_of == revision_of(template) or primary["spec"].get("replicas") == 0
        if revision.strategy != SURGE or stays:
            return None
        return revision.parsed.gpus_per_replica

    @override
    def takes_over(self, workload: Workload, pod: Raw) -> bool:
        """Only pods of its own template: a ReplicaSet selects by the hash of that."""
        return _to_tell(workload).pods_of == revision_of(pod["metadata"])

    @override
    def live_patch(self, workload: Workload) -> None:
        """A new revision is a rollout of the same Deployment: all manifests are applied."""

    @override
    def returns(self, workload: Workload) -> bool:
        return way_back(Endpoint.objects.get(workload=workload)) is not None

    @override
    def observe(
        self, primary: Raw | None, pods: Sequence[Raw], events: Sequence[Raw], companions: Sequence[Raw] = ()
    ) -> Observation:
        return observe_endpoint(primary, pods, events, companions)

    @override
    def adjustments(
        self, workload: Workload, companions: Sequence[Raw], observation: Observation, plan: Plan
    ) -> list[tuple[Raw, Raw]]:
        """The annotations of its ScaledObject: whether it is held, and whether it is to be up whatever its metric says;
        and its query, where that is not held to the team's namespace yet.

        What wakes or loads has no traffic yet, and must not be taken down for that.
        """
        endpoint = Endpoint.objects.get(workload=workload)
        spec = endpoint.spec_of(endpoint.to_tell)
        loads = observation.desired_replicas > 0 and observation.ready_replicas == 0
        wanted = steering(
            paused=endpoint.is_held(spec),
            paused_replicas=endpoint.held_at(spec),
            wakes=spec.scale_to_zero and (plan.reason is Reason.WAKING or loads),
        )
        border = border_of(workload.team.namespace_name)
        return [
            (companion, patch)
            for companion in companions
            if (patch := steering_patch(companion, wanted) | query_patch(companion, spec.scaling, border))
        ]

    @override
    def record(
        self, workload: Workload, observation: Observation | None, plan: Plan, now: datetime
    ) -> float | None:
        sample(workload, observation, now)
        follow_size(workload, observation, now)
        self._offered_again(workload, observation, plan, now)
        return settle(workload, observation, plan, now)

    def _offered_again(
        self, workload: Workload, observation: Observation | None, plan: Plan, now: datetime
    ) -> None:
        """Apply an endpoint that nothing could scale again once KEDA is there."""
        facts = observation.scaler if observation is not None else None
        if facts is None or not facts.unscaled or Action.APPLY in plan.actions:
            return
        if engine() == KEDA and workload.generation == workload.observed_generation:
            change_generation(workload, now=now)


def manifests_by(
    endpoint: Endpoint,
    revision: EndpointRevision,
    spec: EndpointSpec,
    placement: Placement,
    *,
    followed: Followed = followed_kinds,
) -> ManifestSet:
    """The objects that this revision asks for, with the `spec` that the cluster gets by it."""
    platform = scaler_platform(endpoint, spec, followed=followed)
    # The priority of the revision, not of the row: the pods of an older one that goes on must stay as they are.
    own = replace(placement, priority_class=priority_class(spec.priority, serves=True))
    return build_endpoint(
        spec,
        own,
        replicas=spec.min_replicas if platform.held_at is None else platform.held_at,
        revision=revision.pods_of,
        strategy=revision.strategy,
        platform=platform,
    )


def _to_tell(workload: Workload) -> EndpointRevision:
    return Endpoint.objects.get(workload=workload).to_tell
