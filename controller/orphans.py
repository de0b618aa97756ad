"""What makes a workload's pods and has lost the primary object (`kubectl delete --cascade=orphan`).

Where the primary is deleted with what it owns, the garbage collector takes these down, and nobody needs to.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from cluster.client import ClusterClient
from cluster.labels import selector
from controller.adapters import WorkloadAdapter
from workloads.models import Workload
from workloads.pod_facts import ENDED

DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
"""Where a ReplicaSet keeps how many replicas its Deployment wanted in all."""


def left_behind(client: ClusterClient, workload: Workload, adapter: WorkloadAdapter) -> list[dict[str, Any]]:
    """The workload's own makers of pods that no controller has; they may be on their way out."""
    label = selector(workload_id=str(workload.public_id))
    namespace = workload.team.namespace_name
    listings = (client.list(kind, namespace=namespace, label_selector=label) for kind in adapter.makers)
    return [each for listing in listings for each in listing.items if controller_of(each) is None]


def controller_of(found: Mapping[str, Any]) -> str | None:
    """The UID of the object that manages this one."""
    owners = found["metadata"].get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("controller")), None)


def all_adoptable(makers: Sequence[Mapping[str, Any]], pods: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a new primary takes over all pods that may hold GPUs: none is of a controller that goes or has gone."""
    staying = {each["metadata"]["uid"] for each in makers if not _goes(each)}
    alive = (pod for pod in pods if (pod.get("status") or {}).get("phase") not in ENDED)
    return all(_stays(pod, staying) for pod in alive)


def _stays(pod: Mapping[str, Any], makers: Collection[str]) -> bool:
    owner = controller_of(pod)
    return not _goes(pod) if owner is None else owner in makers


def _goes(found: Mapping[str, Any]) -> bool:
    return bool(found["metadata"].get("deletionTimestamp"))


def size(makers: Sequence[Mapping[str, Any]]) -> int | None:
    """How many replicas the primary of these wanted; None where none of them has any."""
    active = [each["metadata"].get("annotations") or {} for each in makers if each["spec"].get("replicas")]
    return max((int(each[DESIRED_REPLICAS]) for each in active if DESIRED_REPLICAS in each), default=None)
