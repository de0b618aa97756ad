"""Runs of kind `pytorchjob` and `tfjob`: objects of the Kubeflow training operator, kubeflow.org/v1."""

from __future__ import annotations

import copy
from collections.abc import Mapping

from jobs.manifests import parts
from jobs.specs import ReplicaRole, TrainingRunSpec
from workloads.placement import Placement
from workloads.podspec import pod_template
from workloads.podspec.pod_template import Manifest

API_VERSION = "kubeflow.org/v1"
PYTORCH_CONTAINER = "pytorch"
TENSORFLOW_CONTAINER = "tensorflow"
"""Names by which the operator finds the container to which it gives its environment."""


def build_pytorch(spec: TrainingRunSpec, placement: Placement) -> Manifest:
    """The PyTorchJob: a master and workers, or workers alone where the run is elastic.

    The operator sets torchrun's `PET_*`, so that the command needs none of its options.
    """
    template = parts.pod(spec, placement, container=PYTORCH_CONTAINER)
    body: Manifest = {}
    if spec.elastic is not None:
        body["elasticPolicy"] = {
            "minReplicas": spec.elastic.min_replicas,
            "maxReplicas": spec.elastic.max_replicas,
            "rdzvBackend": "c10d",
        }
        body["pytorchReplicaSpecs"] = {"Worker": replica(spec.replicas, template)}
    else:
        body["pytorchReplicaSpecs"] = {"Master": replica(1, template)}
        if spec.replicas > 1:
            body["pytorchReplicaSpecs"]["Worker"] = replica(spec.replicas - 1, template)
    processes = _processes(spec)
    if processes is not None:
        body["nprocPerNode"] = processes
    return run_object("PyTorchJob", spec, placement, body)


def _processes(spec: TrainingRunSpec) -> str | None:
    """The operator's own default lets torchrun count the GPUs, and without them the node's processors."""
    if spec.nproc_per_node is not None:
        return str(spec.nproc_per_node)
    return None if spec.gpus_per_replica else "1"


def build_tensorflow(spec: TrainingRunSpec, placement: Placement) -> Manifest:
    """The TFJob: workers, and the roles that the request adds. The operator tells each of the others by TF_CONFIG."""
    workers = {"Worker": replica(spec.replicas, parts.pod(spec, placement, container=TENSORFLOW_CONTAINER))}
    others = roles(spec, placement, TENSORFLOW_CONTAINER)
    return run_object("TFJob", spec, placement, {"tfReplicaSpecs": {**others, **workers}})


def roles(spec: TrainingRunSpec, placement: Placement, container: str) -> dict[str, Manifest]:
    """The replica specs of all roles, by their replica type."""
    return {
        role.name: replica(role.replicas, _pod_of_role(spec, role, placement, container))
        for role in spec.all_roles
    }


def _pod_of_role(spec: TrainingRunSpec, role: ReplicaRole, placement: Placement, container: str) -> Manifest:
    return parts.pod(spec.of_role(role), placement, container=container)


def replica(count: int, template: Manifest) -> Manifest:
    """The pod's own restart policy would be overwritten by this one, with a warning."""
    own = copy.deepcopy(template)
    del own["spec"]["restartPolicy"]
    return {"replicas": count, "restartPolicy": "Never", "template": own}


def run_object(
    kind: str,
    spec: TrainingRunSpec,
    placement: Placement,
    body: Mapping[str, object],
    *,
    api_version: str = API_VERSION,
) -> Manifest:
    """The whole object.

    There is no backoffLimit: with `restartPolicy: Never` the first failed pod fails the job anyway, and a limit would
    make the operator delete the failed pod, with its exit code, before it says so. `cleanPodPolicy: Running` ends
    what is left of a gang, and keeps those that have ended.
    """
    policy = {"cleanPodPolicy": "Running", **parts.deadline(spec, placement)}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": pod_template.metadata(placement.object_name, spec, placement),
        "spec": {"runPolicy": policy, **body},
    }
