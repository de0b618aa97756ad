"""The objects of one attempt of a batch, as a pure function of its spec and its placement."""

from __future__ import annotations

from tests.examples.batch_inference.specs import BatchInferenceSpec
from workloads.placement import Placement
from workloads.podspec import pod_template
from workloads.podspec.pod_template import ClaimMount, Manifest, ManifestSet, PodParts


def build_batch(spec: BatchInferenceSpec, placement: Placement) -> ManifestSet:
    """An Indexed Job, whose pods have numbers and are never replaced: the portal owns retries. And the source files."""
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": pod_template.metadata(placement.object_name, spec, placement),
        "spec": {
            "backoffLimit": 0,
            "completionMode": "Indexed",
            "completions": spec.replicas,
            "parallelism": spec.replicas,
            "podReplacementPolicy": "Failed",
            "template": pod_template.pod_template(_parts(spec, placement), placement),
        },
    }
    files = pod_template.files_config_map(_files_name(placement), spec, placement)
    return ManifestSet(job, (files,) if files else (), suspend_path=("spec", "suspend"))


def _parts(spec: BatchInferenceSpec, placement: Placement) -> PodParts:
    return PodParts(
        spec=spec,
        container_name="main",
        claims=[ClaimMount(volume.claim, volume.path, volume.read_only) for volume in spec.volumes],
        files_config_map=_files_name(placement) if spec.source and spec.source.files else None,
        # The number of the pod is in JOB_COMPLETION_INDEX, which the cluster sets.
        portal_env=[
            _told("BATCH_DATASET", spec.dataset),
            _told("BATCH_RESULTS", spec.results),
            _told("BATCH_SHARES", str(spec.replicas)),
        ],
        default_env=[{**pod_template.UNBUFFERED}],
        annotations=pod_template.DO_NOT_DISRUPT,
        grace_seconds=placement.grace_seconds,
        restart_policy="Never",
    )


def _files_name(placement: Placement) -> str:
    return f"{placement.object_name}-files"


def _told(name: str, value: str) -> Manifest:
    return {"name": name, "value": value}
