"""Controllers of a workload's pods that were orphaned by the primary's deletion (`kubectl delete --cascade=orphan`).

If the primary is deleted with its dependents, the garbage collector deletes them, and the portal need not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from cluster.client import ClusterClient
from cluster.labels import selector
from controller.reconcile.adapters import WorkloadAdapter
from workloads.models import Workload
from workloads.pods.pod_facts import ENDED
from workloads.pods.pod_status import revision_of

DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
"""Where a ReplicaSet keeps how many replicas its Deployment wanted in all."""
DIGITS_MAX = 9
TEMPLATE_HASH = "pod-template-hash"
"""On a ReplicaSet and its pods; it takes over no pod of another one."""


def left_behind(client: ClusterClient, workload: Workload, adapter: WorkloadAdapter) -> list[dict[str, Any]]:
    """The workload's pod controllers that have no controller themselves; they may be terminating."""
    return [maker for maker in _makers(client, workload, adapter) if controller_of(maker) is None]


def _makers(client: ClusterClient, workload: Workload, adapter: WorkloadAdapter) -> list[dict[str, Any]]:
    label = selector(workload_id=str(workload.public_id))
    namespace = workload.team.namespace_name
    listings = (client.list(kind, namespace=namespace, label_selector=label) for kind in adapter.makers)
    return [item for listing in listings for item in listing.items]


def strays(
    client: ClusterClient,
    workload: Workload,
    adapter: WorkloadAdapter,
    primary: Mapping[str, Any] | None,
    pods: Sequence[dict[str, Any]],
) -> list[dict[str, Any]]:
    """The workload's pods that run without a controller and that no controller will adopt: neither those of `primary`,
    nor, if it is gone, those that would be made now. No controller counts them, and no other client deletes them.
    """
    bare = [pod for pod in pods if _alive(pod) and not goes(pod) and controller_of(pod) is None]
    if not bare or not adapter.makers:
        return []
    if primary is None:
        return [pod for pod in bare if not adapter.takes_over(workload, pod)]
    hashes = _hashes(primary, _makers(client, workload, adapter))
    return [pod for pod in bare if hashes and _hash(pod) not in hashes]


def _hashes(primary: Mapping[str, Any], makers: Sequence[Mapping[str, Any]]) -> set[str]:
    """Template hashes of pods that the primary's ReplicaSets adopt; empty if it is deleted or lacks its newest one."""
    uid, revision = primary["metadata"]["uid"], _revision(primary)
    own = [maker for maker in makers if controller_of(maker) == uid and not goes(maker)]
    made = not goes(primary) and any(_revision(maker) == revision for maker in own)
    return {_hash(maker) for maker in own} if made else set()


def _revision(maker: Mapping[str, Any]) -> int:
    return revision_of(maker["spec"]["template"]["metadata"])


def _hash(item: Mapping[str, Any]) -> str:
    return str((item["metadata"].get("labels") or {}).get(TEMPLATE_HASH) or "")


def controller_of(item: Mapping[str, Any]) -> str | None:
    """The UID of the object that manages this one."""
    owners = item["metadata"].get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("controller")), None)


def goes(item: Mapping[str, Any]) -> bool:
    """Whether the object is being deleted."""
    return bool(item["metadata"].get("deletionTimestamp"))


def all_adoptable(makers: Sequence[Mapping[str, Any]], pods: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a new primary adopts all pods that may hold GPUs: none has a controller that is going or gone.
    The caller must leave out the strays among pods without a controller.
    """
    staying = {maker["metadata"]["uid"] for maker in makers if not goes(maker)}
    return all(_stays(pod, staying) for pod in pods if _alive(pod))


def _alive(pod: Mapping[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") not in ENDED


def _stays(pod: Mapping[str, Any], makers: Collection[str]) -> bool:
    owner = controller_of(pod)
    return not goes(pod) if owner is None else owner in makers


def size(makers: Sequence[Mapping[str, Any]]) -> int | None:
    """The replicas that the primary of these ReplicaSets wanted; None if none of them has replicas and a number."""
    active = [maker["metadata"].get("annotations") or {} for maker in makers if maker["spec"].get("replicas")]
    texts = [str(annotations.get(DESIRED_REPLICAS, "")) for annotations in active]
    # Users may have edited the annotation: a longer text is not a number of replicas.
    numbers = (int(text) for text in texts if text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX)
    return max(numbers, default=None)
