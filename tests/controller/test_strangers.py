"""Somebody else deletes, edits, robs and imitates the portal's objects: rows F8 and F35 to F37 of docs/reference/faults.md."""

from __future__ import annotations

import threading

import pytest

from cluster import kinds
from cluster.kinds import ref_of
from cluster.labels import ATTEMPT, MANAGED_BY, WORKLOAD_ID, workload_labels
from controller.watch import watcher
from controller.watch.capacity import ForeignPodSink
from controller.watch.pods import PodSink
from controller.watch.watcher import FOREIGN, OWN
from costs.models import UsageInterval
from logs.collector import LogCollector
from quotas.models import Quota
from tests.controller import fault_proxy as faults
from tests.controller.endpoints import ready
from tests.controller.fault_proxy import FaultProxy
from tests.controller.followers import Follower
from tests.waiting import until
from workloads.models import ForeignPod, ObjectRecord, PodRecord, StrayObject, WorkloadEvent

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("client", ["devcluster"], indirect=True),
]


def rob(bench, item, **labels):
    """Change labels by hand; None takes one away."""
    return bench.client.patch_merge(ref_of(item), {"metadata": {"labels": labels or {MANAGED_BY: None}}})


def used():
    return Quota.objects.get().used


def open_usage(run):
    return UsageInterval.objects.filter(pod_uid__in=run.pods.values("uid"), ended_at__isnull=True).count()


@pytest.fixture
def watched(bench, monkeypatch):
    """Own and foreign pods are followed, as in a portal."""
    monkeypatch.setattr(watcher, "WATCH_SECONDS", 1)
    stop = threading.Event()
    sinks = [
        (kinds.POD, PodSink(LogCollector(lambda: bench.client)), OWN),
        (kinds.POD, ForeignPodSink(), FOREIGN),
    ]
    followers = [
        Follower(kind=kind, sink=sink, client=lambda: bench.client, stop=stop, scope=scope)
        for kind, sink, scope in sinks
    ]
    for follower in followers:
        follower.start()
    until(lambda: all(follower.resource_version for follower in followers))
    yield
    stop.set()
    for follower in followers:
        follower.join(40)


THEFTS = {
    "the manager": {MANAGED_BY: None},
    "its run": {WORKLOAD_ID: None},
    "another run": {WORKLOAD_ID: "01a20c61-8811-7939-9b59-4521ead84bbb"},
    "its attempt": {ATTEMPT: None},
    "everything": {MANAGED_BY: None, WORKLOAD_ID: None, ATTEMPT: None},
}


@pytest.mark.parametrize("theft", THEFTS)
def test_f36_a_pod_that_is_robbed_of_its_labels_is_charged_on_and_gets_them_back(bench, watched, theft):
    """Invariant: a pod is known by its UID; without its labels it is neither gone nor free."""
    run = bench.running(env={"BED_RUN_SECONDS": 600})
    (pod,) = bench.own(run, kinds.POD)
    rob(bench, pod, **THEFTS[theft])
    row = PodRecord.objects.get(uid=pod["metadata"]["uid"])
    until(lambda: _is_known(row, bench.client.get(ref_of(pod))), said="the watcher has seen the theft")
    assert (row.gone_at, open_usage(run)) == (None, 1)
    bench.turn(run)
    until(lambda: bench.turn(run) and bench.own(run, kinds.POD))
    row.refresh_from_db()
    assert (run.phase, row.gone_at, row.attempt, open_usage(run), used()) == ("Running", None, 1, 1, 2)
    assert bench.client.get(ref_of(pod))["metadata"]["labels"][ATTEMPT] == "1"
    until(lambda: not ForeignPod.objects.filter(uid=row.uid).exists(), said="and it counts once")


def _is_known(row, pod):
    row.refresh_from_db()
    return row.resource_version == pod["metadata"]["resourceVersion"] and row.gone_at is None


def test_f36_a_job_that_is_robbed_of_its_labels_is_still_its_runs(bench):
    """Invariant: an object is known by its UID; the run goes on, and holds and frees what it did."""
    run = bench.running(env={"BED_RUN_SECONDS": 600})
    (job,) = bench.own(run, kinds.JOB)
    rob(bench, job, **THEFTS["everything"])
    bench.turn(run)
    assert (run.phase, used()) == ("Running", 2)
    assert len(bench.own(run, kinds.JOB)) == 1, "it has its labels again"
    rob(bench, job)
    bench.cancel(run)
    bench.until(run, lambda run: run.is_final)
    assert (run.phase, used(), bench.own(run, kinds.POD)) == ("Cancelled", 0, [])


