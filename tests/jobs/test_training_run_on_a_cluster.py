"""Manifests of runs on API servers, and what their status then says."""

from __future__ import annotations

import contextlib

import pytest

from cluster import kinds
from cluster.errors import ClusterConflict, ClusterRejected, ObjectNotFound
from controller.observation import Stage
from jobs.manifests import build_training_run
from jobs.specs import TrainingRunSpec
from jobs.status import observe_training_run
from tests.jobs.regenerate import built
from tests.kind_samples import SAMPLES
from tests.manifest_clusters import template_as_pod
from tests.manifest_samples import RUN_BODIES
from workloads.states import Reason

NOT_RESTRICTED = {"root_run"}
# A cluster serves one of the two versions of MPIJob.
ON_A_REAL_CLUSTER = [name for name in SAMPLES if not name.startswith("mpijob_v2")]


@pytest.mark.parametrize("name", [*RUN_BODIES, *ON_A_REAL_CLUSTER])
def test_the_api_server_knows_every_field_and_warns_of_none(real_bench, name):
    for manifest in built()[name].all():
        warnings = real_bench.client.warnings_of(real_bench.moved(manifest))
        assert bool(warnings) == (name in NOT_RESTRICTED and manifest["kind"] == "Job"), warnings


@pytest.mark.parametrize("name", RUN_BODIES)
def test_pods_pass_restricted_unless_they_want_user_0(real_bench, name):
    pod = real_bench.moved(template_as_pod(built()[name]))
    if name in NOT_RESTRICTED:
        with pytest.raises(ClusterRejected, match="violates PodSecurity"):
            real_bench.client.warnings_of(pod)
    else:
        assert real_bench.client.warnings_of(pod) == ()


def start(bench, body=(), **placed):
    env = [{"name": name, "value": value} for name, value in dict(body).pop("env", {}).items()]
    changes = {key: value for key, value in dict(body).items() if key != "env"}
    spec = TrainingRunSpec.from_json(
        {"name": "a", "image": "python:3.12", "cpu": "100m", "memory": "64Mi", **changes, "env": env}
    )
    where = bench.placement("a", "training-run", **placed)
    where = where.__class__(**{**vars(where), "object_name": f"a-{where.workload_id[:8]}"})
    manifests = build_training_run(spec, where)
    bench.make(manifests)

    def look():
        return observe_training_run(bench.primary(manifests), bench.pods(where.workload_id), bench.events())

    return manifests, where, look


def test_a_run_is_followed_to_its_good_end(bench):
    body = {"env": {"BED_RUN_SECONDS": "1"}, "source": {"files": {"a.py": "print(1)"}}}
    _, _, look = start(bench, body)
    seen = bench.until(look, lambda seen: seen.final)
    assert (seen.stage, seen.reason, seen.pods_alive) == (Stage.SUCCEEDED, Reason.COMPLETED, 0)
    assert seen.scheduled_at <= seen.started_at <= seen.finished_at


def test_an_exit_code_reaches_the_observation(bench):
    _, _, look = start(bench, {"env": {"BED_RUN_SECONDS": "0", "BED_EXIT_CODE": "3"}})
    seen = bench.until(look, lambda seen: seen.final)
    assert (seen.stage, seen.reason, seen.exit_code) == (Stage.FAILED, Reason.APPLICATION_ERROR, 3)
    assert (seen.interruption, seen.retryable, len(seen.pods)) == (False, True, 1)


def test_a_gang_ends_well_when_all_its_pods_have(bench):
    manifests, where, look = start(bench, {"replicas": 3, "env": {"BED_RUN_SECONDS": "1"}})
    seen = bench.until(look, lambda seen: seen.final)
    assert (seen.stage, seen.pods_alive, len(seen.pods)) == (Stage.SUCCEEDED, 0, 3)
    hosts = {pod["spec"]["hostname"] for pod in bench.pods(where.workload_id)}
    name = manifests.primary["metadata"]["name"]
    assert hosts == {f"{name}-0", f"{name}-1", f"{name}-2"}
    assert seen.scheduled_at <= seen.started_at <= seen.finished_at


def test_a_gang_of_which_one_pod_fits_nowhere_does_not_start(bench):
    _, _, look = start(bench, {"replicas": 2, "cpu": "4000"})
    seen = bench.until(look, lambda seen: seen.reason is Reason.UNSCHEDULABLE)
    assert (seen.stage, seen.scheduled_at) == (Stage.SCHEDULING, None)
    assert seen.message.startswith("0 of 2 pods have a node. Pod ")


