"""Keeping the pods of a gang together: near each other, placed by one scheduler at once, and out of a drain's way."""

from __future__ import annotations

from collections.abc import Mapping

from cluster import kinds
from cluster.labels import ATTEMPT
from jobs.kinds import TRAIN_JOB
from jobs.specs import TrainingRunSpec
from workloads.placement import SPOT, Placement
from workloads.podspec import pod_template
from workloads.podspec.pod_template import Manifest

NEAR: Mapping[str, str] = {
    "same-node": "kubernetes.io/hostname",
    "same-zone": "topology.kubernetes.io/zone",
}
"""Label of nodes by the value of `topology`."""
SCHEDULERS: Mapping[str, str] = {"volcano": "volcano", "coscheduling": "scheduler-plugins-scheduler"}
"""Names under which the schedulers' own charts run them."""
VOLCANO_ANNOTATION = "scheduling.k8s.io/group-name"
COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"


def scheduled_together(spec: TrainingRunSpec, placement: Placement) -> bool:
    """Whether a gang scheduler places its pods. Those of a TrainJob are their runtime's to schedule."""
    return bool(placement.gang_scheduler) and spec.gang and spec.pods > 1 and spec.kind != TRAIN_JOB


def marked(template: Manifest, spec: TrainingRunSpec, placement: Placement) -> Manifest:
    """The pod template with what makes it one of its group."""
    if not scheduled_together(spec, placement):
        return template
    metadata, name = template["metadata"], placement.object_name
    if placement.gang_scheduler == "volcano":
        marks = {"annotations": {**metadata["annotations"], VOLCANO_ANNOTATION: name}}
    else:
        marks = {"labels": {**metadata["labels"], COSCHEDULING_LABEL: name}}
    pod = {**template["spec"], "schedulerName": SCHEDULERS[placement.gang_scheduler]}
    return {"metadata": {**metadata, **marks}, "spec": pod}


def group(spec: TrainingRunSpec, placement: Placement, *, made_last: int = 0) -> list[Manifest]:
    """The PodGroup: none of the pods is bound before all that are needed can be.

    `made_last` of them do not exist before the others run, so that these cannot wait for them.

    It has the name that the training operator would give its own, so that there are never two.
    """
    if not scheduled_together(spec, placement):
        return []
    kind = kinds.POD_GROUPS[placement.gang_scheduler]
    body: Manifest = {"minMember": needed(spec) - made_last}
    if placement.gang_scheduler == "volcano" and placement.priority_class:
        body["priorityClassName"] = placement.priority_class
    made = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": pod_template.metadata(placement.object_name, spec, placement),
        "spec": body,
    }
    return [made]


def budget(spec: TrainingRunSpec, placement: Placement) -> list[Manifest]:
    """The PodDisruptionBudget by which a drain waits for the end of the run instead of costing it work.

    Not on spot: there the node goes anyway, and a pod that is not evicted in time gets no chance to write a last
    checkpoint. The number is a whole one, because these pods' owners have no `scale` that the API server could ask for
    a share; a pod that is not healthy may be evicted all the same.
    """
    if not spec.gpus_per_replica or placement.capacity_type == SPOT:
        return []
    own = {**pod_template.workload_selector(placement), ATTEMPT: str(placement.attempt)}
    made = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": pod_template.metadata(placement.object_name, spec, placement),
        "spec": {
            "minAvailable": needed(spec),
            "selector": {"matchLabels": own},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
    return [made]


def needed(spec: TrainingRunSpec) -> int:
    """Pods without which it cannot go on."""
    return spec.elastic.min_replicas if spec.elastic else spec.pods
