"""Runs of kind `mpijob`: a launcher that starts processes in the workers by mpirun.

Of the training operator (v1, which starts them by exec) or of the MPI operator (v2beta1, by SSH).
"""

from __future__ import annotations

from dataclasses import replace

from jobs.kinds import WAIT_FOR_WORKERS
from jobs.manifests import kubeflow, parts
from jobs.specs import LAUNCHER, TrainingRunSpec
from workloads.placement import Placement
from workloads.podspec.pod_template import Manifest

CONTAINER = "mpi"
V2 = "kubeflow.org/v2beta1"


def build_v1(spec: TrainingRunSpec, placement: Placement) -> Manifest:
    """The launcher alone gets a service account token: the operator's own, which may exec into the workers."""
    replicas = _replicas(spec, placement)
    pod = replicas[LAUNCHER]["template"]["spec"]
    del pod["serviceAccountName"], pod["automountServiceAccountToken"]
    return kubeflow.run_object("MPIJob", spec, placement, _body(spec, replicas))


def build_v2(spec: TrainingRunSpec, placement: Placement) -> Manifest:
    """Its launcher waits for the workers to be ready: mpirun gives up on a host that does not answer."""
    body = {**_body(spec, _replicas(spec, placement)), "launcherCreationPolicy": WAIT_FOR_WORKERS}
    return kubeflow.run_object("MPIJob", spec, placement, body, api_version=V2)


def _body(spec: TrainingRunSpec, replicas: dict[str, Manifest]) -> Manifest:
    slots = spec.slots_per_worker or spec.gpus_per_replica or 1
    return {"slotsPerWorker": slots, "mpiReplicaSpecs": replicas}


def _replicas(spec: TrainingRunSpec, placement: Placement) -> dict[str, Manifest]:
    """The command is the launcher's; the operator has the workers wait for what it starts in them."""
    waiting = replace(spec, command=(), args=())
    workers = kubeflow.replica(spec.replicas, parts.pod(waiting, placement, container=CONTAINER))
    return {**kubeflow.roles(spec, placement, CONTAINER), "Worker": workers}
