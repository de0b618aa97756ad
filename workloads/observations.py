"""Records objects of the API server as rows, from raw JSON; used by the watcher and by reconciles.

Facts that decide money (times, exit codes) are written once and never erased by a later, older or
poorer description of the same pod. `cluster` is the name of the one that the client talks to which saw it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import BigIntegerField, Case, Count, Max, QuerySet, Sum, When
from django.db.models.functions import Cast, JSONObject

from cluster import versions
from cluster.names import DEFAULT_CLUSTER
from workloads.models import (
    ClaimRecord,
    ForeignPod,
    NodePoolRecord,
    NodeRecord,
    ObjectRecord,
    PodRecord,
    Workload,
)
from workloads.nodes import history
from workloads.podrequests import STORAGE, gpu_units, gpus_of_pod, units_of
from workloads.pods import evidence
from workloads.pods.pod_facts import (
    ENDED,
    attempt_of,
    created_at,
    others_held,
    parse_time,
    pod_facts,
    pod_times,
)

STATE = frozenset(
    {"phase", "ready", "restarts", "reason", "message", "exit_code", "resource_version", "evidence"}
)
# What such a field holds when a description says nothing of it.
KEPT: dict[str, Any] = {
    "attempt": 0,
    "node_name": "",
    "units": 0,
    "cpu_millicores": 0,
    "memory_bytes": 0,
    "storage_bytes": 0,
    "exit_code": None,
    "image_id": "",
    "disruption": "",
}
KEPT_OF_ENDED: dict[str, Any] = {"reason": "", "message": "", "evidence": {}}
WRITTEN = [
    "namespace",
    "name",
    "attempt",
    "resource_version",
    "created_at",
    "phase",
    "ready",
    "restarts",
    "reason",
    "disruption",
    "message",
    "node_name",
    "units",
    "exit_code",
    "image_id",
    "evidence",
    "cpu_millicores",
    "memory_bytes",
    "storage_bytes",
    "scheduled_at",
    "started_at",
    "finished_at",
    "deletion_at",
    "deletion_asked_at",
    "gone_at",
    "seen_until",
]
"""All columns that a later description may change."""
OBJECT_FACTS = [
    "api_version",
    "kind",
    "namespace",
    "name",
    "resource_version",
    "status",
    "created_at",
]
"""What may change of an object. Whose it is does not: anybody may write another label."""


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod's JSON, and its workload."""

    manifest: Mapping[str, Any]
    workload: Workload

    @property
    def uid(self) -> str:
        return str(self.manifest["metadata"]["uid"])


def record_pods(
    seen: Sequence[PodSeen], *, cluster: str, now: datetime, gone: bool = False, as_of: str = ""
) -> list[PodRecord]:
    """Bring the rows of these pods up to date, in as many statements for many as for one; the rows that changed.

    `as_of` is the version of the list that showed them; what a watch tells is as old as the object itself. A
    description that is older than what the row knows changes nothing of it. The rows stay locked until the
    caller's transaction ends, in the order of their UIDs, so that two processes that see the same pods cannot deadlock.
    """
    by_uid = {item.uid: item for item in seen}
    with transaction.atomic():
        rows = _locked(by_uid)
        unknown = by_uid.keys() - rows.keys()
        if unknown:
            # The watcher and a reconcile may see a new pod at the same moment.
            made = [
                _bring_up(_row_of(by_uid[uid], cluster), by_uid[uid], as_of=as_of, now=now, gone=gone)
                for uid in unknown
            ]
            PodRecord.objects.bulk_create([row for row in made if row is not None], ignore_conflicts=True)
            rows |= _locked(unknown)
        changes = {uid: _bring_up(rows[uid], by_uid[uid], as_of=as_of, now=now, gone=gone) for uid in rows}
        changed = [row for row in changes.values() if row is not None]
        PodRecord.objects.bulk_create(
            changed, update_conflicts=True, unique_fields=["uid"], update_fields=WRITTEN
        )
    for uid, row in rows.items():
        if row.workload_id == by_uid[uid].workload.pk:
            row.workload = by_uid[uid].workload
    return [rows[uid] for uid in rows if changes[uid] is not None or uid in unknown]


def _locked(uids: Collection[str]) -> dict[str, PodRecord]:
    rows = PodRecord.objects.select_for_update(no_key=True).filter(uid__in=list(uids)).order_by("uid")
    return {row.uid: row for row in rows}


def _row_of(seen: PodSeen, cluster: str) -> PodRecord:
    return PodRecord(cluster=cluster, uid=seen.uid, workload=seen.workload, attempt=0, resource_version="")


