"""A run of kind `trainjob`: a TrainJob of Trainer v2, which a training runtime of the cluster turns into a JobSet."""

from __future__ import annotations

from typing import Any

from jobs.manifests import parts
from jobs.specs import TrainingRunSpec
from workloads.placement import Placement
from workloads.podspec import pod_template
from workloads.podspec.pod_template import Manifest

API_VERSION = "trainer.kubeflow.org/v1alpha1"
API_GROUP = "trainer.kubeflow.org"
NODE = "node"
"""The replicated job, and the container in it, that every runtime trains in."""
PATCHER = "mlportal.dev/portal"
PATCHED = (
    "affinity",
    "imagePullSecrets",
    "securityContext",
    "serviceAccountName",
    "terminationGracePeriodSeconds",
    "tolerations",
    "volumes",
)
"""The fields of a pod that a TrainJob may set over its runtime; the others are the runtime's, such as the priority class."""


def build(spec: TrainingRunSpec, placement: Placement) -> Manifest:
    """The TrainJob. Volumes, placement and security reach its pods as a patch of the runtime's pod template.

    It has no deadline of its own, which could not follow a time limit that is extended: the field is immutable.
    """
    if spec.runtime_ref is None:
        raise ValueError(f"{spec.name} is a trainjob, but names no runtime")
    template = parts.pod(spec, placement, container=NODE)
    (container,) = template["spec"]["containers"]
    trainer: dict[str, Any] = {
        "image": container["image"],
        "numNodes": spec.replicas,
        "resourcesPerNode": container["resources"],
        **{key: container[key] for key in ("command", "args", "env") if key in container},
    }
    if spec.nproc_per_node is not None:
        trainer["numProcPerNode"] = spec.nproc_per_node
    return {
        "apiVersion": API_VERSION,
        "kind": "TrainJob",
        "metadata": pod_template.metadata(placement.object_name, spec, placement),
        "spec": {
            "runtimeRef": {
                "apiGroup": API_GROUP,
                "kind": spec.runtime_ref.kind,
                "name": spec.runtime_ref.name,
            },
            "trainer": trainer,
            "runtimePatches": [_patch(template, container)],
        },
    }


def _patch(template: Manifest, container: Manifest) -> Manifest:
    pod = template["spec"]
    patched = {key: pod[key] for key in PATCHED if key in pod}
    kept = {key: container[key] for key in ("name", "securityContext", "volumeMounts") if key in container}
    inside = {"metadata": template["metadata"], "spec": {**patched, "containers": [kept]}}
    job = {"name": NODE, "template": {"spec": {"template": inside}}}
    return {"manager": PATCHER, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}}}
