"""A workload whose rows are made as the watcher makes them, of what an API server answers."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from controller.watch.events import record_events
from diagnosis.evidence import Case
from diagnosis.findings import Cause
from diagnosis.gather import case_of
from diagnosis.judge import diagnose
from logs.store import ContainerLog, source_of
from teams.models import Team
from tests.factories.catalogue import make_flavor, make_quota
from tests.factories.submitted import make_attempt, make_endpoint, make_run
from tests.factories.teams import make_member, make_team
from tests.factories.workloads import put_in
from tests.pod_samples import T3, moment
from workloads.models import PodRecord, Workload
from workloads.observations import PodSeen, record_claim, record_node, record_objects, record_pods
from workloads.states import Phase

NOW = moment(T3) + timedelta(minutes=1)
GPU = "nvidia.com/gpu"


def workload_in(phase: str = "Failed", *, kind: str = "training-run", **values: Any) -> Workload:
    """A workload in its first attempt, of team vision."""
    return in_its_first_attempt(make_team("vision"), phase, kind=kind, **values)


def in_its_first_attempt(
    team: Team, phase: str, *, kind: str = "training-run", since: datetime = NOW, **values: Any
) -> Workload:
    make = make_endpoint if kind == "endpoint" else make_run
    flavor = make_flavor()
    make_quota(team, flavor, 8)
    row = make(team, make_member(team=team).user, flavor=flavor)
    make_attempt(row)
    return put_in(row, Phase(phase), since=since, **values)


def one_of_each_kind() -> dict[str, Workload]:
    """A run and an endpoint of one team, each in its first attempt, to plant in what is undone."""
    run = workload_in("Queued")
    endpoint = make_endpoint(run.team, run.owner, flavor=run.flavor)
    make_attempt(endpoint)
    return {"training-run": run, "endpoint": put_in(endpoint, Phase.QUEUED, since=NOW)}


class Planted:
    """What is in the cluster about one workload."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload

    def pods(self, *pods: dict[str, Any], gone: bool = False) -> Planted:
        for pod in pods:
            pod["metadata"].setdefault("labels", {})["mlportal.dev/attempt"] = "1"
        seen = [PodSeen(pod, self.workload) for pod in pods]
        record_pods(seen, cluster="default", now=NOW, gone=gone)
        return self

    def object(self, kind: str, name: str = "a-1", **manifest: Any) -> Planted:
        metadata = {
            "name": name,
            "namespace": "team-vision",
            "uid": f"uid-{kind}-{name}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-11-01T10:00:00Z",
            "labels": {"mlportal.dev/attempt": "1"},
            **manifest.pop("metadata", {}),
        }
        raw = {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, **manifest}
        record_objects([(raw, self.workload)], cluster="default", now=NOW)
        return self

    def conditions(self, kind: str, *conditions: tuple[str, str, str, str]) -> Planted:
        """An object with conditions, as type, status, reason, message."""
        told = [dict(zip(("type", "status", "reason", "message"), item, strict=True)) for item in conditions]
        return self.object(kind, status={"conditions": told})

    def said(
        self,
        reason: str,
        message: str,
        *,
        kind: str = "Pod",
        name: str = "a-1-x7k2p",
        uid: str | None = None,
        at: str = "2026-11-01T10:20:00Z",
        **more: Any,
    ) -> Planted:
        about = {
            "kind": kind,
            "namespace": "" if kind == "Node" else "team-vision",
            "name": name,
            "uid": uid if uid is not None else f"uid-{name}" if kind == "Pod" else f"uid-{kind}-{name}",
        }
        event = {
            "metadata": {
                "uid": str(uuid5(NAMESPACE_OID, f"{reason} {kind} {name} {at}")),
                "name": "e",
                "creationTimestamp": at,
            },
            "involvedObject": about,
            "reason": reason,
            "message": message,
            "type": "Warning",
            "firstTimestamp": at,
            "lastTimestamp": at,
            **more,
        }
        record_events([event], cluster="default", now=NOW)
        return self

    def node(self, name: str, **how: Any) -> Planted:
        """A node, as `node_manifest` describes it."""
        record_node(node_manifest(name, **how), cluster="default", now=NOW)
        return self

    def claim(self, name: str, phase: str) -> Planted:
        record_claim(
            {
                "metadata": {"name": name, "namespace": "team-vision", "uid": f"uid-{name}"},
                "status": {"phase": phase},
            },
            cluster="default",
            now=NOW,
        )
        return self

    def wrote(self, *lines: str, pod: str = "a-1-x7k2p") -> Planted:
        """Lines of a pod's log, as the watcher stores them."""
        row = PodRecord.objects.select_related("workload").get(workload=self.workload, name=pod)
        log = ContainerLog(source_of(row, container="main"))
        log.load()
        log.append([f"{T3[:-1]}.000000000Z {line}".encode() for line in lines], now=NOW)
        return self

    def case(self, *, now: datetime = NOW) -> Case:
        return case_of(self.workload, now=now)

    def findings(self, *, now: datetime = NOW) -> list[Cause]:
        return diagnose(self.case(now=now))

    def ids(self, *, now: datetime = NOW) -> list[str]:
        return [finding.id for finding in self.findings(now=now)]


def node_manifest(
    name: str,
    *,
    gpus: int | None = 8,
    has: int | None = None,
    labels: dict[str, str] | None = None,
    taints: tuple[dict[str, str], ...] = (),
    unschedulable: bool = False,
    conditions: tuple[dict[str, str], ...] = (),
) -> dict[str, Any]:
    """A node that offers `gpus` of the `has` that it has; None: not even that it has any."""
    allocatable = {"cpu": "64", "memory": "512Gi", **({GPU: str(gpus)} if gpus is not None else {})}
    ready = {"type": "Ready", "status": "True"}
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-11-01T09:00:00Z",
            "labels": {"gpu": "a100"} if labels is None else labels,
        },
        "spec": {"taints": list(taints), "unschedulable": unschedulable},
        "status": {
            "allocatable": allocatable,
            "capacity": {**allocatable, **({GPU: str(has)} if has is not None else {})},
            "conditions": [ready, *conditions],
        },
    }
