"""A run of kind `job`: a Job of batch/v1, Indexed where it has several pods."""

from __future__ import annotations

from jobs.kinds import JOB
from jobs.manifests import parts
from jobs.specs import TrainingRunSpec
from workloads.placement import Placement
from workloads.podspec import pod_template
from workloads.podspec.pod_template import Manifest

CONTAINER_NAME = "main"
RENDEZVOUS_PORT = 29500
"""The port that torchrun listens on by default."""
INDEX = "batch.kubernetes.io/job-completion-index"
JOB_NAME = "batch.kubernetes.io/job-name"


def build(spec: TrainingRunSpec, placement: Placement) -> Manifest:
    """The Job.

    A pod is never replaced: `backoffLimit: 0` and `restartPolicy: Never`. Several pods are an Indexed Job, whose pods
    have numbers and names that stay. There is no podFailurePolicy: its Ignore rule would let the Job replace a
    disrupted pod behind the portal's back, without a new resume point, and its FailJob rule has nothing to add
    to a limit of 0. `podReplacementPolicy: Failed` keeps two pods of a Job from ever running at once.
    """
    name = placement.object_name
    several = spec.replicas > 1
    template = parts.pod(
        spec,
        placement,
        container=CONTAINER_NAME,
        env=_environment(spec, placement),
        subdomain=name if several else None,
    )
    indexed = {"completionMode": "Indexed"} if several else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": pod_template.metadata(name, spec, placement),
        "spec": {
            "backoffLimit": 0,
            "completions": spec.replicas,
            "parallelism": spec.replicas,
            "podReplacementPolicy": "Failed",
            "template": template,
            **indexed,
            **parts.deadline(spec, placement),
        },
    }


def rendezvous(spec: TrainingRunSpec, placement: Placement) -> list[Manifest]:
    """The headless Service that gives each pod the name `<job>-<index>.<job>`, from before it is ready.

    Operators make the Services of the other kinds themselves.
    """
    if spec.kind != JOB:
        return []
    name = placement.object_name
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": pod_template.metadata(name, spec, placement),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {JOB_NAME: name},
            "ports": [{"name": "rendezvous", "port": RENDEZVOUS_PORT}],
        },
    }
    return [service]


def _environment(spec: TrainingRunSpec, placement: Placement) -> list[Manifest]:
    """What torchrun takes as the defaults of its options (`PET_*`), and what most launchers look for.

    The command says how many processes run in a pod unless the request does, and with that ranks and the size of the
    world.
    """
    processes = (
        [] if spec.nproc_per_node is None else [_variable("PET_NPROC_PER_NODE", str(spec.nproc_per_node))]
    )
    if spec.replicas == 1:
        return processes
    name = placement.object_name
    first, port = f"{name}-0.{name}", str(RENDEZVOUS_PORT)
    index = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}
    return [
        _variable("MASTER_ADDR", first),
        _variable("MASTER_PORT", port),
        _variable("PET_MASTER_ADDR", first),
        _variable("PET_MASTER_PORT", port),
        _variable("PET_NNODES", str(spec.replicas)),
        {"name": "PET_NODE_RANK", "valueFrom": index},
        *processes,
    ]


def _variable(name: str, value: str) -> Manifest:
    return {"name": name, "value": value}
