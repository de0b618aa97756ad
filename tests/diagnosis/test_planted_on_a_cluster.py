"""Failures planted on devcluster, and on a real control plane where there is one: each gets its name from what the cluster
itself says. Fifty good runs get none, at whatever moment they are looked at.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from cluster import kinds
from cluster.client import ClusterClient
from cluster.errors import ObjectNotFound
from cluster.kinds import ObjectRef, ref_of
from cluster.labels import workload_labels
from controller.watch.events import record_events
from diagnosis.gather import case_of
from diagnosis.judge import diagnose
from foundation import clock
from tests.contract.kube import node as own_node
from tests.controller.clusters import own_namespace
from tests.factories.catalogue import make_flavor, make_quota
from tests.factories.submitted import make_run
from tests.factories.teams import make_member, make_team
from tests.factories.workloads import put_in
from tests.waiting import until
from workloads.models import Workload
from workloads.observations import PodSeen, record_node, record_objects, record_pods
from workloads.states import Phase
from workloads.strays import workloads_of

pytestmark = pytest.mark.django_db
GPU = "nvidia.com/gpu"
A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}
ALL = [{"operator": "Exists"}]
SEEDS = range(50)


# devcluster has neither LimitRanges nor Pod Security.
REAL_ALONE = pytest.mark.parametrize(
    "field_client", [pytest.param("real", marks=pytest.mark.cluster)], indirect=True
)


class Field:
    """A team's namespace in a cluster, looked at by hand as the watcher does."""

    def __init__(self, client: ClusterClient, namespace: str) -> None:
        self.client, self.namespace = client, namespace
        self.team = make_team("field", namespace=namespace)
        self.flavor = make_flavor()
        self.owner = make_member(team=self.team).user
        make_quota(self.team, self.flavor, 100)
        for node in client.list(kinds.NODE).items:
            record_node(node, cluster=client.cluster, now=clock.now())

    def workload(self, phase: Phase = Phase.STARTING) -> Workload:
        return put_in(make_run(self.team, self.owner, flavor=self.flavor), phase, attempt_number=1)

    def labels(self, workload: Workload) -> dict[str, str]:
        facts = {"attempt": 1, "team": "field", "kind": workload.kind}
        return workload_labels(workload_id=str(workload.public_id), **facts)

    def pod(self, workload: Workload, *, env: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
        resources = spec.pop("resources", {"requests": {"cpu": "1m"}})
        container = {
            "name": "main",
            "image": "example.org/train:1",
            "env": [{"name": name, "value": value} for name, value in (env or {}).items()],
            "resources": resources,
        }
        return {
            "metadata": {"name": f"p-{workload.pk}", "labels": self.labels(workload)},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 0,
                "containers": [container],
                **spec,
            },
        }

    def create(self, manifest: dict[str, Any], *, kind: str = "Pod", version: str = "v1") -> None:
        metadata = {**manifest.get("metadata", {}), "namespace": self.namespace}
        self.client.create({"apiVersion": version, "kind": kind, **manifest, "metadata": metadata})

    def look(self) -> None:
        now, cluster = clock.now(), self.client.cluster
        pods = self.client.list(kinds.POD, namespace=self.namespace).items
        own = zip(pods, workloads_of(pods), strict=True)
        seen = [PodSeen(pod, workload) for pod, workload in own if workload is not None]
        record_pods(seen, cluster=cluster, now=now)
        jobs = self.client.list(kinds.JOB, namespace=self.namespace).items
        made = [
            ({"apiVersion": "batch/v1", "kind": "Job", **job}, workload)
            for job, workload in zip(jobs, workloads_of(jobs), strict=True)
            if workload
        ]
        record_objects(made, cluster=cluster, now=now)
        events = self.client.list(kinds.EVENT, namespace=self.namespace).items
        record_events(events, cluster=cluster, now=now)

    def ids(self, workload: Workload, *, later: timedelta = timedelta(0)) -> list[str]:
        self.look()
        row = Workload.objects.select_related("team", "flavor").get(pk=workload.pk)
        return [cause.id for cause in diagnose(case_of(row, now=clock.now() + later))]


@pytest.fixture
def field(field_client) -> Iterator[Field]:
    with own_namespace(field_client, "diagnosis") as namespace:
        yield Field(field_client, namespace)


def named(field: Field, workload: Workload, row: str, *, later: timedelta = timedelta(0)) -> None:
    said: list[list[str]] = []

    def holds() -> bool:
        said.append(field.ids(workload, later=later))
        return said[-1][:1] == [row]

    # A real control plane waits for 40 seconds before it takes the pods of a node that has gone.
    until(holds, 90, said=lambda: (said[-1], field.client.list(kinds.POD, namespace=field.namespace).items))


