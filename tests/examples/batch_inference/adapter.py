"""A batch, as the controller sees it."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import override

from cluster import kinds
from controller.reconcile.adapters import Raw, WorkloadAdapter
from tests.examples.batch_inference.manifests import build_batch
from tests.examples.batch_inference.models import BatchInference
from tests.examples.batch_inference.specs import KIND, BatchInferenceSpec
from tests.examples.batch_inference.status import observe_batch
from workloads.kinds import WorkloadKind
from workloads.models import Workload
from workloads.placement import Placement
from workloads.pods.observation import Observation
from workloads.podspec.pod_template import ManifestSet


class BatchInferenceAdapter(WorkloadAdapter):
    kind = WorkloadKind(
        name=KIND, noun="batch", page_path="batches", resource_path="batch-inferences", ends=True
    )
    primaries = (kinds.JOB,)

    @override
    def asked(self, workload: Workload) -> BatchInferenceSpec:
        return BatchInference.objects.get(workload=workload).parsed

    @override
    def manifests(self, workload: Workload, placement: Placement) -> ManifestSet:
        return build_batch(self.asked(workload), placement)

    @override
    def observe(
        self, primary: Raw | None, pods: Sequence[Raw], events: Sequence[Raw], companions: Sequence[Raw] = ()
    ) -> Observation:
        return observe_batch(primary, pods, events)
