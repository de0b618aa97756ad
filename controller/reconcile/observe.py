"""The observing half of a reconcile: reads the objects of one workload, and records them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from cluster import kinds, versions
from cluster.client import ClusterClient
from cluster.labels import selector
from controller.reconcile import objects, orphans
from controller.reconcile.act import Look
from controller.reconcile.adapters import WorkloadAdapter
from controller.reconcile.identity import get_own, own_pods, robbed_pods
from controller.reconcile.sightings import miss_pods, see_ends, see_pods
from workloads.models import Attempt, NodeRecord, ObjectRecord, PodRecord, Workload
from workloads.observations import PodSeen, news
from workloads.placement import SPOT
from workloads.pods.observation import Observation
from workloads.pods.pod_ends import reason_of_disruption, reason_of_loss
from workloads.pods.pod_facts import ENDED
from workloads.states import Desired, Phase, Reason


def look_at(
    workload: Workload,
    adapter: WorkloadAdapter,
    attempt: Attempt | None,
    client: ClusterClient,
    now: datetime,
) -> Look:
    """Read and record the attempt's object and the workload's pods as they are in the cluster now."""
    if _only_to_be_made(workload, attempt):
        return Look(adapter.observe(None, (), ()), None)
    namespace = workload.team.namespace_name
    primary = None
    if attempt is not None:
        ref = objects.primary_ref(workload, adapter, attempt)
        primary = get_own(client, ref, workload, made=attempt, ends=adapter.kind.ends)
    listing = client.list(
        kinds.POD, namespace=namespace, label_selector=selector(workload_id=str(workload.public_id))
    )
    pods = own_pods(client, workload, attempt, listing.items, ends=adapter.kind.ends)
    pods = _record(workload, pods, listing.resource_version, client, now)
    see_ends([(primary, workload)] if primary is not None else [], now=now)
    number = str(attempt.number) if attempt and adapter.kind.ends else None
    own = [pod for pod in pods if number is None or pod["metadata"]["labels"].get(objects.ATTEMPT) == number]
    events = objects.warnings(client, primary) if primary is not None and not own else []
    companions = _companions(workload, adapter, attempt, client) if primary is not None else []
    observation = adapter.observe(primary, own, events, companions)
    if observation.scaler is not None and observation.scaler.failure:
        # Only its events give the scaler's exact error.
        events = [
            *events,
            *(event for companion in companions for event in objects.warnings(client, companion)),
        ]
        observation = adapter.observe(primary, own, events, companions)
    if observation.final and not observation.interruption:
        observation = replace(observation, retryable=adapter.retries(workload, observation))
    if number is not None and own:
        observation = _short_of_a_pod(workload, int(number), observation)
    if number is not None and observation.interruption:
        observation = _taken_away(workload, int(number), observation, client.cluster)
    if primary is None and attempt is not None and _set_back(attempt, listing.resource_version):
        observation = replace(observation, set_back=True)
    makers = orphans.left_behind(client, workload, adapter) if primary is None else []
    strays = orphans.strays(client, workload, adapter, primary, own)
    if primary is None and adapter.makers:
        adoptable = not strays and orphans.all_adoptable(makers, own)
        observation = replace(observation, left_behind=bool(makers), adoptable=adoptable)
    return Look(observation, primary, companions, pods, makers, strays)


def _set_back(attempt: Attempt, version: str) -> bool:
    """Whether the cluster is at an older version than its object was of, which is therefore not there, or was set back
    since then (`forget_later`).
    """
    known = (
        ObjectRecord.objects.filter(uid=attempt.object_uid).values_list("resource_version", flat=True).first()
    )
    return known is not None and (not known or versions.is_older(version, than=known))


def _companions(
    workload: Workload, adapter: WorkloadAdapter, attempt: Attempt | None, client: ClusterClient
) -> list[dict[str, Any]]:
    """The workload's own companions beside the primary; none of a kind that the cluster does not serve."""
    if attempt is None:
        return []
    refs = adapter.companion_refs(workload, object_name=attempt.object_name)
    companions = [get_own(client, ref, workload) for ref in refs]
    return [companion for companion in companions if companion is not None]


