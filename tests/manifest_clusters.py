"""Clusters on which the manifests of runs and endpoints are tried: devcluster, and the one that
PORTAL_TEST_KUBECONFIG names. Fixtures for the conftest files of both apps."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pytest

from cluster import kinds
from cluster.client import ClusterClient, connect
from cluster.errors import ObjectNotFound
from cluster.kinds import ObjectRef
from cluster.labels import WORKLOAD_ID
from tests.manifest_samples import placement
from tests.waiting import until
from workloads.placement import Placement
from workloads.podspec.pod_template import ManifestSet, owned_by

REAL = os.environ.get("PORTAL_TEST_KUBECONFIG", "")  # noqa: TID251 - the suite's own switch, no setting of the portal
ACCOUNT = "ml-portal-workload"
WAIT_SECONDS = 90
T = TypeVar("T")


@dataclass(frozen=True)
class Bench:
    """A namespace of one's own on a cluster, under Pod Security `restricted`."""

    client: ClusterClient
    namespace: str

    def placement(self, name: str, kind: str, **changes: Any) -> Placement:
        """Where a workload of its own goes: nobody else's pods carry its id."""
        identity = str(uuid.uuid4())
        here = placement(
            name, kind, namespace=self.namespace, object_name=f"{name}-{identity[:8]}", **changes
        )
        return replace(here, workload_id=identity, labels={**here.labels, WORKLOAD_ID: identity})

    def moved(self, manifest: dict[str, Any]) -> dict[str, Any]:
        return {**manifest, "metadata": {**manifest["metadata"], "namespace": self.namespace}}

    def make(self, manifests: ManifestSet) -> dict[str, Any]:
        """The primary as the server answered it; the others are made too, and owned by it."""
        primary = self.client.create(manifests.primary)
        for dependant in manifests.dependants:
            self.client.create(owned_by(dependant, primary))
        return primary

    def pods(self, workload_id: str) -> list[dict[str, Any]]:
        selector = f"{WORKLOAD_ID}={workload_id}"
        return list(self.client.list(kinds.POD, namespace=self.namespace, label_selector=selector).items)

    def events(self) -> list[dict[str, Any]]:
        return list(self.client.list(kinds.EVENT, namespace=self.namespace).items)

    def primary(self, manifests: ManifestSet) -> dict[str, Any] | None:
        try:
            return self.client.get(kinds.ref_of(manifests.primary))
        except ObjectNotFound:
            return None

    def follow(self, manifests: ManifestSet, where: Placement, observe: Callable[..., T]) -> Callable[[], T]:
        """Make the objects; what is answered looks at what has become of them and of their pods."""
        self.make(manifests)
        return lambda: observe(self.primary(manifests), self.pods(where.workload_id), self.events())

    def until(self, look: Callable[[], T], done: Callable[[T], bool]) -> T:
        """Look again and again until `done`, or fail with what was seen last."""
        seen: list[T] = []

        def looked() -> bool:
            seen[:] = [look()]
            return done(seen[0])

        until(looked, WAIT_SECONDS, lambda: str(seen[0]))
        return seen[0]


def template_as_pod(manifests: ManifestSet) -> dict[str, Any]:
    """The pod that the controller of the primary would make, less a priority class that is not there."""
    template = manifests.primary["spec"]["template"]
    spec = {key: value for key, value in template["spec"].items() if key != "priorityClassName"}
    metadata = {
        **template["metadata"],
        "name": "try",
        "namespace": manifests.primary["metadata"]["namespace"],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _kubeconfig(request: pytest.FixtureRequest) -> str:
    if request.param == "devcluster":
        return str(request.getfixturevalue("devcluster"))
    if not REAL:
        pytest.skip("PORTAL_TEST_KUBECONFIG names no cluster")
    return REAL


def _bench(client: ClusterClient, level: str) -> Iterator[Bench]:
    name = f"manifests-{uuid.uuid4().hex[:10]}"
    labels = {f"pod-security.kubernetes.io/{mode}": level for mode in ("enforce", "warn")}
    made = client.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
    )
    client.create(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": name}}
    )
    yield Bench(client, name)
    # First the Jobs: a pod that goes before its Job keeps a finalizer, and with it the namespace, until a
    # kubelet ends it, which KWOK's does not do.
    for job in client.list(kinds.JOB, namespace=name).items:
        ref = ObjectRef(kinds.JOB.api_version, kinds.JOB.kind, name, job["metadata"]["name"])
        client.delete(ref, uid=job["metadata"]["uid"])
    client.delete(ObjectRef("v1", "Namespace", "", name), uid=made["metadata"]["uid"])


BOTH = ["devcluster", pytest.param("real", marks=pytest.mark.cluster)]


@pytest.fixture(scope="module", params=BOTH)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    client = connect(_kubeconfig(request))
    yield from _bench(client, "restricted")
    client.close()


@pytest.fixture(scope="module", params=[pytest.param("real", marks=pytest.mark.cluster)])
def real_bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """On a real API server alone: the authority on what is valid and on Pod Security."""
    client = connect(_kubeconfig(request))
    yield from _bench(client, "restricted")
    client.close()


@pytest.fixture(scope="module", params=BOTH)
def baseline_bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Under Pod Security `baseline`, where operators carry out kubeflow.org/v1: devcluster has that of PyTorchJobs."""
    client = connect(_kubeconfig(request))
    yield from _bench(client, "baseline")
    client.close()
