"""A training run, as the controller sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cluster import kinds
from cluster.names import object_name
from controller.observation import Observation
from controller.podspec import ManifestSet
from foundation.models import PlatformSettings
from jobs.manifests import active_deadline_seconds, build_training_run
from jobs.models import TrainingRun
from jobs.specs import TrainingRunSpec
from jobs.status import observe_training_run
from workloads.models import Workload
from workloads.placement import Placement

KIND = "training-run"
NOUN = "run"


class TrainingRunAdapter:
    kind = KIND
    noun = NOUN
    primary = kinds.JOB
    suspend_path: tuple[str, ...] | None = ("spec", "suspend")
    ends = True

    def object_name(self, workload: Workload, *, attempt: int) -> str:
        return object_name(workload_name=workload.name, short_id=workload.short_id, attempt=attempt)

    def manifests(self, workload: Workload, placement: Placement) -> ManifestSet:
        return build_training_run(_spec(workload), placement)

    def surge_units(self, workload: Workload) -> int:
        return 0

    def live_patch(self, workload: Workload) -> Mapping[str, Any]:
        """Of a Job that runs only the deadline may change; its pod template never."""
        grace = PlatformSettings.current().grace_seconds
        deadline = active_deadline_seconds(_spec(workload).time_limit_seconds, grace)
        return {"spec": {"activeDeadlineSeconds": deadline}}

    def observe(
        self,
        primary: Mapping[str, Any] | None,
        pods: Sequence[Mapping[str, Any]],
        events: Sequence[Mapping[str, Any]],
    ) -> Observation:
        return observe_training_run(primary, pods, events)


def _spec(workload: Workload) -> TrainingRunSpec:
    return TrainingRun.objects.get(workload=workload).parsed