@pytest.mark.parametrize(
    ("row", "env"),
    [
        ("T1", {"BED_OOM": "true"}),
        ("T2", {"BED_EXIT_CODE": "137"}),
        ("T3", {"BED_EXIT_CODE": "143"}),
        ("T4", {"BED_EXIT_CODE": "139"}),
        ("T8", {"BED_EXIT_CODE": "127"}),
        ("A1", {"BED_EXIT_CODE": "3"}),
    ],
)
def test_how_a_program_ended(field, row, env):
    run = field.workload(Phase.FAILED)
    field.create(field.pod(run, env={"BED_RUN_SECONDS": "0", **env}, tolerations=ALL))
    named(field, run, row)


@pytest.mark.parametrize(
    ("row", "spec"),
    [
        ("S1", {"resources": {"limits": {GPU: "900"}}, "tolerations": ALL}),
        ("S2", {"resources": {"limits": {"nvidia.com/mig-7g.80gb": "90"}}, "tolerations": ALL}),
        ("S3", {"resources": {"requests": {"cpu": "9000"}}, "tolerations": ALL}),
        ("S4", {"nodeSelector": A100}),
        ("S5", {"nodeSelector": {"nvidia.com/gpu.product": "none-such"}, "tolerations": ALL}),
        ("S12", {"schedulingGates": [{"name": "example.org/wait"}]}),
    ],
)  # fmt: skip
def test_why_no_node_takes_it(field, row, spec):
    run = field.workload(Phase.ADMITTED)
    field.create(field.pod(run, **spec))
    named(field, run, row)


def test_a_claim_that_is_not_there(field):
    run = field.workload(Phase.ADMITTED)
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "absent"}}
    field.create(field.pod(run, volumes=[volume], tolerations=ALL))
    named(field, run, "S7")


def a_job(field: Field, run: Workload, **spec: Any) -> dict[str, Any]:
    pod = field.pod(run, **spec)
    template = {"metadata": {"labels": field.labels(run)}, "spec": pod["spec"]}
    return {
        "metadata": {"name": f"j-{run.pk}", "labels": field.labels(run)},
        "spec": {"backoffLimit": 0, "template": template},
    }


def test_a_quota_of_the_namespace_that_is_used_up(field):
    run = field.workload(Phase.ADMITTED)
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "0"}}}
    field.create(quota, kind="ResourceQuota")
    until(
        lambda: (
            field.client.list(kinds.RESOURCE_QUOTA, namespace=field.namespace)
            .items[0]
            .get("status", {})
            .get("hard")
        )
    )
    field.create(a_job(field, run), kind="Job", version="batch/v1")
    named(field, run, "F1")


def test_a_quota_that_wants_amounts_that_are_not_named(field):
    run = field.workload(Phase.ADMITTED)
    quota = {"metadata": {"name": "names"}, "spec": {"hard": {"limits.memory": "100Gi"}}}
    field.create(quota, kind="ResourceQuota")
    until(
        lambda: (
            field.client.list(kinds.RESOURCE_QUOTA, namespace=field.namespace)
            .items[0]
            .get("status", {})
            .get("hard")
        )
    )
    field.create(a_job(field, run), kind="Job", version="batch/v1")
    named(field, run, "F2")


@REAL_ALONE
def test_a_limit_of_the_namespace_for_each_container(field):
    run = field.workload(Phase.ADMITTED)
    limits = [{"type": "Container", "max": {"memory": "1Gi"}}]
    field.create({"metadata": {"name": "small"}, "spec": {"limits": limits}}, kind="LimitRange")
    amounts = {name: {"memory": "2Gi"} for name in ("limits", "requests")}
    field.create(a_job(field, run, resources=amounts), kind="Job", version="batch/v1")
    named(field, run, "F3")


@REAL_ALONE
def test_a_namespace_that_lets_no_pod_run_as_root(field):
    run = field.workload(Phase.ADMITTED)
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    field.client.patch_merge(
        ObjectRef("v1", "Namespace", "", field.namespace), {"metadata": {"labels": label}}
    )
    field.create(a_job(field, run), kind="Job", version="batch/v1")
    named(field, run, "F4")


def test_a_priority_class_that_is_not_there(field):
    run = field.workload(Phase.ADMITTED)
    field.create(a_job(field, run, priorityClassName="no-such-class"), kind="Job", version="batch/v1")
    named(field, run, "F5")


def test_a_job_that_was_active_for_too_long(field):
    run = field.workload(Phase.FAILED)
    job = a_job(field, run, tolerations=ALL)
    job["spec"]["activeDeadlineSeconds"] = 1
    field.create(job, kind="Job", version="batch/v1")
    named(field, run, "J1")


def test_an_image_that_there_is_not(field):
    run = field.workload()
    pod = field.pod(run, tolerations=ALL)
    pod["spec"]["containers"][0]["image"] = "example.org/does-not-exist:1"
    field.create(pod)
    named(field, run, "C1")


