"""The objects of one attempt of a training run, as a pure function of its spec and its placement."""

from __future__ import annotations

from controller import podspec
from controller.podspec import ClaimMount, Manifest, ManifestSet, PodParts
from jobs.specs import TrainingRunSpec
from workloads.placement import Placement

CONTAINER_NAME = "main"
RENDEZVOUS_PORT = 29500
"""What torchrun listens on unless told otherwise."""
INDEX = "batch.kubernetes.io/job-completion-index"
JOB_NAME = "batch.kubernetes.io/job-name"
DEADLINE_SLACK_SECONDS = 3600
"""A Job's clock also runs while its pod is Pending, which the portal's does not count."""


def build_training_run(spec: TrainingRunSpec, placement: Placement) -> ManifestSet:
    """The Job of this attempt, the ConfigMap of its source files where it has any, and for several pods the Service by
    which they find each other and the NetworkPolicy that lets them talk.

    The Secret that `placement.run_token_secret` names is made by the controller, which alone knows the token.

    A pod is never replaced: `backoffLimit: 0` and `restartPolicy: Never`, because the portal alone owns
    retries, and a gang that lost one pod starts again as a whole. Several pods are an Indexed Job, whose pods have
    numbers and names that stay. There is no podFailurePolicy: its Ignore rule would let the Job replace a
    disrupted pod behind the portal's back, without a new resume point, and its FailJob rule has nothing to add
    to a limit of 0.
    `podReplacementPolicy: Failed` keeps two pods of a Job from ever running at once. There is no
    ttlSecondsAfterFinished: the portal deletes the Job when it has stored the result and the logs.
    """
    name = placement.object_name
    files = podspec.files_config_map(f"{name}-files", spec, placement)
    job: Manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": podspec.metadata(name, spec, placement),
        "spec": {
            "backoffLimit": 0,
            "completions": spec.replicas,
            "parallelism": spec.replicas,
            "podReplacementPolicy": "Failed",
            "template": podspec.pod_template(_parts(spec, placement, files), placement),
        },
    }
    dependants = []
    if spec.replicas > 1:
        job["spec"]["completionMode"] = "Indexed"
        dependants += [_rendezvous(spec, placement), _among_themselves(spec, placement)]
    if files is not None:
        dependants.append(files)
    deadline = active_deadline_seconds(spec.time_limit_seconds, placement.grace_seconds)
    if deadline is not None:
        job["spec"]["activeDeadlineSeconds"] = deadline
    return ManifestSet(job, tuple(dependants))


def _rendezvous(spec: TrainingRunSpec, placement: Placement) -> Manifest:
    """The headless Service that gives each pod the name `<job>-<index>.<job>`, from before it is ready."""
    name = placement.object_name
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": podspec.metadata(name, spec, placement),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {JOB_NAME: name},
            "ports": [{"name": "rendezvous", "port": RENDEZVOUS_PORT}],
        },
    }


def _among_themselves(spec: TrainingRunSpec, placement: Placement) -> Manifest:
    """Lets the pods of one gang talk to each other, which the namespace forbids everybody else.

    On all ports: what NCCL and Gloo listen on is chosen at random.
    """

    def own() -> Manifest:
        return {"matchLabels": podspec.workload_selector(placement)}

    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": podspec.metadata(placement.object_name, spec, placement),
        "spec": {
            "podSelector": own(),
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": own()}]}],
        },
    }


def _gang_environment(spec: TrainingRunSpec, placement: Placement) -> list[Manifest]:
    """What torchrun takes as the defaults of its options (`PET_*`), and what most launchers look for.

    How many processes run in a pod is the command's to say, and with that ranks and the size of the world.
    """
    if spec.replicas == 1:
        return []
    name = placement.object_name
    first, port = f"{name}-0.{name}", str(RENDEZVOUS_PORT)
    index = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}
    return [
        {"name": "MASTER_ADDR", "value": first},
        {"name": "MASTER_PORT", "value": port},
        {"name": "PET_MASTER_ADDR", "value": first},
        {"name": "PET_MASTER_PORT", "value": port},
        {"name": "PET_NNODES", "value": str(spec.replicas)},
        {"name": "PET_NODE_RANK", "valueFrom": index},
    ]


def active_deadline_seconds(time_limit_seconds: int | None, grace_seconds: int) -> int | None:
    """The Job's own deadline: a backstop that acts only if the portal does not enforce the limit itself.

    The field of a Job may be changed while it runs, and has to be when the time limit is extended.
    """
    if time_limit_seconds is None:
        return None
    return time_limit_seconds + grace_seconds + DEADLINE_SLACK_SECONDS


def _parts(spec: TrainingRunSpec, placement: Placement, files: Manifest | None) -> PodParts:
    checkpoint_dir = spec.checkpoint.path if spec.checkpoint else None
    return PodParts(
        spec=spec,
        container_name=CONTAINER_NAME,
        claims=_claims(spec),
        files_config_map=files["metadata"]["name"] if files else None,
        portal_env=[*podspec.run_environment(placement, checkpoint_dir), *_gang_environment(spec, placement)],
        subdomain=placement.object_name if spec.replicas > 1 else None,
        annotations=podspec.DO_NOT_DISRUPT,
        grace_seconds=placement.grace_seconds,
        restart_policy="Never",
    )


def _claims(spec: TrainingRunSpec) -> list[ClaimMount]:
    claims = [ClaimMount(volume.claim, volume.path, volume.read_only) for volume in spec.volumes]
    checkpoint = spec.checkpoint
    if checkpoint is None or checkpoint.claim is None or checkpoint.holder(spec.volumes) is not None:
        return claims
    return [*claims, ClaimMount(checkpoint.claim, checkpoint.path, read_only=False)]
