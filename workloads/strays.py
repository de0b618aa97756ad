"""Whose the objects in the cluster are; and those of the portal's mark that belong to no workload: recorded, kept in
sight, forgotten when they are gone.

The latter remain after a restore from a backup that is older than the cluster. No team is charged for what they hold, as
they belong to none: their rows stay until a platform admin has them deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Count, OuterRef, Q, Subquery, Sum, Value
from django.db.models.functions import JSONObject

from cluster import labels as label_names
from cluster.names import DEFAULT_CLUSTER
from workloads.kinds import kind_of
from workloads.models import Attempt, ObjectRecord, PodRecord, StrayObject, Workload
from workloads.nodes.capacity import nodes_beside
from workloads.placement import NodeFacts
from workloads.podrequests import gpus_of_pod
from workloads.pods.pod_facts import ENDED, attempt_of, created_at

SHOWN_MAX: Final = 200
_COUNT: Final = Count("pk", filter=Q(owned=False))
_UNITS: Final = Sum("units", default=0)


@dataclass(frozen=True, slots=True)
class Strays:
    """How many there are, without those that go with their owner, and how many GPUs all of them hold."""

    count: int
    units: int


def record_stray(manifest: Mapping[str, Any], *, cluster: str, now: datetime, gone: bool = False) -> None:
    """Keep a row of an object whose workload is not known, as long as it is there."""
    metadata = manifest["metadata"]
    labels = metadata.get("labels") or {}
    rows = StrayObject.objects.filter(uid=metadata["uid"])
    if gone:
        rows.delete()
        return
    if labels.get(label_names.MANAGED_BY) != label_names.MANAGER or label_names.WORKLOAD_ID not in labels:
        return
    facts = {"owned": bool(metadata.get("ownerReferences")), "units": _units(manifest)}
    if rows.filter(**facts).exists():
        return
    identity = {name: manifest[key] for name, key in (("api_version", "apiVersion"), ("kind", "kind"))}
    identity |= {
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "said_workload": labels[label_names.WORKLOAD_ID],
        "created_at": created_at(metadata),
        "found_at": now,
    }
    StrayObject.objects.update_or_create(
        cluster=cluster, uid=metadata["uid"], defaults=facts, create_defaults=identity | facts
    )


def forget_strays(*, cluster: str, api_version: str, kind: str, present: Collection[str]) -> None:
    """After a whole list of a kind: drop the rows of objects that are gone, or whose workload is known again."""
    rows = StrayObject.objects.of(cluster).filter(api_version=api_version, kind=kind)
    known = set(rows.values_list("uid", flat=True))
    if not known:
        return
    gone = known.difference(present)
    for records in (ObjectRecord, PodRecord):
        gone.update(records.objects.filter(uid__in=known).values_list("uid", flat=True))
    rows.filter(uid__in=gone).delete()


def _units(manifest: Mapping[str, Any]) -> int:
    """GPU units that a pod on a node holds; 0 for other objects."""
    spec, phase = manifest.get("spec") or {}, (manifest.get("status") or {}).get("phase")
    if manifest["kind"] != "Pod" or not spec.get("nodeName") or phase in ENDED:
        return 0
    return sum(gpus_of_pod(spec).values())


def strays(*, cluster: str = DEFAULT_CLUSTER) -> Strays:
    """The current totals, in one query."""
    totals = StrayObject.objects.of(cluster).aggregate(count=_COUNT, units=_UNITS)
    return Strays(count=totals["count"], units=totals["units"])


def nodes_and_strays(*, cluster: str = DEFAULT_CLUSTER) -> tuple[list[NodeFacts], Strays]:
    """All nodes, and the same as `strays`, in one query: both are what was seen of the cluster."""
    rows = StrayObject.objects.of(cluster).order_by().values(whole=Value(1))
    counts = rows.annotate(counts=JSONObject(count=_COUNT, units=_UNITS)).values("counts")
    there, totals = nodes_beside(Subquery(counts), cluster=cluster)
    return there, Strays(**(totals or {"count": 0, "units": 0}))


def stray_objects(*, cluster: str = DEFAULT_CLUSTER) -> list[StrayObject]:
    """The strays that no other object owns, oldest first."""
    return list(StrayObject.objects.of(cluster).filter(owned=False).order_by("created_at", "pk")[:SHOWN_MAX])


def workloads_of(manifests: Sequence[Mapping[str, Any]]) -> list[Workload | None]:
    """The workloads of these objects, in their order; None for objects that are not the portal's.

    The labels name them. What has a row stays its workload's whatever its labels are now, by its UID; and a pod
    with the labels of an attempt that another object made is nobody's.
    """
    named = [_workload_id(manifest) for manifest in manifests]
    public_ids = {public_id for public_id in named if public_id is not None}
    rows = Workload.objects.select_related("flavor", "team").filter(public_id__in=public_ids)
    workloads = {row.public_id: row for row in rows.annotate(made=_MADE)}
    found = [
        _own(workloads.get(public_id), manifest) if public_id else None
        for public_id, manifest in zip(named, manifests, strict=True)
    ]
    uids = {
        manifest["metadata"].get("uid")
        for manifest, workload in zip(manifests, found, strict=True)
        if workload is None
    }
    known = _known(uids - {None})
    return [
        workload or known.get(manifest["metadata"].get("uid"))
        for manifest, workload in zip(manifests, found, strict=True)
    ]


_MADE = ArraySubquery(
    Attempt.objects.filter(workload=OuterRef("pk"))
    .exclude(object_uid="")
    .values(each=JSONObject(number="number", kind="object_kind", uid="object_uid"))
)


def _known(uids: set[str]) -> dict[str, Workload]:
    """The workloads of those that have a row, by UID: strangers take labels away, or write others."""
    if not uids:
        return {}
    known: dict[str, Workload] = {}
    for records in (ObjectRecord, PodRecord):
        rows = records.objects.filter(uid__in=uids).select_related("workload__flavor", "workload__team")
        known |= {row.uid: row.workload for row in rows}
    return known


def _workload_id(manifest: Mapping[str, Any]) -> UUID | None:
    labels = manifest.get("metadata", {}).get("labels") or {}
    if labels.get(label_names.MANAGED_BY) != label_names.MANAGER:
        return None
    try:
        return UUID(labels.get(label_names.WORKLOAD_ID, ""))
    except ValueError:
        # Anyone who may write to the namespace may write any label.
        return None


def _own(workload: Workload | None, manifest: Mapping[str, Any]) -> Workload | None:
    """The workload if the object is in its namespace, else None: a label elsewhere must not bill the team for it."""
    if workload is None or manifest["metadata"].get("namespace") != workload.team.namespace_name:
        return None
    return workload if manifest.get("kind") != "Pod" or _is_made_by(workload, manifest) else None


def _is_made_by(workload: Workload, pod: Mapping[str, Any]) -> bool:
    """Whether the object of the attempt that the pod names may have made it.

    Of a workload that ends every pod has a controller, and where that is of the kind of the attempt's object it is
    that object itself. Before that object is known, whatever bears the labels is the attempt's.
    """
    number = attempt_of(pod["metadata"])
    made = next((each for each in workload.made if each["number"] == number), None)  # type: ignore[attr-defined]
    if made is None or not kind_of(workload.kind).ends:
        return True
    owners = pod["metadata"].get("ownerReferences") or ()
    maker = next((owner for owner in owners if owner.get("controller")), None)
    if maker is None:
        return False
    same_kind = made["kind"].rpartition("/")[2] == maker["kind"]
    return bool(maker["uid"] == made["uid"]) if same_kind else True
