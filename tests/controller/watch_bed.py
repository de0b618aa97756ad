"""One kind followed as the portal follows it, through a relay, and pods of a run to be seen by it."""

from __future__ import annotations

import threading
from contextlib import contextmanager

from cluster import kinds
from cluster.client import connect
from cluster.kinds import ObjectRef
from cluster.labels import workload_labels
from controller.watch.pods import PodSink
from controller.watch.watcher import OWN
from logs.collector import LogCollector
from tests.controller.clusters import gone
from tests.controller.followers import Follower
from tests.waiting import until
from workloads.models import PodRecord


class Waits(threading.Event):
    """Notes how long is waited, without waiting; set after `times`."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times
        self.seconds: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.seconds.append(timeout)
        if len(self.seconds) == self.times:
            self.set()
        return self.is_set()


class Pods:
    def __init__(self, client, namespace, run) -> None:
        self.client, self.namespace, self.run = client, namespace, run

    def make(self, name, *, labels=None, **env):
        if labels is None:
            facts = {
                "workload_id": str(self.run.public_id),
                "attempt": 1,
                "team": "x",
                "kind": "training-run",
            }
            labels = workload_labels(**facts)
        container = {
            "name": "main",
            "image": "x",
            "env": [{"name": key, "value": value} for key, value in env.items()],
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
        }
        metadata = {"name": name, "namespace": self.namespace, "labels": labels}
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
        }
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        return self.client.create(manifest)["metadata"]["uid"]

    def phase(self, name):
        return self.client.get(ObjectRef("v1", "Pod", self.namespace, name))["status"].get("phase")

    def delete(self, name, uid):
        ref = ObjectRef("v1", "Pod", self.namespace, name)
        self.client.delete(ref, uid=uid, grace_seconds=0)
        until(lambda: gone(self.client, ref))

    def churn(self, count=40):
        """More changes than the cluster remembers."""
        ref = ObjectRef("v1", "Namespace", "", self.namespace)
        for index in range(count):
            self.client.patch_merge(ref, {"metadata": {"annotations": {"churn": str(index)}}})


@contextmanager
def following(relay, *, kind=kinds.POD, sink=None, scope=OWN, version=""):
    client = connect(relay.kubeconfig, timeout=(2, 10))
    stop = threading.Event()
    sink = sink or PodSink(LogCollector(lambda: client))
    follower = Follower(kind=kind, sink=sink, client=lambda: client, stop=stop, scope=scope)
    follower.resource_version = version
    follower.start()
    try:
        yield follower
    finally:
        stop.set()
        until(lambda: relay.cut() or follower.join(0.05) or not follower.is_alive())
        client.close()


def record(uid, **having):
    return PodRecord.objects.filter(uid=uid, **having).first()


def seen(uid, **having):
    return until(lambda: record(uid, **having), said=lambda: list(PodRecord.objects.values()))
