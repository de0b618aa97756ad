"""A training run, as the controller sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from typing_extensions import override

from cluster.kinds import ResourceKind
from controller.reconcile.adapters import Raw, WorkloadAdapter
from foundation.models import PlatformSettings
from jobs import kinds
from jobs.manifests import active_deadline_seconds, build_training_run, kept_fields
from jobs.models import TrainingRun
from jobs.status import observe_training_run
from workloads.kinds import WorkloadKind
from workloads.models import Workload
from workloads.placement import Placement
from workloads.pods.observation import Observation
from workloads.podspec.pod_template import ManifestSet
from workloads.podspec.specs import ContainerSpec

KIND = "training-run"


class TrainingRunAdapter(WorkloadAdapter):
    kind = WorkloadKind(
        name=KIND, noun="run", page_path="runs", resource_path="training-runs", ends=True, tracks=True
    )
    primaries = kinds.OBJECTS

    @override
    def primary_of(self, workload: Workload) -> ResourceKind:
        return _run(workload).primary

    @override
    def asked(self, workload: Workload) -> ContainerSpec:
        return _run(workload).parsed

    @override
    def manifests(self, workload: Workload, placement: Placement) -> ManifestSet:
        run = _run(workload)
        return build_training_run(run.parsed, placement, run.primary.address)

    @override
    def live_patch(self, workload: Workload) -> Mapping[str, Any]:
        """At most the deadline of a run's object may change; its pod template never."""
        spec = _run(workload).parsed
        path = kinds.KINDS[spec.kind].deadline_path
        if path is None:
            return {}
        grace = PlatformSettings.current().grace_seconds
        patch: Any = active_deadline_seconds(spec.time_limit_seconds, grace)
        for key in reversed(path):
            patch = {key: patch}
        return cast("Mapping[str, Any]", patch)

    @override
    def set_back(self, workload: Workload, placement: Placement, primary: Raw) -> tuple[Raw, str] | None:
        return kept_fields.set_back(self.manifests(workload, placement), primary)

    @override
    def retries(self, workload: Workload, ended: Observation) -> bool:
        """Where the run names exit codes that are worth another try, those alone are; else every end that may differ next time."""
        worth = _run(workload).parsed.retry_exit_codes
        return ended.exit_code in worth if worth else ended.retryable

    @override
    def observe(
        self, primary: Raw | None, pods: Sequence[Raw], events: Sequence[Raw], companions: Sequence[Raw] = ()
    ) -> Observation:
        return observe_training_run(primary, pods, events)


def _run(workload: Workload) -> TrainingRun:
    return workload.training_run