def test_one_pod_of_a_gang_that_fails_is_named_and_ends_it(bench):
    _, where, look = start(bench, {"replicas": 2, "env": {"BED_RUN_SECONDS": "0", "BED_EXIT_CODE": "3"}})
    seen = bench.until(look, lambda seen: seen.final)
    assert (seen.stage, seen.reason, seen.exit_code) == (Stage.FAILED, Reason.APPLICATION_ERROR, 3)
    assert (seen.interruption, seen.retryable) == (False, True)
    assert any(
        seen.message.startswith(f"Pod {pod['metadata']['name']}: ") for pod in bench.pods(where.workload_id)
    )


def test_a_deleted_pod_of_a_gang_ends_the_attempt_without_blame(bench):
    _, where, look = start(bench, {"replicas": 2})
    bench.until(look, lambda seen: seen.stage is Stage.RUNNING)
    pod, other = bench.pods(where.workload_id)
    ref = kinds.ref_of({"apiVersion": "v1", "kind": "Pod", **pod})
    bench.client.delete(ref, uid=pod["metadata"]["uid"], grace_seconds=0)
    _end_as_a_kubelet_does(bench, pod)
    # The Job's controller deletes what is left.
    bench.until(
        look,
        lambda seen: (
            seen.final or any(each.deletion_at for each in seen.pods if each.uid != pod["metadata"]["uid"])
        ),
    )
    _end_as_a_kubelet_does(bench, other)
    seen = bench.until(look, lambda seen: seen.final)
    assert (seen.stage, seen.reason, seen.interruption) == (Stage.FAILED, Reason.DELETED_EXTERNALLY, True)


def test_running_out_of_memory_names_the_limit(bench):
    _, _, look = start(bench, {"env": {"BED_RUN_SECONDS": "0", "BED_OOM": "true"}})
    seen = bench.until(look, lambda seen: seen.final)
    assert (seen.reason, seen.retryable, seen.exit_code) == (Reason.OOM_KILLED, False, 137)
    assert "64Mi" in seen.message


def test_a_pod_that_fits_nowhere_is_explained_by_the_scheduler(bench):
    _, _, look = start(bench, {"cpu": "4000"})
    seen = bench.until(look, lambda seen: seen.reason is Reason.UNSCHEDULABLE)
    assert seen.stage is Stage.SCHEDULING
    assert "Insufficient cpu" in seen.message


def test_an_image_that_is_not_there_is_told_while_it_is_pulled(bench):
    _, _, look = start(bench, {"image": "example.com/does-not-exist:1"})
    seen = bench.until(look, lambda seen: seen.reason is Reason.IMAGE_PULL_FAILED)
    assert (seen.stage, seen.blocked) == (Stage.PULLING, True)
    assert seen.waiting_since == seen.scheduled_at


def test_a_deleted_pod_ends_the_attempt_without_blame(bench):
    _, where, look = start(bench)
    bench.until(look, lambda seen: seen.stage is Stage.RUNNING)
    (pod,) = bench.pods(where.workload_id)
    bench.client.delete(
        kinds.ref_of({"apiVersion": "v1", "kind": "Pod", **pod}), uid=pod["metadata"]["uid"], grace_seconds=0
    )
    _end_as_a_kubelet_does(bench, pod)
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


def test_a_refusal_by_the_namespaces_quota_is_told_before_there_is_a_pod(bench):
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": bench.namespace},
        "spec": {"hard": {"requests.nvidia.com/gpu": "0"}},
    }
    made = bench.client.create(quota)
    bench.until(lambda: _is_refused(bench), bool)
    _, _, look = start(bench, {"flavor": "a100-40gb"}, resource_name="nvidia.com/gpu")
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
    manifests, _, look = start(bench, {"source": {"files": {"a.py": "print(1)"}}})
    bench.until(look, lambda seen: seen.stage is Stage.RUNNING)
    job = bench.primary(manifests)
    bench.client.delete(kinds.ref_of(manifests.primary), uid=job["metadata"]["uid"])
    bench.until(look, lambda seen: not seen.exists and not seen.pods)
    files = manifests.dependants[0]["metadata"]["name"]
    bench.until(lambda: _names(bench), lambda names: files not in names)


def _names(bench):
    maps = bench.client.list(kinds.CONFIG_MAP, namespace=bench.namespace)
    return [one["metadata"]["name"] for one in maps.items]
