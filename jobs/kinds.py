"""The kinds of training runs: what each is in the cluster, and which fields of a request have a meaning for it. Pure.

Facts of the objects: training-operator 1.9 (`kubeflow.org/v1`), mpi-operator 0.8 (`kubeflow.org/v2beta1`) and
Trainer 2.3 (`trainer.kubeflow.org/v1alpha1`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cluster import kinds
from cluster.kinds import ResourceKind

JOB = "job"
PYTORCH_JOB = "pytorchjob"
TF_JOB = "tfjob"
MPI_JOB = "mpijob"
TRAIN_JOB = "trainjob"
WAIT_FOR_WORKERS = "WaitForWorkersReady"
"""The `launcherCreationPolicy` of an MPIJob whose launcher is made when its workers are ready."""

RETIRED: Mapping[str, str] = {
    "mxjob": "MXJob was retired upstream: the training operator has dropped it. Use pytorchjob or job.",
}


@dataclass(frozen=True, slots=True)
class RunKind:
    """One value of a run's `kind`."""

    name: str
    objects: tuple[ResourceKind, ...]
    """What it may be in the cluster: the first of these that the API serves."""
    workers: str
    """What the field calls the pods that `replicas` counts."""
    roles: tuple[str, ...] = ()
    """Further pods it may have, by their replica type."""
    single_roles: frozenset[str] = frozenset()
    """Those of them of which there is one at most."""
    fields: frozenset[str] = frozenset()
    """Fields of the request that only some kinds know, and this one does."""
    lacks: frozenset[str] = frozenset()
    """Fields of every request that have no place in this kind's object."""
    suspend_path: tuple[str, ...] = ("spec", "runPolicy", "suspend")
    deadline_path: tuple[str, ...] | None = ("spec", "runPolicy", "activeDeadlineSeconds")
    """The object's own deadline; None where it cannot be changed once set."""
    succeeded: str = "Succeeded"
    """The condition that says it ended well."""

    @property
    def always_there(self) -> bool:
        """Whether every cluster has it, so that no setting need name it."""
        return self.objects[0].group == "batch"


KINDS: Mapping[str, RunKind] = {
    kind.name: kind
    for kind in (
        RunKind(
            JOB,
            (kinds.JOB,),
            workers="pods",
            fields=frozenset({"nproc_per_node"}),
            suspend_path=("spec", "suspend"),
            deadline_path=("spec", "activeDeadlineSeconds"),
            succeeded="Complete",
        ),
        RunKind(
            PYTORCH_JOB,
            (kinds.PYTORCH_JOB,),
            workers="master and workers",
            fields=frozenset({"nproc_per_node", "elastic"}),
        ),
        RunKind(
            TF_JOB,
            (kinds.TF_JOB,),
            workers="workers",
            roles=("Chief", "PS", "Evaluator"),
            single_roles=frozenset({"Chief", "Evaluator"}),
            fields=frozenset({"roles"}),
        ),
        RunKind(
            MPI_JOB,
            (kinds.MPI_JOB, kinds.MPI_JOB_V2),
            workers="workers",
            roles=("Launcher",),
            single_roles=frozenset({"Launcher"}),
            fields=frozenset({"roles", "slots_per_worker"}),
        ),
        RunKind(
            TRAIN_JOB,
            (kinds.TRAIN_JOB,),
            workers="nodes",
            fields=frozenset({"nproc_per_node", "runtime_ref"}),
            # Its container's folder is the runtime's to set; a TrainJob may only patch mounts and environment.
            lacks=frozenset({"working_dir", "source"}),
            suspend_path=("spec", "suspend"),
            deadline_path=None,
            succeeded="Complete",
        ),
    )
}
NAMES: tuple[str, ...] = tuple(KINDS)
MPI_JOB_V1 = "mpijob-v1"
"""What the setting `optional_kinds` has to name beside `mpijob` for the training operator's: its launcher gets the token of an
account of the namespace that may run commands in the workers, which no other pod of the portal has the like of."""
OPTIONAL: Mapping[str, bool] = {
    **{name: name == PYTORCH_JOB for name, kind in KINDS.items() if not kind.always_there},
    MPI_JOB_V1: False,
}
"""The kinds that only some clusters have; PyTorchJobs are offered unless the settings say otherwise."""
OBJECTS: tuple[ResourceKind, ...] = tuple(resource for kind in KINDS.values() for resource in kind.objects)


def of_object(item: Mapping[str, Any]) -> RunKind:
    """The kind whose object this is. KeyError for an object that is no run's."""
    names = (item["apiVersion"], item["kind"])
    for kind in KINDS.values():
        if any((resource.api_version, resource.kind) == names for resource in kind.objects):
            return kind
    raise KeyError(names)


def pods_wanted(item: Mapping[str, Any]) -> int:
    """How many pods the object of a run asks for."""
    spec = item.get("spec") or {}
    for path in ("pytorchReplicaSpecs", "tfReplicaSpecs", "mpiReplicaSpecs"):
        if path in spec:
            return sum(int(replica_spec.get("replicas") or 1) for replica_spec in spec[path].values())
    if "trainer" in spec:
        return int(spec["trainer"].get("numNodes") or 1)
    return int(spec.get("completions") or 1)


def pods_needed(item: Mapping[str, Any]) -> int:
    """How many of these pods a run needs to run: all of them, or the fewest with which an elastic run goes on."""
    fewest = ((item.get("spec") or {}).get("elasticPolicy") or {}).get("minReplicas")
    return min(int(fewest or pods_wanted(item)), pods_wanted(item))


def pods_made_last(item: Mapping[str, Any]) -> int:
    """How many of these pods the object's controller makes only when all others are ready."""
    spec = item.get("spec") or {}
    return 1 if spec.get("launcherCreationPolicy") == WAIT_FOR_WORKERS else 0