def test_f36_what_a_stranger_edits_of_an_endpoint_is_set_back_and_said(bench):
    """Invariant: the fields that the portal applies are those that it applied; the others are left alone."""
    endpoint = ready(bench)
    run = endpoint.workload
    (found,) = bench.own(run, kinds.DEPLOYMENT)
    (container,) = found["spec"]["template"]["spec"]["containers"]
    image = container["image"]
    edit = {
        "metadata": {"annotations": {"theirs": "yes"}},
        "spec": {
            "minReadySeconds": 3,
            "template": {"spec": {"containers": [{"name": container["name"], "image": "evil:1"}]}},
        },
    }
    bench.client._json(
        "PATCH",
        kinds.object_path(ref_of(found)),
        query={"fieldManager": "kubectl-edit"},
        body=edit,
        content_type="application/strategic-merge-patch+json",
    )
    bench.turn(run)
    (found,) = bench.own(run, kinds.DEPLOYMENT)
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == image
    assert (found["metadata"]["annotations"]["theirs"], found["spec"]["minReadySeconds"]) == ("yes", 3)
    note = WorkloadEvent.objects.get(workload=run, source="drift")
    assert "kubectl-edit" in note.message
    assert "image" in note.message
    bench.until(run, lambda row: row.reason == "Ready")
    assert WorkloadEvent.objects.filter(workload=run, source="drift").count() == 1, "and only once"


def edit(bench, item, by="kubectl-edit", **spec):
    bench.client._json(
        "PATCH",
        kinds.object_path(ref_of(item)),
        query={"fieldManager": by},
        body={"spec": spec},
        content_type="application/merge-patch+json",
    )


@pytest.mark.parametrize("change", [{"suspend": True}, {"parallelism": 0}, {"parallelism": 3}])
def test_f36_what_a_stranger_edits_of_a_job_is_set_back_and_said(bench, change):
    """Invariant: a run that holds GPUs has the pods that it asked for; who took them away stands in its events."""
    run = bench.running(env={"BED_RUN_SECONDS": 600})
    (job,) = bench.own(run, kinds.JOB)
    edit(bench, job, activeDeadlineSeconds=3600, **change)
    if change != {"parallelism": 3}:
        until(lambda: not bench.own(run, kinds.POD), said="the Job's controller has taken its pods away")
    bench.turn(run)
    (found,) = bench.own(run, kinds.JOB)
    assert {name: found["spec"][name] for name in ("suspend", "parallelism")} == {
        "suspend": False,
        "parallelism": 1,
    }
    assert found["spec"]["activeDeadlineSeconds"] == 3600, "what the portal does not keep stays"
    bench.until(run, lambda run: run.phase == "Running" and run.reason == "Progressing")
    # Where its pod was taken away it is the next attempt, which resumes.
    assert (run.attempt_number, used()) == (1 if change == {"parallelism": 3} else 2, 2)
    assert len(bench.own(run, kinds.POD)) == 1
    note = WorkloadEvent.objects.get(workload=run, source="drift")
    (field,) = change
    assert note.message == f"Somebody else (kubectl-edit) changed spec.{field} of the Job; it was set back."


@pytest.mark.matrix
def test_f36_a_queue_that_suspends_a_job_is_not_fought(bench):
    run = bench.running(env={"BED_RUN_SECONDS": 600})
    (job,) = bench.own(run, kinds.JOB)
    edit(bench, job, "kueue-controller-manager", suspend=True)
    for _ in range(2):
        bench.turn(run)
    assert bench.own(run, kinds.JOB)[0]["spec"]["suspend"]
    assert "suspended in the cluster" in run.message
    assert not WorkloadEvent.objects.filter(workload=run, source="drift").exists()


def test_f35_a_run_whose_job_was_deleted_ends_and_is_never_made_again(bench):
    """Invariant: what is final stays so; nothing is silently made again."""
    run = bench.running(env={"BED_STOP_SECONDS": 0})
    (job,) = bench.own(run, kinds.JOB)
    bench.delete(kinds.JOB, job)
    bench.until(run, lambda run: run.is_final)
    assert (run.phase, run.reason, used(), open_usage(run)) == ("Failed", "DeletedExternally", 0, 0)
    for _ in range(3):
        bench.turn(run)
    assert bench.own(run, kinds.JOB) == []
    assert run.attempts.count() == 1


