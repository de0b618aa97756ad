"""Reads what a diagnosis is made from, in a bounded number of queries; nothing here asks the cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django.db.models import Q

from controller.reconcile.adapters import adapter_for
from diagnosis.evidence import (
    Asked,
    Case,
    ClaimEvidence,
    LogEvidence,
    NodeEvidence,
    ObjectEvidence,
    PodEvidence,
    Said,
)
from foundation.errors import NotFound
from logs.reading import read_lines
from workloads.models import (
    Attempt,
    ClaimRecord,
    EventRecord,
    NodeRecord,
    ObjectRecord,
    PodRecord,
    Workload,
)
from workloads.placement import Sharing

PODS_MAX: Final = 200
OBJECTS_MAX: Final = 50
NODES_MAX: Final = 2_000
EVENTS_MAX: Final = 400
LOG_LINES: Final = 200
_CLAIM: Final = "PersistentVolumeClaim"
_REPLICA_SET: Final = "ReplicaSet"
_NODE: Final = "Node"


def case_of(workload: Workload, *, now: datetime, attempt: int | None = None) -> Case:
    """The case of its newest attempt, or of the one named; NotFound for one that it has not had. Who may see the workload
    is for the caller to say.
    """
    number = workload.attempt_number if attempt is None else attempt
    older = None if number == workload.attempt_number else _older(workload, number)
    pods = _pods(workload, number)
    objects = _objects(workload, number)
    claims = _claims(workload, pods)
    said = _said(workload, pods, objects, [claim.name for claim in claims])
    return Case(
        name=workload.name,
        noun=workload.own_kind.noun,
        phase=older.phase if older else workload.phase,
        reason=older.reason if older else workload.reason,
        message=older.message if older else workload.message,
        since=older.ended_at if older else workload.since,
        ends=workload.own_kind.ends,
        attempt=number,
        resource=workload.flavor.resource if workload.flavor else "",
        now=now,
        asked=_asked(workload),
        pods=[_pod(row, said) for row in pods],
        objects=[*(_object(row, said) for row in objects), *_replica_sets(said)],
        nodes=_nodes(workload, pods, said),
        claims=[_claim(claim, said) for claim in claims],
        log=_log(workload, number, pods),
    )


def _asked(workload: Workload) -> Asked:
    spec, flavor = adapter_for(workload.kind).asked(workload), workload.flavor
    keys: dict[str, list[str]] = {}
    for use in spec.secret_uses():
        keys.setdefault(use.secret, []).append(use.key)
    alike = len(spec.pod_groups(workload.pod_count)) == 1
    return Asked(
        command=next(iter(spec.command), ""),
        memory=spec.memory.limit if alike else "",
        shm=spec.shm or "",
        storage=spec.ephemeral_storage.limit if spec.ephemeral_storage else "",
        gpus=spec.gpus_per_replica,
        pods=workload.pod_count,
        flavor=flavor.name if flavor else "",
        sharing="" if flavor is None or flavor.sharing == Sharing.NONE else str(flavor.sharing),
        keys=keys,
        pull_secrets=spec.image_pull_secrets,
    )


def _older(workload: Workload, number: int) -> Attempt:
    row = Attempt.objects.filter(workload=workload, number=number).first()
    if row is None:
        raise NotFound(f"There is no attempt {number} of {workload.name}.")
    return row


def _pods(workload: Workload, number: int) -> list[PodRecord]:
    if not number:
        return []
    rows = PodRecord.objects.filter(workload=workload)
    if workload.own_kind.ends:
        return list(rows.filter(attempt=number).order_by("id")[:PODS_MAX])
    # Replicas come and go; those that are there count, or the last one if there is none.
    there = list(rows.filter(gone_at__isnull=True).order_by("-created_at", "-id")[:PODS_MAX])
    return there or list(rows.order_by("-created_at", "-id")[:1])


def _objects(workload: Workload, number: int) -> list[ObjectRecord]:
    if not number:
        return []
    rows = ObjectRecord.objects.filter(workload=workload)
    if workload.own_kind.ends:
        rows = rows.filter(attempt=number)
    else:
        rows = rows.filter(gone_at__isnull=True)
    return list(rows.order_by("-created_at", "-id")[:OBJECTS_MAX])


def _claims(workload: Workload, pods: Iterable[PodRecord]) -> list[ClaimEvidence]:
    """The claims that its pods without a node mount, there or not."""
    names = {name for row in pods for name in (row.evidence.get("asks") or {}).get("claims") or ()}
    if not names:
        return []
    rows = ClaimRecord.objects.of(workload.cluster).filter(
        namespace=workload.team.namespace_name, name__in=names
    )
    phases = dict(rows.values_list("name", "phase"))
    return [ClaimEvidence(name=name, phase=phases.get(name, "")) for name in sorted(names)]


def _said(
    workload: Workload,
    pods: Sequence[PodRecord],
    objects: Sequence[ObjectRecord],
    claims: Collection[str],
) -> list[EventRecord]:
    """What was said of any of them, the newest first. A ReplicaSet has no row of its own: it is known by the Deployment's name."""
    if not pods and not objects:
        return []
    namespace = workload.team.namespace_name
    wanted = Q(object_uid__in=[*(row.uid for row in pods), *(row.uid for row in objects)])
    for item in objects:
        if item.kind == "Deployment":
            wanted |= Q(
                namespace=namespace, object_kind=_REPLICA_SET, object_name__startswith=f"{item.name}-"
            )
    if claims:
        wanted |= Q(namespace=namespace, object_kind=_CLAIM, object_name__in=list(claims))
    if nodes := {row.node_name for row in pods if row.node_name}:
        wanted |= Q(namespace="", object_kind=_NODE, object_name__in=nodes)
    rows = EventRecord.objects.of(workload.cluster).filter(wanted)
    return list(rows.order_by("-last_at", "-id")[:EVENTS_MAX])


