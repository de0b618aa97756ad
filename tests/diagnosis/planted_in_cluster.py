"""The same rows planted in a cluster: objects with the status that a scheduler, a kubelet or an operator writes.

What is written is looked at as the watcher looks at it. Nothing there works on these pods: no scheduler has the name that
they ask for, no kubelet the node that they are on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any
from uuid import uuid4

from typing_extensions import override

from cluster import kinds
from cluster.client import ClusterClient
from cluster.kinds import ObjectRef, ResourceKind, ref_of
from cluster.labels import workload_labels
from controller.watch.events import record_events
from devcluster.kubelet.base import LOST
from foundation import clock
from tests.controller.conftest import REAL
from tests.diagnosis.planted import Planted, node_manifest
from tests.waiting import until
from workloads.models import Workload
from workloads.observations import PodSeen, record_claim, record_node, record_objects, record_pods
from workloads.strays import workloads_of

NOBODY = "nobody"
NEVER_STARTS = {"name": "BED_START_SECONDS", "value": "86400"}
"""To the kubelet of a real test cluster, which plays every node."""
_KINDS: dict[str, ResourceKind] = {
    kind.kind: kind for kind in (kinds.JOB, kinds.PYTORCH_JOB, kinds.AUTOSCALER)
}
_MAIN = {"name": "main", "image": "example.org/train:1"}
_NEVER = {"spec": {"restartPolicy": "Never", "containers": [_MAIN]}}
_PYTORCH = {"name": "pytorch", "image": "example.org/train:1"}
_SPECS: dict[str, dict[str, Any]] = {
    "Job": {"suspend": True, "template": _NEVER},
    "PyTorchJob": {
        "runPolicy": {"suspend": True},
        "pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": {"spec": {"containers": [_PYTORCH]}}}},
    },
    "HorizontalPodAutoscaler": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "absent"},
        "maxReplicas": 2,
    },
}


class PlantedInCluster(Planted):
    """What is planted, in a cluster; `look` reads it back."""

    def __init__(self, workload: Workload, client: ClusterClient) -> None:
        super().__init__(workload)
        self.client, self.namespace = client, workload.team.namespace_name
        self.nodes: dict[str, str] = {}
        """What nodes are called here, by the name that the row has for each: they are the whole cluster's."""
        self.told: set[str] = set()
        """Those that the row describes; the others are only there to have pods on them."""
        self.made: dict[tuple[str, str], dict[str, Any]] = {}
        self.planted: list[dict[str, Any]] = []

    @override
    def pods(self, *pods: dict[str, Any], gone: bool = False) -> Planted:
        for item in pods:
            shown = item["metadata"]
            finalizers = ["example.org/held"] if shown.get("deletionTimestamp") else []
            containers = [{**each, "env": [NEVER_STARTS]} for each in item["spec"]["containers"]]
            spec = {
                **item["spec"],
                "containers": containers,
                "schedulerName": NOBODY,
                "restartPolicy": "Never",
            }
            if spec.get("nodeName"):
                spec["nodeName"] = self._host(spec["nodeName"])
            else:
                spec.pop("nodeName", None)
            init = [
                {**_MAIN, "name": status["name"]}
                for status in item["status"].get("initContainerStatuses", ())
            ]
            metadata = {"name": shown["name"], "labels": self._labels(), "finalizers": finalizers}
            made = self._make("v1", "Pod", metadata, spec={**spec, "initContainers": init})
            if self.client.source == REAL and "nodeName" in spec:
                # The kubelet that plays every node there has to write first: later it leaves the pod as it is.
                until(partial(self._begun, ref_of(made)))
            self._status(made, _of_containers(item["status"]))
            if finalizers:
                self.client.delete(ref_of(made), uid=made["metadata"]["uid"], grace_seconds=0)
        self.look()
        return self

    @override
    def object(self, kind: str, name: str = "a-1", **manifest: Any) -> Planted:
        of = _KINDS[kind]
        made = self._make(of.api_version, kind, {"name": name, "labels": self._labels()}, spec=_SPECS[kind])
        if status := manifest.get("status"):
            self._status(made, _of_job(status) if kind == "Job" else status)
        self.look()
        return self

    @override
    def said(
        self,
        reason: str,
        message: str,
        *,
        kind: str = "Pod",
        name: str = "a-1-x7k2p",
        uid: str | None = None,
        at: str = "",
        **more: Any,
    ) -> Planted:
        moment = _written(clock.now())
        about: dict[str, Any] = {"kind": kind, "name": name}
        if kind == "Node":
            # The kubelet says of its node what has the node's name for a UID.
            about |= {"name": self._node(name), "uid": self._node(name)}
        else:
            about |= {"namespace": self.namespace, "uid": self.made[kind, name]["metadata"]["uid"]}
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"e-{uuid4().hex[:12]}", "namespace": self._namespace_of(kind)},
            "involvedObject": about,
            "reason": reason,
            "message": message,
            "type": "Warning",
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            **more,
        }
        self.planted.append(self.client.create(event))
        self.look()
        return self

    @override
    def node(self, name: str, **how: Any) -> Planted:
        raw = node_manifest(name, **how)
        self.told.add(self._make_node(name, raw["metadata"]["labels"], raw["spec"], raw["status"]))
        self.look()
        return self

    def look(self) -> None:
        """Read everything back, as the watcher does."""
        now, cluster = clock.now(), self.client.cluster
        for node in self.client.list(kinds.NODE).items:
            if node["metadata"]["name"] in self.told:
                record_node(node, cluster=cluster, now=now)
        pods = self.client.list(kinds.POD, namespace=self.namespace).items
        own = zip(pods, workloads_of(pods), strict=True)
        record_pods([PodSeen(pod, run) for pod, run in own if run is not None], cluster=cluster, now=now)
        for kind in sorted({name for name, _ in self.made} & _KINDS.keys()):
            of = _KINDS[kind]
            items = self.client.list(of, namespace=self.namespace).items
            seen = [({"apiVersion": of.api_version, "kind": kind, **item}, self.workload) for item in items]
            record_objects(seen, cluster=cluster, now=now)
        for claim in self.client.list(kinds.CLAIM, namespace=self.namespace).items:
            record_claim(claim, cluster=cluster, now=now)
        events = self.client.list(kinds.EVENT, namespace=self.namespace).items
        if self.nodes:
            events += self.client.list(kinds.EVENT, namespace="default").items
        record_events(events, cluster=cluster, now=now)

    def clear(self) -> None:
        """Take away what does not go with the namespace."""
        for (kind, _), made in self.made.items():
            if kind == "Pod" and made["metadata"].get("finalizers"):
                self.client.patch_merge(ref_of(made), {"metadata": {"finalizers": None}})
        for item in self.planted:
            self.client.delete(ref_of(item), uid=item["metadata"]["uid"])

    def _make(self, version: str, kind: str, metadata: dict[str, Any], **fields: Any) -> dict[str, Any]:
        body = {"apiVersion": version, "kind": kind, "metadata": {**metadata, "namespace": self.namespace}}
        made = self.made[kind, metadata["name"]] = self.client.create({**body, **fields})
        return made

    def _status(self, made: dict[str, Any], status: dict[str, Any]) -> None:
        self.client.patch_merge(ref_of(made), {"status": status}, sub="status")

    def _begun(self, pod: ObjectRef) -> bool:
        return "startTime" in self.client.get(pod)["status"]

    def _labels(self) -> dict[str, str]:
        run = self.workload
        facts = {"attempt": 1, "team": run.team.slug, "kind": run.kind}
        return workload_labels(workload_id=str(run.public_id), **facts)

    def _node(self, name: str) -> str:
        return self.nodes.setdefault(name, f"{name}-{uuid4().hex[:8]}")

    def _host(self, name: str) -> str:
        """A node of that name, there or made now."""
        return self.nodes[name] if name in self.nodes else self._make_node(name, {}, {}, {})

    def _make_node(
        self, name: str, labels: dict[str, str], spec: dict[str, Any], status: dict[str, Any]
    ) -> str:
        # To devcluster it is one whose kubelet is dead: it leaves the pods' status to who writes it here. One that is
        # closed takes no pod, and would be called unreachable as well.
        annotations = {} if spec.get("unschedulable") else {LOST: "true"}
        metadata = {"name": self._node(name), "labels": labels, "annotations": annotations}
        made = self.client.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec})
        self.planted.append(made)
        if status:
            self._status(made, status)
        return self._node(name)

    def _namespace_of(self, kind: str) -> str:
        return "default" if kind == "Node" else self.namespace


@contextmanager
def planting(workload: Workload, client: ClusterClient) -> Iterator[PlantedInCluster]:
    """What is planted here goes again."""
    it = PlantedInCluster(workload, client)
    try:
        yield it
    finally:
        it.clear()


def _of_containers(status: dict[str, Any]) -> dict[str, Any]:
    """As a kubelet writes it: with all that the API asks of a container's status."""
    told = dict(status)
    for key in ("containerStatuses", "initContainerStatuses"):
        if key in told:
            told[key] = [{"imageID": "", "restartCount": 0, **item} for item in told[key]]
    return told


def _of_job(status: dict[str, Any]) -> dict[str, Any]:
    """As its controller writes it: a Job that failed began, and was to fail before."""
    conditions = [
        {**item, "type": kind} for item in status["conditions"] for kind in ("FailureTarget", item["type"])
    ]
    return {"startTime": _written(clock.now()), "conditions": conditions}


def _written(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