def _bring_up(row: PodRecord, seen: PodSeen, *, as_of: str, now: datetime, gone: bool) -> PodRecord | None:
    """The row updated from this description; None if nothing changed."""
    version = seen.manifest["metadata"]["resourceVersion"]
    as_of = versions.latest(version, as_of)
    before = {name: getattr(row, name) for name in WRITTEN}
    if not versions.is_older(as_of, than=row.resource_version):
        if gone:
            _leaves(row, seen.workload, followed=True, now=now)
        elif versions.is_later(as_of, than=row.resource_version):
            # It is there after it was missed: the process that missed it looked too early, or got a wrong answer.
            row.gone_at = row.seen_until = None
        resource = seen.workload.flavor.resource if seen.workload.flavor else ""
        for field, value in _replacing(row, pod_facts(seen.manifest, resource=resource)).items():
            setattr(row, field, value)
    elif gone:
        # A deletion holds however late it is reported: its UID does not come again.
        _leaves(row, seen.workload, followed=True, now=now)
    for field, value in pod_times(seen.manifest).items():
        if getattr(row, field) is None:
            setattr(row, field, value)
    row.ready = row.ready and row.gone_at is None
    return row if before != {name: getattr(row, name) for name in WRITTEN} else None


def _leaves(row: PodRecord, workload: Workload, *, followed: bool, now: datetime) -> None:
    """Note that the pod is not there, and until when it was. A watch that goes on tells it at once; who finds it lacking
    knows of the last sight of the watch, and of the last look at its workload.
    """
    if row.gone_at is None:
        trusted = history.WATCH_TRUSTED if followed else timedelta(0)
        sight = history.evidenced_until(cluster=row.cluster, kind="Pod", trusted=trusted, now=now)
        row.gone_at, row.seen_until = now, min(now, max(sight, workload.observed_at or sight))
    row.ready = False


def _replacing(record: PodRecord, facts: dict[str, Any]) -> dict[str, Any]:
    """The facts that may replace what is known: a pod that has ended does not live again, and what decides
    money is not forgotten because one description leaves it out.
    """
    if record.phase in ENDED and facts["phase"] not in ENDED:
        facts = {name: value for name, value in facts.items() if name not in STATE}
    kept = KEPT | KEPT_OF_ENDED if record.phase in ENDED else dict(KEPT)
    if record.phase not in ENDED and facts["phase"] in ENDED:
        # What a container ended with that was started again is not how the pod ended.
        del kept["exit_code"]
    return {name: value for name, value in facts.items() if name not in kept or value != kept[name]}


def unchanged(
    rows: type[PodRecord | ObjectRecord | NodeRecord], manifests: Sequence[Mapping[str, Any]]
) -> set[str]:
    """UIDs of the objects whose rows know them in exactly this version, and as being there."""
    shown = {manifest["metadata"]["uid"]: manifest["metadata"]["resourceVersion"] for manifest in manifests}
    known = rows.objects.filter(uid__in=list(shown), gone_at__isnull=True)
    return {uid for uid, version in known.values_list("uid", "resource_version") if shown[uid] == version}