def _nodes(workload: Workload, pods: Sequence[PodRecord], said: Sequence[EventRecord]) -> list[NodeEvidence]:
    """The nodes that its pods are on; all that there are, where a pod has none."""
    homeless = any(row.evidence.get("asks") and row.gone_at is None for row in pods)
    names = {row.node_name for row in pods if row.node_name}
    if not homeless and not names:
        return []
    rows = NodeRecord.objects.of(workload.cluster)
    rows = (
        rows.filter(Q(gone_at__isnull=True) | Q(name__in=names)) if homeless else rows.filter(name__in=names)
    )
    return [
        NodeEvidence(
            facts=row.facts,
            capacity={name: int(value) for name, value in row.capacity.items()},
            others=row.others,
            conditions=row.conditions,
            gone_at=row.gone_at,
            said=_of(said, name=row.name, kind=_NODE),
        )
        for row in rows.order_by("name", "gone_at")[:NODES_MAX]
    ]


def _pod(row: PodRecord, said: Sequence[EventRecord]) -> PodEvidence:
    return PodEvidence(
        name=row.name,
        node=row.node_name,
        phase=row.phase,
        ready=row.ready,
        restarts=row.restarts,
        units=row.units,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        deletion_at=row.deletion_at,
        gone_at=row.gone_at,
        told=row.evidence,
        said=_of(said, uid=row.uid),
    )


def _object(row: ObjectRecord, said: Sequence[EventRecord]) -> ObjectEvidence:
    return ObjectEvidence(
        kind=row.kind, name=row.name, told=row.status, said=_of(said, uid=row.uid), gone_at=row.gone_at
    )


def _replica_sets(said: Sequence[EventRecord]) -> list[ObjectEvidence]:
    """The ReplicaSet that something was said of last: those before it make no pods any more."""
    newest = next((row.object_name for row in said if row.object_kind == _REPLICA_SET), None)
    if newest is None:
        return []
    return [ObjectEvidence(kind=_REPLICA_SET, name=newest, said=_of(said, name=newest, kind=_REPLICA_SET))]


def _claim(claim: ClaimEvidence, said: Sequence[EventRecord]) -> ClaimEvidence:
    return ClaimEvidence(name=claim.name, phase=claim.phase, said=_of(said, name=claim.name, kind=_CLAIM))


def _of(said: Sequence[EventRecord], **about: str) -> list[Said]:
    wanted: Mapping[str, Any] = {f"object_{key}": value for key, value in about.items()}
    return [
        Said(
            kind=row.object_kind,
            name=row.object_name,
            reason=row.reason,
            message=row.message,
            warning=row.warning,
            source=row.source,
            count=row.count,
            at=row.last_at,
        )
        for row in said
        if all(getattr(row, key) == value for key, value in wanted.items())
    ]


def _log(workload: Workload, number: int, pods: Sequence[PodRecord]) -> list[LogEvidence]:
    """The last lines, if a container ended with an exit code of its own: only then do they tell why."""
    if not any(row.exit_code or _ended_badly(row.evidence) for row in pods):
        return []
    attempts = [Attempt(number=number)] if number == workload.attempt_number else None
    page = read_lines(workload, attempt=number, tail=LOG_LINES, attempts=attempts)
    return [LogEvidence(line.at, line.pod, line.text) for line in page.lines]


def _ended_badly(told: Mapping[str, Any]) -> bool:
    return any(
        (item.get(key) or {}).get("exitCode")
        for item in told.get("containers") or ()
        for key in ("state", "last")
    )
