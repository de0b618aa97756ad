"""Runs of every kind, followed to their ends on API servers, with the operator that carries out those that need one."""

from __future__ import annotations

import contextlib

import pytest

from cluster import kinds
from cluster.errors import ClusterConflict, ClusterRejected, ObjectNotFound
from jobs import kinds as jobs_kinds
from jobs.manifests import build_training_run
from jobs.specs import TrainingRunSpec
from jobs.status import observe_training_run
from tests.jobs.regenerate import built
from tests.manifest_clusters import template_as_pod
from workloads.pods.observation import Stage
from workloads.states import Reason

ROLES = [{"name": "Chief"}, {"name": "PS", "replicas": 2}]
KINDS = {
    "job": {"kind": "job", "source": {"files": {"a.py": "print(1)"}}},
    "gang": {"kind": "job", "replicas": 3},
    "pytorchjob": {"kind": "pytorchjob", "replicas": 4},
    "pytorchjob-of-one": {"kind": "pytorchjob"},
    "pytorchjob-elastic": {"kind": "pytorchjob", "elastic": {"min_replicas": 2, "max_replicas": 3}},
    "tfjob": {"kind": "tfjob", "replicas": 2, "roles": ROLES},
    "mpijob": {"kind": "mpijob", "replicas": 2},
}
PODS = {
    "job": 1,
    "gang": 3,
    "pytorchjob": 4,
    "pytorchjob-of-one": 1,
    "pytorchjob-elastic": 3,
    "tfjob": 5,
    "mpijob": 3,
}
NAMED = pytest.mark.parametrize("kind", KINDS)
JOBS = {"job", "gang"}
OF_JOBS = pytest.mark.parametrize("kind", sorted(JOBS))


@pytest.fixture(scope="module")
def bench(baseline_bench):
    """Under Pod Security `baseline`: the operator's own init container is refused under `restricted`."""
    return baseline_bench


def start(bench, kind="job", *, placed=(), env=(), **body):
    wanted = jobs_kinds.KINDS[KINDS[kind]["kind"]].objects[0]
    if (wanted.api_version, wanted.kind) not in bench.client.served_kinds():
        pytest.skip(f"this cluster does not serve {wanted.address}")
    spec = TrainingRunSpec.from_json(
        {
            "name": "a",
            "image": "python:3.12",
            "cpu": "100m",
            "memory": "64Mi",
            **KINDS[kind],
            "env": [{"name": name, "value": value} for name, value in dict(env).items()],
            **body,
        }
    )
    where = bench.placement("a", "training-run", **dict(placed))
    manifests = build_training_run(spec, where)
    return manifests, where, bench.follow(manifests, where, observe_training_run)


@NAMED
def test_a_run_is_followed_to_its_good_end(bench, kind):
    manifests, where, look = start(bench, kind, env={"BED_RUN_SECONDS": "2"})
    # An elastic one runs as soon as the fewest of its pods do.
    started = bench.until(
        look, lambda seen: (seen.stage is Stage.RUNNING and len(seen.pods) == PODS[kind]) or seen.final
    )
    assert started.desired_replicas <= len(started.pods) == PODS[kind]
    seen = bench.until(look, lambda seen: seen.final)
    assert (seen.stage, seen.reason) == (Stage.SUCCEEDED, Reason.COMPLETED), seen
    if kind in JOBS:
        # An operator may have deleted the pods that would tell.
        assert seen.scheduled_at <= seen.started_at <= seen.finished_at
    if kind == "gang":
        name = manifests.primary["metadata"]["name"]
        hosts = {pod["spec"]["hostname"] for pod in bench.pods(where.workload_id)}
        assert hosts == {f"{name}-0", f"{name}-1", f"{name}-2"}
    bench.until(look, lambda seen: seen.pods_alive == 0)


@NAMED
def test_an_exit_code_reaches_the_observation(bench, kind):
    _, where, look = start(bench, kind, env={"BED_RUN_SECONDS": "1", "BED_EXIT_CODE": "3"})
    seen = bench.until(look, lambda seen: seen.final)
    assert (seen.stage, seen.reason, seen.exit_code) == (Stage.FAILED, Reason.APPLICATION_ERROR, 3), seen
    assert (seen.interruption, seen.retryable) == (False, True)
    if kind == "gang":
        pods = [pod["metadata"]["name"] for pod in bench.pods(where.workload_id)]
        assert any(seen.message.startswith(f"Pod {name}: ") for name in pods)


@NAMED
def test_running_out_of_memory_names_the_limit(bench, kind):
    _, _, look = start(bench, kind, env={"BED_RUN_SECONDS": "1", "BED_OOM": "true"})
    seen = bench.until(look, lambda seen: seen.final)
    assert (seen.reason, seen.retryable, seen.exit_code) == (Reason.OOM_KILLED, False, 137), seen
    # Of an MPIJob that may be its launcher, which has a size of its own.
    assert ("2Gi" if "-launcher:" in seen.message else "64Mi") in seen.message


