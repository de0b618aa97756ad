"""Runs of the kinds that operators carry out, on the control plane that PORTAL_TEST_KUBECONFIG names.

What the fake kubelet there does not do, the test does in its place: end the containers of a deleted pod that a Job
still holds by its finalizer. Nodes are lost, tainted and taken away for all who use that control plane: one test at a time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

from cluster import kinds
from cluster.errors import ClusterConflict, ClusterRejected, ObjectNotFound
from cluster.kinds import ObjectRef, ResourceKind
from cluster.labels import selector
from controller.reconcile import garbage
from controller.watch.watcher import Watcher
from foundation import clock
from foundation.models import PlatformSettings
from jobs.kinds import OBJECTS
from tests.controller.conftest import Bench
from tests.factories.catalogue import make_price, make_quota
from tests.waiting import until
from workloads.models import Workload

MERGE = "application/merge-patch+json"
STOP_SECONDS = 2
CAPACITY = {name: {"node_selector": {"karpenter.sh/capacity-type": [name]}} for name in ("on-demand", "spot")}
LEFT_BY_NOBODY = (
    *OBJECTS,
    kinds.POD,
    kinds.SERVICE,
    kinds.CONFIG_MAP,
    kinds.SECRET,
    kinds.SERVICE_ACCOUNT,
    kinds.NETWORK_POLICY,
    kinds.DISRUPTION_BUDGET,
)
"""What a run, or its operator for it, may make in the namespace."""


class KindsBed:
    """A bench whose team may have runs of every kind that this cluster serves."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.client = bench.client
        bench.flavor.capacity = CAPACITY
        bench.flavor.save()
        make_quota(bench.team, bench.flavor, 32)
        make_quota(bench.team, bench.flavor, 16, "spot")
        make_price(capacity_type="spot")
        optional = ["pytorchjob", "tfjob", "mpijob", "mpijob-v1", "trainjob"]
        settings = {"grace_seconds": STOP_SECONDS, "minimum_run_seconds": 0, "optional_kinds": optional}
        PlatformSettings.objects.update_or_create(pk=1, defaults=settings)
        self.list_as_the_watcher_does(*(kind for kind in OBJECTS if kind in self.served()))

    def list_as_the_watcher_does(self, *wanted: ResourceKind) -> None:
        """What a watcher that starts now reads first: nothing watches beside the test."""
        for thread in Watcher(lambda: self.client).threads:
            if thread.kind in wanted:
                thread.relist(self.client)

    def submit(self, *, env: dict[str, Any] | None = None, **fields: Any) -> Workload:
        # A pod that takes no time to stop is gone before anybody sees why.
        steering = {"BED_STOP_SECONDS": STOP_SECONDS, **(env or {})}
        return self.bench.submit(name=f"r-{uuid4().hex[:6]}", env=steering, **fields)

    def until(self, run: Workload, done: Callable[[Workload], bool], seconds: float = 90) -> Workload:
        def seen(run: Workload) -> bool:
            self.end_deleted_pods(run)
            return done(run)

        return self.bench.until(run, seen, seconds=seconds)

    def running(self, run: Workload, attempt: int = 1) -> Workload:
        return self.until(run, lambda run: run.phase == "Running" and run.attempt_number == attempt)

    # -- what is in the cluster -------------------------------------------------------------------------------------

    def listed(self, kind: ResourceKind, **query: Any) -> list[dict[str, Any]]:
        found = self.client.list(kind, namespace=self.bench.team.namespace_name, **query).items
        return [{"apiVersion": kind.api_version, "kind": kind.kind, **each} for each in found]

    def pods(self, run: Workload) -> list[dict[str, Any]]:
        """Those of the current attempt, by name."""
        own = selector(workload_id=str(run.public_id)) + f",mlportal.dev/attempt={run.attempt_number}"
        return sorted(self.listed(kinds.POD, label_selector=own), key=lambda pod: pod["metadata"]["name"])

    def primary(self, run: Workload) -> dict[str, Any]:
        attempt = run.attempts.get(number=run.attempt_number)
        kind = kinds.named(attempt.object_kind)
        ref = ObjectRef(kind.api_version, kind.kind, run.team.namespace_name, attempt.object_name)
        return self.client.get(ref)

    def served(self) -> list[ResourceKind]:
        served = self.client.served_kinds()
        return [kind for kind in LEFT_BY_NOBODY if (kind.api_version, kind.kind) in served]

    def objects(self) -> set[str]:
        """Everything in the namespace that a run may be the reason of."""
        return {
            f"{kind.kind}/{each['metadata']['name']}" for kind in self.served() for each in self.listed(kind)
        }

    # -- what a kubelet, a person or a cloud does -------------------------------------------------------------------

    def end_deleted_pods(self, run: Workload) -> None:
        for pod in self.pods(run) if run.attempt_number else ():
            held = pod["metadata"].get("deletionTimestamp") and pod["metadata"].get("finalizers")
            if held and pod["status"].get("phase") in {"Pending", "Running"}:
                self._end(pod)

    def _end(self, pod: dict[str, Any]) -> None:
        (container,) = pod["spec"]["containers"]
        state = {"exitCode": 143, "reason": "Error", "finishedAt": pod["metadata"]["deletionTimestamp"]}
        ended = {"name": container["name"], "image": "", "imageID": "", "ready": False, "restartCount": 0}
        status = {"phase": "Failed", "containerStatuses": [{**ended, "state": {"terminated": state}}]}
        metadata = pod["metadata"]
        path = kinds.POD.path(namespace=metadata["namespace"], name=metadata["name"], sub="status")
        with contextlib.suppress(ObjectNotFound, ClusterConflict):
            self.client._json("PATCH", path, body={"status": status}, content_type=MERGE)

    def let_end(self, run: Workload, *, only: int | None = None) -> None:
        """The pods of the current attempt end well, and so do those that come later in it."""
        note = {"metadata": {"annotations": {"realcluster/run-seconds": "0"}}}
        for pod in self.pods(run)[:only]:
            with contextlib.suppress(ObjectNotFound):
                self.client.patch_merge(kinds.ref_of(pod), note)

    def to_the_end(self, run: Workload, seconds: float = 90) -> Workload:
        def ended(run: Workload) -> bool:
            self.end_deleted_pods(run)
            if run.phase == "Running":
                self.let_end(run)
            return run.is_final

        return self.bench.until(run, ended, seconds=seconds)

    def collect(self) -> None:
        """Let the time pass after which the objects of what has ended are deleted."""
        garbage.delete_ended(self.client, now=clock.now() + timedelta(hours=1))

    def delete(self, found: dict[str, Any]) -> None:
        self.client.delete(kinds.ref_of(found), uid=found["metadata"]["uid"])

    def evict(self, pod: dict[str, Any]) -> None:
        metadata = {name: pod["metadata"][name] for name in ("name", "namespace")}
        path = kinds.POD.path(**metadata, sub="eviction")
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        self.client._json("POST", path, body=body)

    @contextlib.contextmanager
    def lost(self, node: str) -> Iterator[None]:
        """The node stops its heartbeats until the end of the block."""
        ref = ObjectRef("v1", "Node", "", node)
        self.client.patch_merge(ref, {"metadata": {"annotations": {"realcluster/lost": "true"}}})
        try:
            yield
        finally:
            self.client.patch_merge(ref, {"metadata": {"annotations": {"realcluster/lost": None}}})

    @contextlib.contextmanager
    def gone(self, node: str) -> Iterator[None]:
        """The node is no longer there until the end of the block: its instance was taken back."""
        ref = ObjectRef("v1", "Node", "", node)
        found = self.client.get(ref)
        self.client.delete(ref, uid=found["metadata"]["uid"])
        try:
            self.list_as_the_watcher_does(kinds.NODE)
            yield
        finally:
            kept = {name: found["metadata"][name] for name in ("name", "labels", "annotations")}
            spec = {"taints": [each for each in found["spec"]["taints"] if each["key"] == "nvidia.com/gpu"]}
            status = {name: found["status"][name] for name in ("capacity", "allocatable", "nodeInfo")}
            self.client.create({**found, "metadata": kept, "spec": spec, "status": status})

    def cordoned(self, node: str) -> contextlib.AbstractContextManager[None]:
        """The node takes no more pods until the end of the block."""
        return self._with_spec(node, {"unschedulable": True})

    def tainted(self, node: str) -> contextlib.AbstractContextManager[None]:
        """The node tolerates no pods, those that run neither, until the end of the block."""
        found = self.client.get(ObjectRef("v1", "Node", "", node))
        away = {"key": "tests/away", "effect": "NoExecute"}
        return self._with_spec(node, {"taints": [*found["spec"]["taints"], away]})

    @contextlib.contextmanager
    def _with_spec(self, node: str, changes: dict[str, Any]) -> Iterator[None]:
        ref = ObjectRef("v1", "Node", "", node)
        before = self.client.get(ref)["spec"]
        self.client.patch_merge(ref, {"spec": changes})
        try:
            yield
        finally:
            self.client.patch_merge(ref, {"spec": {name: before.get(name) for name in changes}})

    def _create_soon(self, pod: dict[str, Any]) -> dict[str, Any]:
        """The API server admits pods by what it has seen of priority classes, which may be older than the newest one."""
        made: list[dict[str, Any]] = []

        def create() -> bool:
            with contextlib.suppress(ClusterRejected):
                made.append(self.client.create(pod))
            return bool(made)

        until(create)
        return made[0]

    @contextlib.contextmanager
    def intruder(self, node: str) -> Iterator[None]:
        """A pod of somebody else that the scheduler makes room for: all GPUs of the node, at a higher priority."""
        name = f"intruder-{uuid4().hex[:6]}"
        priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        gpus = {"limits": {"nvidia.com/gpu": "8"}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "priorityClassName": name,
                "nodeSelector": {"kubernetes.io/hostname": node},
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "main", "image": "x", "resources": gpus}],
            },
        }
        made = [self.client.create({**priority, "value": 1_000_000}), self._create_soon(pod)]
        try:
            yield
        finally:
            for plain, each in zip((priority, pod), made, strict=True):
                with contextlib.suppress(ObjectNotFound):
                    self.client.delete(kinds.ref_of(plain), uid=each["metadata"]["uid"])