def news(
    rows: type[PodRecord | ObjectRecord | NodeRecord], page: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """The other objects of the page: their rows know another version, or take them for gone, or are not there."""
    same = unchanged(rows, page)
    return [item for item in page if item["metadata"]["uid"] not in same]


def latest_version(rows: QuerySet[Any]) -> str:
    """The latest version that these rows know, of those that compare; empty where there is none."""
    known = Case(
        When(resource_version__regex=r"^[0-9]{1,18}$", then=Cast("resource_version", BigIntegerField()))
    )
    latest = rows.order_by().aggregate(latest=Max(known))["latest"]
    return "" if latest is None else str(latest)


def forget_later(rows: QuerySet[Any], *, version: str, **also: Any) -> int:
    """Forget which version the rows know, where it is later than this one, and write what is to be `also` of them;
    returns how many they were.

    For a cluster that was set back: the versions that follow are older than those of the rows, and newer than what
    they describe. A row that keeps no version was not seen since.
    """
    known = rows.exclude(resource_version="").values_list("pk", "resource_version")
    later = [pk for pk, has in known.iterator() if versions.is_older(version, than=has)]
    for start in range(0, len(later), _AT_ONCE):
        rows.filter(pk__in=later[start : start + _AT_ONCE]).update(resource_version="", **also)
    return len(later)


_AT_ONCE = 5_000


def mark_pods_missing(missing: Sequence[PodRecord], *, as_of: str, now: datetime) -> list[PodRecord]:
    """Mark gone those of the rows that are as they were read; `as_of` is the version of the list that lacked them.

    Call only with pods that a read by name did not find: a row that was written since then belongs to a pod
    that was there.
    """
    read = {row.pk: row.resource_version for row in missing}
    with transaction.atomic():
        rows = PodRecord.objects.filter(pk__in=list(read), gone_at__isnull=True)
        rows = rows.select_related("workload__flavor").select_for_update(no_key=True, of=("self",))
        gone = [row for row in rows.order_by("uid") if row.resource_version == read[row.pk]]
        for row in gone:
            _leaves(row, row.workload, followed=False, now=now)
            row.resource_version = versions.latest(row.resource_version, as_of)
        PodRecord.objects.bulk_update(gone, ["gone_at", "seen_until", "ready", "resource_version"])
    return gone


def record_object(
    manifest: Mapping[str, Any], *, workload: Workload, cluster: str, now: datetime, gone: bool = False
) -> ObjectRecord:
    """The row of an object that the portal made."""
    return record_objects([(manifest, workload)], cluster=cluster, now=now, gone=gone)[0]


def record_objects(
    seen: Sequence[tuple[Mapping[str, Any], Workload]],
    *,
    cluster: str,
    now: datetime,
    gone: bool = False,
    as_of: str = "",
) -> list[ObjectRecord]:
    """The same of many. A description that is older than what the row knows changes nothing.

    `as_of` is the version of the list that showed them: what is in it is there, and as the list says. Otherwise what has
    gone stays so, as its UID does not come again.
    """
    shown = {
        manifest["metadata"]["uid"]: versions.latest(manifest["metadata"]["resourceVersion"], as_of)
        for manifest, _ in seen
    }
    has = ObjectRecord.objects.filter(uid__in=list(shown)).values_list("uid", "resource_version")
    late = {uid for uid, version in has if versions.is_older(shown[uid], than=version)}
    rows = [
        ObjectRecord(
            cluster=cluster,
            uid=manifest["metadata"]["uid"],
            api_version=manifest["apiVersion"],
            kind=manifest["kind"],
            namespace=manifest["metadata"].get("namespace", ""),
            name=manifest["metadata"]["name"],
            workload=workload,
            attempt=attempt_of(manifest["metadata"]),
            resource_version=manifest["metadata"]["resourceVersion"],
            status=evidence.of_object(manifest),
            created_at=created_at(manifest["metadata"]),
            gone_at=now if gone else None,
        )
        for manifest, workload in seen
    ]
    fields = [*OBJECT_FACTS, "gone_at"] if gone or as_of else OBJECT_FACTS
    fresh = rows if gone else [row for row in rows if row.uid not in late]
    ObjectRecord.objects.bulk_create(
        fresh, update_conflicts=True, unique_fields=["uid"], update_fields=fields
    )
    return rows


@transaction.atomic
def record_node(
    manifest: Mapping[str, Any], *, cluster: str, now: datetime, gone: bool = False
) -> NodeRecord:
    """The row of a node, with whole units of the extended resources it offers, and its history.

    A description that is older than what the row knows changes nothing of it; a deletion holds however late it is told.
    """
    metadata, spec, status = manifest["metadata"], manifest.get("spec", {}), manifest.get("status", {})
    history.flavors_stay()
    before = NodeRecord.objects.select_for_update().filter(uid=metadata["uid"]).first()
    if before is not None and versions.is_older(metadata["resourceVersion"], than=before.resource_version):
        return mark_node_gone(before, now=now) if gone and before.gone_at is None else before
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in status.get("conditions") or []
    )
    allocatable = gpu_units(status.get("allocatable"))
    record, _ = NodeRecord.objects.update_or_create(
        cluster=cluster,
        uid=metadata["uid"],
        defaults={
            "name": metadata["name"],
            "resource_version": metadata["resourceVersion"],
            "labels": metadata.get("labels") or {},
            "taints": spec.get("taints") or [],
            "allocatable": allocatable,
            "others": {
                name: str(value)
                for name, value in (status.get("allocatable") or {}).items()
                if name not in allocatable
            },
            "capacity": gpu_units(status.get("capacity")),
            "conditions": evidence.of_node(manifest),
            "ready": ready,
            "unschedulable": bool(spec.get("unschedulable")),
            "created_at": created_at(metadata),
            "gone_at": now if gone else None,
        },
    )
    if gone:
        history.node_gone(record, left_at=parse_time(metadata.get("deletionTimestamp")), now=now)
    else:
        history.node_seen(record, before=before, now=now)
    return record


@transaction.atomic
def mark_node_gone(record: NodeRecord, *, now: datetime) -> NodeRecord:
    """The row of a node that is not there any more, and the end of its history."""
    record.gone_at, record.ready = now, False
    record.save(update_fields=["gone_at", "ready"])
    history.node_gone(record, now=now)
    return record


