"""A team with quota on a real cluster: devcluster's clock by default, the real control plane where one is named."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from cluster import kinds
from cluster.client import ClusterClient, connect
from cluster.errors import ObjectNotFound
from cluster.kinds import ObjectRef
from cluster.labels import selector
from controller import services
from controller.reconcile.reconciler import reconcile
from foundation import clock
from jobs.services import submit_training_run
from jobs.specs import TrainingRunSpec
from teams.actors import Actor
from teams.models import Team, User
from tests.controller.clusters import Relay
from tests.controller.neighbours import Neighbours
from tests.factories.catalogue import make_flavor, make_price, make_quota
from tests.factories.teams import make_member, make_team
from tests.waiting import until
from workloads.models import Workload
from workloads.observations import record_node

REAL = os.environ.get("PORTAL_TEST_KUBECONFIG", "")  # noqa: TID251


@pytest.fixture(params=["devcluster", pytest.param("real", marks=pytest.mark.cluster)])
def client(request: pytest.FixtureRequest) -> Iterator[ClusterClient]:
    if request.param == "real" and not REAL:
        pytest.skip("no PORTAL_TEST_KUBECONFIG")
    kubeconfig = REAL if request.param == "real" else request.getfixturevalue("devcluster")
    return connect(kubeconfig)


class Bench:
    """One team, one flavor with quota and price, and a hand that turns the reconciler."""

    def __init__(self, client: ClusterClient) -> None:
        self.client = self.direct = client
        for node in client.list(kinds.NODE).items:
            record_node(node, cluster=client.cluster, now=clock.now())
        # Several test processes share one real cluster, so the namespace must be this test's own.
        self.team = make_team(f"t-{uuid4().hex[:8]}")
        self.member = make_member(team=self.team).user
        self.flavor = make_flavor()
        self.quota = make_quota(self.team, self.flavor, 8)
        make_price()

    def submit(
        self, *, name: str = "train", team: Team | None = None, member: User | None = None, **fields: Any
    ) -> Workload:
        """A run of two GPUs unless told otherwise; `env` is a mapping, such as of the variables that steer a pod."""
        body = {
            "name": name,
            "image": "example.org/train:1",
            "command": ["python", "train.py"],
            "flavor": self.flavor.name,
            "gpus_per_replica": 2,
            "cpu": "1",
            "memory": "1Gi",
            "time_limit_seconds": 600,
            **fields,
        }
        body["env"] = [{"name": key, "value": str(value)} for key, value in body.get("env", {}).items()]
        spec = TrainingRunSpec.from_json(body)
        actor = Actor.of_user(member or self.member)
        return submit_training_run(spec=spec, team=team or self.team, actor=actor, now=clock.now()).workload

    def running(self, **fields: Any) -> Workload:
        """One that was submitted and runs."""
        return self.until(self.submit(**fields), lambda run: run.phase == "Running")

    def own(self, workload: Workload, kind: kinds.ResourceKind) -> list[dict[str, Any]]:
        """What the cluster has of the kind for this workload."""
        label = selector(workload_id=str(workload.public_id))
        return self.client.list(kind, namespace=self.team.namespace_name, label_selector=label).items

    def delete(self, kind: kinds.ResourceKind, item: dict[str, Any], propagation: str = "Background") -> None:
        """Behind the portal's back."""
        _delete(self.client, kind, item, propagation)

    def cancel(self, workload: Workload) -> None:
        """As the member who submitted it wishes."""
        services.cancel(workload=workload, actor=Actor.of_user(self.member), now=clock.now())

    def suspend(self, workload: Workload) -> None:
        services.suspend(workload=workload, actor=Actor.of_user(self.member), now=clock.now())

    def resume(self, workload: Workload) -> None:
        services.resume(workload=workload, actor=Actor.of_user(self.member), now=clock.now())

    def turn(self, workload: Workload) -> Workload:
        """One reconcile of a workload that is made due."""
        Workload.objects.filter(pk=workload.pk).update(next_reconcile_at=clock.now())
        reconcile(public_id=workload.public_id, client=self.client, now=clock.now())
        workload.refresh_from_db()
        return workload

    def until(self, workload: Workload, done: Callable[[Workload], bool], seconds: float = 60) -> Workload:
        """Turn until `done`, or fail with where it stands."""
        said = lambda: f"{workload.phase} {workload.reason}: {workload.message}"  # noqa: E731
        until(lambda: done(self.turn(workload)), seconds, said)
        return workload


@pytest.fixture
def bench(client: ClusterClient, transactional_db: None) -> Iterator[Bench]:
    bench = Bench(client)
    yield bench
    leave_nothing(client, bench.team.namespace_name)


@pytest.fixture
def relay(bench: Bench, tmp_path: Path, client: ClusterClient) -> Iterator[Relay]:
    """What the bench's client goes through from now on; `bench.direct` does not."""
    relay = Relay(tmp_path, client.source)
    bench.direct, bench.client = client, connect(relay.kubeconfig)
    yield relay
    bench.client.close()
    bench.client = client
    relay.close()


@pytest.fixture
def neighbours(bench: Bench) -> Iterator[Neighbours]:
    both = Neighbours(bench)
    yield both
    leave_nothing(bench.direct, both.owner.namespace_name)


def leave_nothing(client: ClusterClient, namespace: str) -> None:
    """Jobs first: a pod that is deleted before its Job keeps the Job's finalizer where no kubelet ends it.

    Pods that nobody owns go with nothing else, and the next test would wait for their nodes.
    """
    try:
        for kind in (kinds.JOB, kinds.DEPLOYMENT, kinds.PYTORCH_JOB):
            for item in _listed(client, kind, namespace):
                _delete(client, kind, item)
        for pod in client.list(kinds.POD, namespace=namespace).items:
            if not pod["metadata"].get("ownerReferences"):
                _delete(client, kinds.POD, pod)
        with suppress(AssertionError):
            until(lambda: not client.list(kinds.POD, namespace=namespace).items)
        ref = ObjectRef("v1", "Namespace", "", namespace)
        client.delete(ref, uid=client.get(ref)["metadata"]["uid"])
    except ObjectNotFound:
        pass


def _listed(client: ClusterClient, kind: kinds.ResourceKind, namespace: str) -> list[dict[str, Any]]:
    """None where the cluster does not serve the kind."""
    try:
        return client.list(kind, namespace=namespace).items
    except ObjectNotFound:
        return []


def _delete(
    client: ClusterClient, kind: kinds.ResourceKind, item: dict[str, Any], propagation: str = "Background"
) -> None:
    metadata = item["metadata"]
    ref = ObjectRef(kind.api_version, kind.kind, metadata["namespace"], metadata["name"])
    client.delete(ref, uid=metadata["uid"], propagation=propagation)
