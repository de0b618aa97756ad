"""What the objects of all kinds of runs have in common."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.kinds import PYTORCH_JOB
from jobs.manifests import gang
from jobs.specs import TrainingRunSpec
from workloads.placement import Placement
from workloads.podspec import pod_template
from workloads.podspec.pod_template import ClaimMount, Manifest, PodParts

DEADLINE_SLACK_SECONDS = 3600
"""An object's clock also runs while its pods are Pending, which the portal's does not count."""


def pod(
    spec: TrainingRunSpec,
    placement: Placement,
    *,
    container: str,
    env: Sequence[Manifest] = (),
    subdomain: str | None = None,
) -> Manifest:
    """The pod template of the run, or of one of its roles where `spec` is that role's."""
    parts = pod_parts(spec, placement, container=container, env=env, subdomain=subdomain)
    return gang.marked(pod_template.pod_template(parts, placement), spec, placement)


def pod_parts(
    spec: TrainingRunSpec,
    placement: Placement,
    *,
    container: str,
    env: Sequence[Manifest] = (),
    subdomain: str | None = None,
) -> PodParts:
    checkpoint_dir = spec.checkpoint.path if spec.checkpoint else None
    return PodParts(
        spec=spec,
        container_name=container,
        claims=[ClaimMount(volume.claim, volume.path, volume.read_only) for volume in spec.mounted_volumes],
        files_config_map=files_name(placement) if spec.source and spec.source.files else None,
        portal_env=[*pod_template.run_environment(placement, checkpoint_dir), *env],
        default_env=[
            *_unbuffered(spec),
            *pod_template.tracking_environment(spec, placement),
            *_collectives(spec),
        ],
        subdomain=subdomain,
        near=gang.NEAR.get(spec.topology) if spec.pods > 1 else None,
        annotations=pod_template.DO_NOT_DISRUPT,
        grace_seconds=placement.grace_seconds,
        restart_policy="Never",
    )


def _unbuffered(spec: TrainingRunSpec) -> list[Manifest]:
    """The operator of PyTorchJobs sets it itself."""
    return [] if spec.kind == PYTORCH_JOB else [{**pod_template.UNBUFFERED}]


def _collectives(spec: TrainingRunSpec) -> list[Manifest]:
    """NCCL is silent about what it could not do unless it is asked, and a log that says it is what gets diagnosed.

    Everything else it finds out better by itself: which network to take differs from cluster to cluster.
    """
    several = spec.gpus_per_replica > 0 and spec.pods_with_gpus > 1
    return [{"name": "NCCL_DEBUG", "value": "WARN"}] if several else []


def files_name(placement: Placement) -> str:
    """Name of the ConfigMap of the source files."""
    return f"{placement.object_name}-files"


def among_themselves(spec: TrainingRunSpec, placement: Placement) -> Manifest:
    """Lets the pods of one gang talk to each other, which the namespace forbids to all other pods.

    On all ports: what NCCL and Gloo listen on is chosen at random.
    """

    def own() -> Manifest:
        return {"matchLabels": pod_template.workload_selector(placement)}

    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": pod_template.metadata(placement.object_name, spec, placement),
        "spec": {
            "podSelector": own(),
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [{"podSelector": own()}]}],
            "egress": [{"to": [{"podSelector": own()}]}],
        },
    }


def deadline(spec: TrainingRunSpec, placement: Placement) -> Manifest:
    """`activeDeadlineSeconds`, as the field of a Job, a TrainJob or a runPolicy; nothing without a time limit."""
    seconds = active_deadline_seconds(spec.time_limit_seconds, placement.grace_seconds)
    return {} if seconds is None else {"activeDeadlineSeconds": seconds}


def active_deadline_seconds(time_limit_seconds: int | None, grace_seconds: int) -> int | None:
    """The object's own deadline: a backstop that acts only if the portal does not enforce the limit itself.

    The field may be changed while it runs, and has to be when the time limit is extended.
    """
    if time_limit_seconds is None:
        return None
    return time_limit_seconds + grace_seconds + DEADLINE_SLACK_SECONDS