def record_foreign_pod(
    manifest: Mapping[str, Any], *, cluster: str, now: datetime, gone: bool = False
) -> set[str]:
    """Keep a row of a pod that is not the portal's for as long as it is on a node: one without GPUs may take the
    memory that a GPU needs beside it.

    Returns the names of the nodes on which others now hold something else than before.
    """
    metadata, held = manifest["metadata"], {} if gone else _held(manifest)
    before = ForeignPod.objects.filter(uid=metadata["uid"]).first()
    if not held:
        ForeignPod.objects.filter(uid=metadata["uid"]).delete()
        return {before.node_name} if before else set()
    if _holds(before, held):
        return set()
    ForeignPod.objects.update_or_create(
        cluster=cluster,
        uid=metadata["uid"],
        defaults={"namespace": metadata["namespace"], "name": metadata["name"], **held, "seen_at": now},
    )
    return {held["node_name"], before.node_name} if before else {held["node_name"]}


def unchanged_foreign_pods(manifests: Sequence[Mapping[str, Any]]) -> set[str]:
    """UIDs of the pods that hold what their rows say, or nothing where there is no row."""
    shown = {manifest["metadata"]["uid"]: _held(manifest) for manifest in manifests}
    rows = {row.uid: row for row in ForeignPod.objects.filter(uid__in=list(shown))}
    return {uid for uid, held in shown.items() if _holds(rows.get(uid), held)}


def _held(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The pod's node and resource use, by column; empty if it holds nothing."""
    spec = manifest.get("spec") or {}
    node = spec.get("nodeName") or ""
    if not node or (manifest.get("status") or {}).get("phase") in ENDED:
        return {}
    return {"node_name": node, "requests": gpus_of_pod(spec), **others_held(spec)}


def _holds(row: ForeignPod | None, held: Mapping[str, Any]) -> bool:
    if row is None or not held:
        return row is None and not held
    return all(getattr(row, name) == value for name, value in held.items())


def record_node_pool(manifest: Mapping[str, Any], *, cluster: str, now: datetime) -> NodePoolRecord:
    """The row of a Karpenter NodePool: what its nodes may be, and how many GPUs it may still bring."""
    metadata, spec, status = manifest["metadata"], manifest.get("spec") or {}, manifest.get("status") or {}
    template = spec.get("template") or {}
    made = template.get("spec") or {}
    record, _ = NodePoolRecord.objects.update_or_create(
        cluster=cluster,
        uid=metadata["uid"],
        defaults={
            "name": metadata["name"],
            "labels": (template.get("metadata") or {}).get("labels") or {},
            "requirements": made.get("requirements") or [],
            "taints": made.get("taints") or [],
            "limits": gpu_units(spec.get("limits")),
            "in_use": gpu_units(status.get("resources")),
            "observed_at": now,
        },
    )
    return record


def storage_of(manifest: Mapping[str, Any]) -> int:
    """The bytes that a PersistentVolumeClaim asks for, or those that it has where these are more."""
    asked = ((manifest.get("spec") or {}).get("resources") or {}).get("requests") or {}
    has = (manifest.get("status") or {}).get("capacity") or {}
    return max(units_of(STORAGE, str(amounts.get("storage", 0))) for amounts in (asked, has))


def record_claim(manifest: Mapping[str, Any], *, cluster: str, now: datetime) -> ClaimRecord:
    """The row of a PersistentVolumeClaim as it was seen now."""
    metadata, spec, status = manifest["metadata"], manifest.get("spec") or {}, manifest.get("status") or {}
    ends = bool(metadata.get("deletionTimestamp"))
    record, _ = ClaimRecord.objects.update_or_create(
        cluster=cluster,
        uid=metadata["uid"],
        defaults={
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "access_modes": list(spec.get("accessModes") or ()),
            "storage_bytes": storage_of(manifest),
            "phase": "Terminating" if ends else status.get("phase") or "Pending",
            "observed_at": now,
        },
    )
    return record


def storage_by_namespace(
    namespaces: Iterable[str], *, cluster: str = DEFAULT_CLUSTER
) -> dict[str, tuple[int, int]]:
    """How many PersistentVolumeClaims there are in these namespaces, and the bytes that they ask for or have."""
    claims = ClaimRecord.objects.of(cluster).filter(namespace__in=list(namespaces)).order_by()
    sums = claims.values_list("namespace").annotate(Count("pk"), Sum("storage_bytes"))
    return {namespace: (count, size or 0) for namespace, count, size in sums}


def storage_in(namespace: str, *, cluster: str = DEFAULT_CLUSTER) -> QuerySet[ClaimRecord, Any]:
    """One value for a statement that reads something else anyway: the namespace's `volumes` and their `bytes`."""
    claims = ClaimRecord.objects.of(cluster).filter(namespace=namespace).order_by().values("namespace")
    both = JSONObject(volumes=Count("pk"), bytes=Sum("storage_bytes"))
    return claims.annotate(both=both).values("both")