def _short_of_a_pod(workload: Workload, attempt: int, observation: Observation) -> Observation:
    """The observation, marked as an interruption if a started pod is gone while the attempt goes on.

    Some operators replace the pod with another, which lacks the state of the others: the portal restarts
    such a gang as a whole.
    """
    if observation.final or observation.interruption:
        return observation
    lost = workload.pods.filter(attempt=attempt, gone_at__isnull=False, started_at__isnull=False)
    name = lost.exclude(phase="Succeeded").values_list("name", flat=True).first()
    if name is None:
        return observation
    return replace(
        observation,
        message=f"Pod {name} was deleted; all its pods start again together.",
        interruption=True,
        retryable=True,
        cause=Reason.DELETED_EXTERNALLY,
    )


def _taken_away(workload: Workload, attempt: int, observation: Observation, cluster: str) -> Observation:
    """The observation with the disruption reason of a pod that was gone before this look.

    The watcher has stored the reason. If the pod garbage collector was faster than the watcher, it is inferred from
    the pod's node, which is gone or not ready.
    """
    if (observation.cause or observation.reason) not in {Reason.DELETED_EXTERNALLY, Reason.NODE_LOST}:
        return observation
    gone = workload.pods.filter(attempt=attempt, gone_at__isnull=False)
    by_word = gone.exclude(disruption="").order_by("gone_at").values_list("name", "disruption").first()
    spot = workload.capacity_type == SPOT
    if by_word is not None:
        name, word = by_word
        cause, what = reason_of_disruption(word, spot=spot)
        message = f"Pod {name} was removed because {what} ({word})."
    elif node := _lost_node(gone.exclude(phase__in=ENDED), cluster):
        cause = reason_of_loss(spot=spot)
        message = f"Its node {node} is gone, and its pod with it."
    else:
        return observation
    if observation.final:
        return replace(observation, message=message, reason=cause)
    return replace(observation, message=message, cause=cause)


def _lost_node(vanished: QuerySet[PodRecord], cluster: str) -> str | None:
    """The first node, by name, of these pods that does not exist or is not ready; None if there is none."""
    names = set(vanished.values_list("node_name", flat=True))
    known = NodeRecord.objects.of(cluster).filter(name__in=names)
    present = known.filter(gone_at__isnull=True, ready=True).values_list("name", flat=True)
    return min(set(known.values_list("name", flat=True)) - set(present), default=None)


def _only_to_be_made(workload: Workload, attempt: Attempt | None) -> bool:
    """Whether there is nothing to observe: there is no attempt yet, or the first is about to be made,
    which adopts objects that a crash may have left.
    """
    if workload.attempt_number == 0:
        return True
    first = attempt is not None and attempt.number == 1 and not attempt.object_uid
    return first and workload.phase == Phase.ADMITTED.value and workload.desired == Desired.RUN.value


def _record(
    workload: Workload, pods: list[dict[str, Any]], version: str, client: ClusterClient, now: datetime
) -> list[dict[str, Any]]:
    """Update rows and usage from this list of pods, in a constant number of statements; returns the pods, and those of
    the rows that the list lacks although they are there.
    """
    seen = [PodSeen(pod, workload) for pod in news(PodRecord, pods)]
    see_pods(seen, cluster=client.cluster, now=now, as_of=version)
    present = {pod["metadata"]["uid"] for pod in pods}
    known = list(PodRecord.objects.filter(workload=workload, gone_at__isnull=True).exclude(uid__in=present))
    robbed = robbed_pods(client, workload, known)
    found = [PodSeen(pod, workload) for pod in news(PodRecord, robbed)] if robbed else []
    see_pods(found, cluster=client.cluster, now=now)
    there = {pod["metadata"]["uid"] for pod in robbed}
    miss_pods([row for row in known if row.uid not in there], as_of=version, now=now)
    return [*pods, *robbed]
