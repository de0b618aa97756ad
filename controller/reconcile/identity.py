"""Whose an object is: known by its UID, whatever anybody does to its labels, which are given back to it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from cluster import kinds
from cluster.client import ClusterClient
from cluster.errors import ClusterConflict, ClusterRejected, ObjectNotFound
from cluster.kinds import ObjectRef
from cluster.labels import ATTEMPT, MANAGED_BY, MANAGER, WORKLOAD_ID, workload_labels
from controller.reconcile.orphans import controller_of
from controller.reconcile.sightings import ref_of_pod, standing_as
from foundation.digits import whole_number
from workloads.models import Attempt, PodRecord, Workload
from workloads.strays import workloads_of

logger = logging.getLogger(__name__)


def belongs_to(item: Mapping[str, Any], workload: Workload) -> bool:
    """Whether the object has the portal's label of this workload; a foreign object of the same name does not."""
    labels = item["metadata"].get("labels") or {}
    return labels.get(MANAGED_BY) == MANAGER and labels.get(WORKLOAD_ID) == str(workload.public_id)


def get_own(
    client: ClusterClient,
    ref: ObjectRef,
    workload: Workload,
    *,
    made: Attempt | None = None,
    ends: bool = False,
) -> dict[str, Any] | None:
    """The object; None if it does not exist or belongs to another owner.

    `made` is the attempt whose object it is: the one that the portal made is its own without labels too. One that
    `ends` has no other: what bears its labels under another UID is an imitation.
    """
    try:
        item = client.get(ref)
    except ObjectNotFound:
        return None
    uid = made.object_uid if made is not None else ""
    if uid and item["metadata"]["uid"] == uid:
        assert made is not None  # noqa: S101 - for the type checker
        return given_back(client, workload, item, attempt=made.number)
    return item if belongs_to(item, workload) and not (uid and ends) else None


def own_pods(
    client: ClusterClient,
    workload: Workload,
    attempt: Attempt | None,
    listed: Sequence[dict[str, Any]],
    *,
    ends: bool,
) -> list[dict[str, Any]]:
    """Those of the listed pods that are the workload's, and its own that no list shows as they lost their labels."""
    items = list(listed)
    if ends and attempt is not None and any(controller_of(pod) != attempt.object_uid for pod in items):
        owners = zip(items, workloads_of(items), strict=True)
        items = [pod for pod, owner in owners if owner is not None and owner.pk == workload.pk]
    return [_with_attempt(client, workload, pod) for pod in items]


def robbed_pods(
    client: ClusterClient, workload: Workload, lacking: Sequence[PodRecord]
) -> list[dict[str, Any]]:
    """Those of the rows whose pods a read by name finds: their labels were taken, or the list was not whole."""
    there = ((row, standing_as(client, ref_of_pod(row), row.uid)) for row in lacking)
    return [given_back(client, workload, pod, attempt=row.attempt) for row, pod in there if pod is not None]


def given_back(
    client: ClusterClient, workload: Workload, item: dict[str, Any], *, attempt: int
) -> dict[str, Any]:
    """The object with the labels that the portal gave it. A refusal stops nobody: its UID says whose it is."""
    wanted = workload_labels(
        workload_id=str(workload.public_id), attempt=attempt, team=workload.team.slug, kind=workload.kind
    )
    labels = item["metadata"].get("labels") or {}
    if all(labels.get(key) == value for key, value in wanted.items()):
        return item
    about = {"workload_id": str(workload.public_id), "object": item["metadata"]["name"]}
    logger.warning("labels.restored", extra=about)
    try:
        return client.patch_merge(
            kinds.ref_of(item), {"metadata": {"uid": item["metadata"]["uid"], "labels": wanted}}
        )
    except (ClusterRejected, ClusterConflict, ObjectNotFound):
        logger.warning("labels.not_restored", exc_info=True, extra=about)
        return {**item, "metadata": {**item["metadata"], "labels": {**labels, **wanted}}}


def _with_attempt(client: ClusterClient, workload: Workload, pod: dict[str, Any]) -> dict[str, Any]:
    """The pod; if its label names no attempt that there was, the one that its row knows is given back."""
    number = whole_number(str((pod["metadata"].get("labels") or {}).get(ATTEMPT, "")))
    if number is not None and 1 <= number <= workload.attempt_number:
        return pod
    known = PodRecord.objects.filter(uid=pod["metadata"]["uid"]).values_list("attempt", flat=True).first()
    return given_back(client, workload, pod, attempt=known) if known else pod
