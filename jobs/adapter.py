"""A training run, as the controller sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from cluster.kinds import ObjectRef, ResourceKind
from cluster.names import object_name
from controller.decide import Plan
from controller.observation import Observation
from controller.podspec import ManifestSet
from controller.specs import ContainerSpec
from foundation.models import PlatformSettings
from jobs import kinds
from jobs.manifests import active_deadline_seconds, build_training_run
from jobs.models import TrainingRun
from jobs.status import observe_training_run
from workloads.models import Workload
from workloads.placement import Placement

KIND = "training-run"
NOUN = "run"


class TrainingRunAdapter:
    kind = KIND
    noun = NOUN
    primaries = kinds.OBJECTS
    companions: tuple[ResourceKind, ...] = ()
    makers: tuple[ResourceKind, ...] = ()
    ends = True

    def object_name(self, workload: Workload, *, attempt: int) -> str:
        return object_name(workload_name=workload.name, short_id=workload.short_id, attempt=attempt)

    def primary_of(self, workload: Workload) -> ResourceKind:
        return _run(workload).primary

    def asked(self, workload: Workload) -> ContainerSpec:
        return _run(workload).parsed

    def manifests(self, workload: Workload, placement: Placement) -> ManifestSet:
        run = _run(workload)
        return build_training_run(run.parsed, placement, run.primary.address)

    def meanwhile(self, workload: Workload, placement: Placement, *, lost: bool) -> None:
        """No change of a run waits for room."""

    def companion_refs(self, workload: Workload, *, object_name: str) -> tuple[ObjectRef, ...]:
        return ()

    def surge_units(self, workload: Workload, primary: Mapping[str, Any]) -> int:
        return 0

    def takes_over(self, workload: Workload, pod: Mapping[str, Any]) -> bool:
        return False

    def live_patch(self, workload: Workload) -> Mapping[str, Any]:
        """Of a run's object only the deadline may change, if that; its pod template never."""
        spec = _run(workload).parsed
        path = kinds.KINDS[spec.kind].deadline_path
        if path is None:
            return {}
        grace = PlatformSettings.current().grace_seconds
        patch: Any = active_deadline_seconds(spec.time_limit_seconds, grace)
        for key in reversed(path):
            patch = {key: patch}
        return cast("Mapping[str, Any]", patch)

    def returns(self, workload: Workload) -> bool:
        return False

    def retries(self, workload: Workload, ended: Observation) -> bool:
        """With exit codes that are worth another try, those alone are; without, whatever may end otherwise next time."""
        worth = _run(workload).parsed.retry_exit_codes
        return ended.exit_code in worth if worth else ended.retryable

    def adjustments(
        self,
        workload: Workload,
        companions: Sequence[Mapping[str, Any]],
        observation: Observation,
        plan: Plan,
    ) -> tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...]:
        return ()

    def settled(self, workload: Workload, observation: Observation | None, plan: Plan, now: datetime) -> None:
        """A run has no rows that follow what is seen of it."""

    def observe(
        self,
        primary: Mapping[str, Any] | None,
        pods: Sequence[Mapping[str, Any]],
        events: Sequence[Mapping[str, Any]],
        companions: Sequence[Mapping[str, Any]] = (),
    ) -> Observation:
        return observe_training_run(primary, pods, events)


def _run(workload: Workload) -> TrainingRun:
    return workload.training_run