def test_a_pod_that_does_not_go_away(field):
    run = field.workload(Phase.STOPPING)
    pod = field.pod(run, tolerations=ALL)
    pod["metadata"]["finalizers"] = ["example.org/held"]
    field.create(pod)
    with held_by_its_finalizer(field, pod) as ref:
        field.client.delete(ref, uid=field.client.get(ref)["metadata"]["uid"], grace_seconds=0)
        named(field, run, "U1", later=timedelta(minutes=11))


@contextmanager
def held_by_its_finalizer(field: Field, pod: dict[str, Any]) -> Iterator[ObjectRef]:
    ref = ObjectRef("v1", "Pod", field.namespace, pod["metadata"]["name"])
    yield ref
    field.client.patch_merge(ref, {"metadata": {"finalizers": None}})


@pytest.fixture
def node(field) -> Iterator[ObjectRef]:
    """A node of the test's own, on which only pods land that name it."""
    name = f"diagnosis-{uuid4().hex[:8]}"
    body = own_node(name, resources={GPU: "1"})
    made = field.client.create(body)
    ref = ref_of(made)
    until(lambda: is_open(field.client.get(ref)))
    yield ref
    with suppress(ObjectNotFound):
        field.client.delete(ref, uid=made["metadata"]["uid"])


def is_open(node: dict[str, Any]) -> bool:
    """Whether it is ready, and the taint that each new node has until then is off."""
    ready = {"type": "Ready", "status": "True"}.items()
    taints = node["spec"].get("taints") or ()
    return any(ready <= item.items() for item in node["status"].get("conditions", ())) and all(
        taint["key"] != "node.kubernetes.io/not-ready" for taint in taints
    )


def on(node: ObjectRef) -> dict[str, Any]:
    own = {"key": "contract/own", "operator": "Exists", "effect": "NoSchedule"}
    return {"nodeSelector": {"contract/node": node.name}, "tolerations": [own]}


def look_at(field: Field, node: ObjectRef) -> None:
    record_node(field.client.get(node), cluster=field.client.cluster, now=clock.now())


def test_a_node_that_is_cordoned(field, node):
    run = field.workload(Phase.ADMITTED)
    field.client.patch_merge(node, {"spec": {"unschedulable": True}})
    look_at(field, node)
    field.create(field.pod(run, **on(node)))
    named(field, run, "S6")


def taken_away(field: Field, node: ObjectRef, how: str) -> Workload:
    run = field.workload()
    pod = field.pod(run, **on(node))
    pod["metadata"]["finalizers"] = ["example.org/held"]
    field.create(pod)
    with held_by_its_finalizer(field, pod) as ref:
        until(lambda: field.client.get(ref)["status"]["phase"] == "Running")
        look_at(field, node)
        TAKEN_AWAY[how](field, node, ref)
        put_in(run, Phase.QUEUED)
        named(field, run, how)
    return run


def drain(field: Field, _node: ObjectRef, pod: ObjectRef) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod.name}}
    field.client._json("POST", kinds.object_path(pod, sub="eviction"), body=body)


def spoil(field: Field, node: ObjectRef, _pod: ObjectRef) -> None:
    taint = {"key": "example.org/spot", "value": "reclaim", "effect": "NoExecute"}
    field.client.patch_merge(node, {"spec": {"taints": [taint]}})


def remove(field: Field, node: ObjectRef, _pod: ObjectRef) -> None:
    field.client.delete(node, uid=field.client.get(node)["metadata"]["uid"])


TAKEN_AWAY = {"D2": spoil, "D3": drain, "D4": remove}


@pytest.mark.parametrize("row", TAKEN_AWAY)
def test_what_took_a_pod_away(field, node, row):
    taken_away(field, node, row)


@pytest.mark.matrix
def test_fifty_good_runs_get_no_name_at_whatever_moment_they_are_looked_at(field):
    runs = []
    for seed in SEEDS:
        chance = random.Random(seed)
        run = field.workload()
        env = {
            "BED_START_SECONDS": f"{chance.uniform(0, 0.4):.2f}",
            "BED_RUN_SECONDS": f"{chance.uniform(0, 0.6):.2f}",
        }
        field.create(field.pod(run, env=env, tolerations=ALL))
        runs.append(run)
    looks = []

    def over() -> bool:
        field.look()
        rows = Workload.objects.select_related("team", "flavor").filter(pk__in=[run.pk for run in runs])
        for row in rows:
            causes = diagnose(case_of(row, now=clock.now()))
            assert causes == [], (row.pk, causes)
            looks.append(row.pk)
        return all(run.pods.filter(phase="Succeeded").exists() for run in runs)

    until(over)
    assert len(looks) >= len(runs)