def imitate(bench, run, name, **fields):
    labels = workload_labels(
        workload_id=str(run.public_id), attempt=run.attempt_number, team=run.team.slug, kind=run.kind
    )
    container = {
        "name": "main",
        "image": "x",
        "env": [{"name": key, "value": str(value)} for key, value in fields.items()],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    metadata = {"name": name, "namespace": run.team.namespace_name, "labels": labels}
    spec = {
        "restartPolicy": "Never",
        "containers": [container],
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 0,
    }
    return bench.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


@pytest.mark.parametrize("fate", ["runs", "fails", "goes"])
def test_f37_a_strangers_pod_with_the_labels_of_a_run_is_not_its_pod(bench, watched, fate):
    """Invariant: what no object of the run made changes neither its phase nor its cost; it is shown as a stray."""
    run = bench.running(env={"BED_RUN_SECONDS": 600})
    env = {"runs": {}, "fails": {"BED_RUN_SECONDS": 0.1, "BED_EXIT_CODE": 1}, "goes": {}}[fate]
    fake = imitate(bench, run, "imitation", **env)
    uid = fake["metadata"]["uid"]
    until(lambda: StrayObject.objects.filter(uid=uid))
    if fate == "fails":
        until(lambda: bench.client.get(ref_of(fake))["status"].get("phase") == "Failed")
    if fate == "goes":
        until(lambda: bench.client.get(ref_of(fake))["status"].get("phase") == "Running")
        bench.turn(run)
        bench.delete(kinds.POD, fake)
        until(lambda: not StrayObject.objects.filter(uid=uid))
    bench.turn(run)
    assert (run.phase, run.attempts.count(), used()) == ("Running", 1, 2)
    assert not PodRecord.objects.filter(uid=uid).exists()
    assert not UsageInterval.objects.filter(pod_uid=uid).exists()


def test_f37_another_job_with_the_runs_labels_is_not_looked_at(bench):
    run = bench.running(env={"BED_RUN_SECONDS": 600})
    (job,) = bench.own(run, kinds.JOB)
    template = job["spec"]["template"]
    labels = {
        key: value
        for key, value in template["metadata"]["labels"].items()
        if not key.startswith(("batch.kubernetes.io", "controller-uid", "job-name"))
    }
    (container,) = template["spec"]["containers"]
    quick = {
        "name": "main",
        "image": container["image"],
        "env": [{"name": "BED_RUN_SECONDS", "value": "0.1"}, {"name": "BED_EXIT_CODE", "value": "1"}],
    }
    theirs = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "theirs", "namespace": run.team.namespace_name, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "template": {
                "metadata": {"labels": labels},
                "spec": {"restartPolicy": "Never", "containers": [quick]},
            },
        },
    }
    made = bench.client.create(theirs)
    until(lambda: bench.client.get(ref_of(made)).get("status", {}).get("failed"))
    bench.turn(run)
    assert (run.phase, run.attempts.count(), PodRecord.objects.filter(workload=run).count()) == (
        "Running",
        1,
        1,
    )
    bench.delete(kinds.JOB, made)
    bench.turn(run)
    assert run.phase == "Running"


@pytest.fixture
def proxied(bench, tmp_path):
    from cluster.client import connect

    proxy = FaultProxy(tmp_path, bench.client.source)
    bench.direct, bench.client = bench.client, connect(proxy.kubeconfig)
    yield proxy
    bench.client.close()
    bench.client = bench.direct
    proxy.close()


@pytest.mark.parametrize("method", ["PATCH", "POST", "DELETE"])
def test_f8_a_conflict_is_answered_by_reading_again(bench, proxied, method):
    """Invariant: after a 409 on an update the object is read and decided on anew; others' fields stay, nothing is doubled."""
    proxied.meet(
        lambda asked, path: asked == method and "/jobs" in path,
        answer=faults.answers(409, "Conflict"),
        times=2,
    )
    run = bench.submit(env={"BED_RUN_SECONDS": 600})
    bench.until(run, lambda run: run.phase == "Running")
    (job,) = bench.own(run, kinds.JOB)
    bench.client.patch_merge(ref_of(job), {"metadata": {"annotations": {"theirs": "yes"}}})
    assert bench.turn(run).attempts.count() == 1
    assert bench.own(run, kinds.JOB)[0]["metadata"]["annotations"]["theirs"] == "yes"
    bench.cancel(run)
    bench.until(run, lambda run: run.is_final)
    assert (run.phase, used(), ObjectRecord.objects.filter(workload=run, kind="Job").count()) == (
        "Cancelled",
        0,
        1,
    )


@pytest.mark.matrix
@pytest.mark.parametrize("times", [1, 3])
def test_f8_a_rollout_that_meets_a_conflict_goes_on(bench, proxied, times):
    proxied.meet(
        lambda method, path: method == "PATCH" and "/deployments" in path,
        answer=faults.answers(409, "Conflict"),
        times=times,
    )
    endpoint = ready(bench)
    assert len(bench.own(endpoint.workload, kinds.DEPLOYMENT)) == 1


@pytest.mark.matrix
def test_f36_without_the_right_to_give_labels_back_a_pod_is_followed_by_its_name(bench, proxied):
    """Invariant: who may not patch pods still knows whose they are, and when they ended."""
    proxied.meet(
        lambda method, path: method == "PATCH" and "/pods/" in path, answer=faults.answers(403, "Forbidden")
    )
    run = bench.running(env={"BED_RUN_SECONDS": 3})
    (pod,) = bench.own(run, kinds.POD)
    bench.direct.patch_merge(ref_of(pod), {"metadata": {"labels": THEFTS["everything"]}})
    bench.turn(run)
    assert (run.phase, open_usage(run), used()) == ("Running", 1, 2)
    bench.until(run, lambda run: run.is_final)
    row = PodRecord.objects.get(uid=pod["metadata"]["uid"])
    assert (run.phase, row.phase, open_usage(run), used()) == ("Succeeded", "Succeeded", 0, 0)
