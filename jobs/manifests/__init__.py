"""The objects of one attempt of a training run, as a pure function of its spec and its placement."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jobs import kinds
from jobs.manifests import gang, job, kubeflow, mpi, trainjob
from jobs.manifests.parts import active_deadline_seconds, among_themselves, files_name
from jobs.specs import TrainingRunSpec
from workloads.placement import Placement
from workloads.podspec import pod_template
from workloads.podspec.pod_template import Manifest, ManifestSet

__all__ = ["active_deadline_seconds", "build_training_run"]

_PRIMARY: Mapping[str, Callable[[TrainingRunSpec, Placement], Manifest]] = {
    "batch/v1/Job": job.build,
    "kubeflow.org/v1/PyTorchJob": kubeflow.build_pytorch,
    "kubeflow.org/v1/TFJob": kubeflow.build_tensorflow,
    "kubeflow.org/v1/MPIJob": mpi.build_v1,
    "kubeflow.org/v2beta1/MPIJob": mpi.build_v2,
    "trainer.kubeflow.org/v1alpha1/TrainJob": trainjob.build,
}


def build_training_run(
    spec: TrainingRunSpec, placement: Placement, object_kind: str | None = None
) -> ManifestSet:
    """The object that owns the pods of this attempt, the ConfigMap of its source files where it has any, and for
    several pods the NetworkPolicy that lets them talk, and what else they need to find each other.

    `object_kind` is the address of the object's kind, where the run's kind may be one of several; the first
    otherwise. The Secret that `placement.run_token_secret` names is made by the controller, which alone knows the token.

    No kind replaces a pod: the portal alone owns retries, and a gang that lost one pod starts again as a whole.
    There is no ttlSecondsAfterFinished: the portal deletes the object when it has stored the result and the logs.
    """
    kind = kinds.KINDS[spec.kind]
    primary = _PRIMARY[object_kind or kind.objects[0].address](spec, placement)
    group = gang.group(spec, placement, made_last=kinds.pods_made_last(primary))
    dependants = [*group, *gang.budget(spec, placement)]
    if spec.pods > 1:
        dependants += [*job.rendezvous(spec, placement), among_themselves(spec, placement)]
    files = pod_template.files_config_map(files_name(placement), spec, placement)
    if files is not None:
        dependants.append(files)
    return ManifestSet(primary, tuple(dependants), kind.suspend_path)
