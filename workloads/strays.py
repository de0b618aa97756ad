"""Objects that bear the portal's mark but belong to no workload: recorded, kept in sight, forgotten when they are gone.

They remain after a restore from a backup that is older than the cluster. No team is charged for what they hold, as
they belong to none: their rows stay until a platform admin has them deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Count, Q, Subquery, Sum, Value
from django.db.models.functions import JSONObject

from cluster import labels as label_names
from cluster.names import DEFAULT_CLUSTER
from workloads.models import ObjectRecord, PodRecord, StrayObject
from workloads.node_capacity import nodes_beside
from workloads.placement import NodeFacts
from workloads.podrequests import gpus_of_pod
from workloads.pods.pod_facts import ENDED, created_at

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