# The operator makes an MPIJob's pod anew; the portal sees from its own rows that one has gone.
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in JOBS | {"mpijob"}])
def test_a_deleted_pod_of_an_operator_ends_the_attempt_without_blame(bench, kind):
    _, where, look = start(bench, kind, env={"BED_STOP_SECONDS": "3"})
    bench.until(look, lambda seen: seen.stage is Stage.RUNNING)
    *_, pod = bench.pods(where.workload_id)
    ref = kinds.ref_of({"apiVersion": "v1", "kind": "Pod", **pod})
    bench.client.delete(ref, uid=pod["metadata"]["uid"], grace_seconds=30)
    seen = bench.until(look, lambda seen: seen.final or seen.interruption)
    assert (seen.interruption, seen.cause or seen.reason) == (True, Reason.DELETED_EXTERNALLY), seen


@OF_JOBS
def test_a_deleted_pod_ends_the_attempt_without_blame(bench, kind):
    _, where, look = start(bench, kind)
    bench.until(look, lambda seen: seen.stage is Stage.RUNNING)
    pod, *others = bench.pods(where.workload_id)
    uid = pod["metadata"]["uid"]
    bench.client.delete(kinds.ref_of({"apiVersion": "v1", "kind": "Pod", **pod}), uid=uid, grace_seconds=0)
    _end_as_a_kubelet_does(bench, pod)
    for other in others:
        # The Job's controller deletes what is left.
        bench.until(
            look, lambda seen: seen.final or any(each.deletion_at for each in seen.pods if each.uid != uid)
        )
        _end_as_a_kubelet_does(bench, other)
    seen = bench.until(look, lambda seen: seen.final)
    assert (seen.stage, seen.reason, seen.interruption) == (Stage.FAILED, Reason.DELETED_EXTERNALLY, True)


def _end_as_a_kubelet_does(bench, pod):
    """KWOK never ends the containers of a deleted pod that has a finalizer, as every pod of a Job has."""
    state = {"exitCode": 137, "reason": "Error", "finishedAt": pod["metadata"]["creationTimestamp"]}
    ended = {"name": "main", "image": "", "imageID": "", "ready": False, "restartCount": 0}
    status = {"phase": "Failed", "containerStatuses": [{**ended, "state": {"terminated": state}}]}
    path = kinds.POD.path(namespace=bench.namespace, name=pod["metadata"]["name"], sub="status")
    with contextlib.suppress(ObjectNotFound, ClusterConflict):
        bench.client._json(
            "PATCH", path, body={"status": status}, content_type="application/merge-patch+json"
        )


@NAMED
def test_pods_that_fit_nowhere_are_explained_by_the_scheduler(bench, kind):
    _, _, look = start(bench, kind, cpu="4000")
    seen = bench.until(look, lambda seen: seen.reason is Reason.UNSCHEDULABLE)
    assert (seen.stage, seen.scheduled_at) == (Stage.SCHEDULING, None)
    assert "Insufficient cpu" in seen.message


def test_an_image_that_is_not_there_is_told_while_it_is_pulled(bench):
    _, _, look = start(bench, image="example.com/does-not-exist:1")
    seen = bench.until(look, lambda seen: seen.reason is Reason.IMAGE_PULL_FAILED)
    assert (seen.stage, seen.blocked) == (Stage.PULLING, True)
    assert seen.waiting_since == seen.scheduled_at


def test_a_refusal_by_the_namespaces_quota_is_told_before_there_is_a_pod(bench):
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": bench.namespace},
        "spec": {"hard": {"requests.nvidia.com/gpu": "0"}},
    }
    made = bench.client.create(quota)
    bench.until(lambda: _is_refused(bench), bool)
    _, _, look = start(bench, placed={"resource_name": "nvidia.com/gpu"}, flavor="a100-40gb")
    seen = bench.until(look, lambda seen: seen.blocked)
    assert seen.stage is Stage.CREATING
    assert "exceeded quota: gpus" in seen.message
    bench.client.delete(kinds.ref_of(quota), uid=made["metadata"]["uid"])


def _is_refused(bench):
    """The API server reads quotas from a cache of its own, a moment later."""
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    pod = bench.moved(template_as_pod(built()["cpu_run"]))
    pod["spec"]["containers"][0]["resources"] = limits
    try:
        bench.client.warnings_of(pod)
    except ClusterRejected:
        return True
    return False


def test_files_go_with_the_job(bench):
    manifests, _, look = start(bench)
    bench.until(look, lambda seen: seen.stage is Stage.RUNNING)
    job = bench.primary(manifests)
    bench.client.delete(kinds.ref_of(manifests.primary), uid=job["metadata"]["uid"])
    bench.until(look, lambda seen: not seen.exists and not seen.pods)
    files = manifests.dependants[0]["metadata"]["name"]
    bench.until(lambda: _names(bench), lambda names: files not in names)


def _names(bench):
    maps = bench.client.list(kinds.CONFIG_MAP, namespace=bench.namespace)
    return [one["metadata"]["name"] for one in maps.items]
