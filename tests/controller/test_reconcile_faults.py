"""What happens when the cluster is away, refuses, or somebody else changes it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connections
from rest_framework.test import APIClient

from cluster import kinds
from cluster.kinds import ObjectRef
from cluster.names import object_name
from controller.reconcile.decide import RESYNC_SECONDS
from controller.reconcile.reconciler import reconcile
from controller.reconcile.run_tokens import run_token
from foundation import clock
from foundation.models import PlatformSettings
from quotas.models import Claim, Quota
from tenancy.namespaces import ensure_namespace
from tests.controller.clusters import gone
from tests.controller.endpoints import ready
from tests.factories.catalogue import make_quota
from tests.factories.workloads import age_lock
from tests.waiting import result_of, until
from workloads.models import NodeRecord, WatchCursor, Workload

pytestmark = pytest.mark.django_db(transaction=True)

LOST = "realcluster/lost"


def job_manifest(bench, name):
    container = {"name": "main", "image": "x", "command": ["sleep"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": bench.team.namespace_name, "labels": {"theirs": "yes"}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def used():
    return Quota.objects.get().used


# Also where a deleted pod of a living Job has to end: the fake kubelet of the real control plane never ends one.
only_devcluster = pytest.mark.parametrize("client", ["devcluster"], indirect=True)


# --- away


@only_devcluster
def test_while_the_cluster_is_away_a_submission_works_and_waits_and_then_runs(bench, relay):
    relay.away = True
    run = bench.submit(env={"BED_RUN_SECONDS": 1})
    bench.turn(run)
    assert (run.phase, run.reason) == ("Queued", "ClusterUnavailable")
    assert used() == 0, "a claim on a cluster that is away helps nobody"
    failures = run.failures
    bench.turn(run)
    assert run.failures == failures + 1
    assert run.next_reconcile_at > clock.now(), "it is not asked in a busy loop"
    relay.away = False
    bench.until(run, lambda run: run.is_final)
    assert (run.phase, run.failures) == ("Succeeded", 0)


@only_devcluster
def test_what_runs_keeps_its_phase_and_its_claim_while_the_cluster_is_away(bench, relay):
    run = bench.running()
    seen = run.observed_at
    relay.away = True
    bench.turn(run)
    assert (run.phase, run.reason, run.observed_at) == ("Running", "Progressing", seen)
    bench.cancel(run)
    bench.turn(run)
    assert (run.phase, used()) == ("Running", 2)
    relay.away = False
    bench.until(run, lambda run: run.is_final)
    assert (run.phase, used()) == ("Cancelled", 0)


@only_devcluster
def test_an_answer_that_is_lost_after_the_job_was_made_makes_no_second_one(bench, relay):
    """The request arrives, its answer does not: the create has to be found out by reading."""
    run = bench.submit()
    bench.turn(run)
    lost = []

    def lose(method, path):
        if method == "POST" and path.split("?")[0].endswith("/jobs") and not lost:
            lost.append(path)

    relay.rules.append(lose)
    original = relay._forward

    def forward(exchange):
        if lost == [exchange.request.path]:
            lost.append("done")
            pool = relay._pool.request(
                "POST",
                relay.target + exchange.request.path,
                body=exchange.request.body,
                headers={key: exchange.request.headers[key] for key in ("authorization", "content-type")},
            )
            assert pool.status == 201
            exchange.cut()
            return
        original(exchange)

    relay._forward = forward
    bench.until(run, lambda run: run.phase == "Running")
    assert len(lost) == 2 or run.attempts.count() == 1
    assert len(bench.own(run, kinds.JOB)) == 1
    assert run.attempts.count() == 1


# --- refused, or somebody else's


def test_a_strangers_object_of_the_same_name_fails_the_run_and_stays_as_it_was(bench):
    run = bench.submit()
    ensure_namespace(bench.client, bench.team)
    name = object_name(workload_name=run.name, short_id=run.short_id, attempt=1)
    foreign = bench.client.create(job_manifest(bench, name))
    bench.until(run, lambda run: run.is_final)
    assert (run.phase, run.reason) == ("Failed", "InvalidSpec")
    assert "was not made by the portal" in run.message
    assert used() == 0
    assert Claim.objects.get().state == "released"
    ref = ObjectRef("batch/v1", "Job", bench.team.namespace_name, name)
    found = bench.client.get(ref)
    assert found["metadata"]["uid"] == foreign["metadata"]["uid"]
    assert found["metadata"]["labels"]["theirs"] == "yes"
    assert not found["metadata"].get("deletionTimestamp")
    bench.client.delete(ref, uid=found["metadata"]["uid"])


def test_a_config_map_that_does_not_exist_ends_the_run_before_anything_is_made(bench):
    mount = [{"name": "conf", "path": "/etc/conf"}]
    source = {"files": {"train.py": "print(1)"}}
    run = bench.submit(config_maps=mount, source=source)
    bench.until(run, lambda run: run.is_final)
    assert (run.phase, run.reason) == ("Failed", "InvalidSpec")
    assert f"there is no ConfigMap conf in {bench.team.namespace_name}; make it" in run.message
    assert (used(), bench.own(run, kinds.JOB)) == (0, [])
    metadata = {"name": "conf", "namespace": bench.team.namespace_name}
    bench.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}})
    bench.running(name="again", config_maps=mount, source=source)


@only_devcluster
def test_a_refused_object_fails_the_run_with_the_servers_own_words(bench, relay):
    words = 'Job.batch "train" is invalid: spec.template.spec.containers[0].image: Required value'
    relay.refuse("POST", "/jobs", 422, "Invalid", words)
    run = bench.submit(max_retries=3)
    bench.until(run, lambda run: run.is_final)
    assert (run.phase, run.reason) == ("Failed", "InvalidSpec")
    assert words in run.message
    assert (used(), run.attempts.count(), run.retries_used) == (0, 1, 0)
    assert bench.own(run, kinds.JOB) == []


@pytest.mark.matrix
@only_devcluster
def test_a_kind_that_the_cluster_serves_no_longer_holds_no_claim_and_is_asked_for_again(bench, relay):
    WatchCursor.objects.create(kind=kinds.PYTORCH_JOB.address)
    PlatformSettings.objects.update_or_create(pk=1, defaults={"optional_kinds": ["pytorchjob"]})
    run = bench.submit(kind="pytorchjob")
    for method in ("GET", "POST"):
        relay.refuse(method, "/apis/kubeflow.org/", 404, "NotFound", "404 page not found")
    bench.until(run, lambda run: run.reason == "BackoffWaiting" and run.phase == "Queued")
    assert "serves no PyTorchJob of kubeflow.org/v1 now" in run.message
    assert (used(), run.attempts.filter(ended_at=None).count()) == (0, 0)
    relay.rules.clear()
    Workload.objects.filter(pk=run.pk).update(rests_until=clock.now())
    bench.until(run, lambda run: run.phase == "Running")


@only_devcluster
def test_a_refusal_after_the_job_was_made_leaves_nothing_running_without_a_claim(bench, relay):
    relay.refuse("PATCH", "/secrets", 422, "Invalid", "Secret is invalid: no")
    run = bench.submit(env={"BED_STOP_SECONDS": 1})
    held = []

    def ended(run):
        pods = [
            pod for pod in bench.own(run, kinds.POD) if pod["status"].get("phase") in {"Pending", "Running"}
        ]
        held.append((len(pods), used()))
        return run.is_final

    bench.until(run, ended)
    assert (run.phase, run.reason) == ("Failed", "InvalidSpec")
    assert "no" in run.message
    until(lambda: not bench.own(run, kinds.JOB), said=lambda: "the Job is still there")
    assert held[-1] == (0, 0), "the claim is given back only when its last pod is gone"


@only_devcluster
def test_a_delete_that_is_refused_is_not_repeated_in_a_busy_loop(bench, relay):
    run = bench.running()
    relay.refuse("DELETE", "/jobs", 403, "Forbidden", "jobs is forbidden: hands off")
    bench.cancel(run)
    before = len(relay.seen)
    bench.turn(run)
    bench.turn(run)
    deletes = [path for method, path in relay.seen[before:] if method == "DELETE"]
    assert len(deletes) <= 2
    assert (run.phase, used()) == ("Stopping", 2)
    assert run.next_reconcile_at > clock.now()
    relay.rules.clear()
    bench.until(run, lambda run: run.is_final)
    assert run.phase == "Cancelled", "what people asked for, not what a refusal in between suggested"


# --- changed behind its back


def delete_namespace(bench):
    ref = ObjectRef("v1", "Namespace", "", bench.team.namespace_name)
    bench.client.delete(ref, uid=bench.client.get(ref)["metadata"]["uid"])
    return ref


@only_devcluster
def test_a_namespace_that_somebody_deletes_ends_its_runs_and_is_made_again_for_the_next(bench):
    run = bench.running()
    ref = delete_namespace(bench)
    bench.until(run, lambda run: run.is_final, seconds=90)
    assert (run.phase, run.reason, used()) == ("Failed", "DeletedExternally", 0)
    until(lambda: gone(bench.client, ref), seconds=60)
    again = bench.submit(env={"BED_RUN_SECONDS": 1})
    bench.until(again, lambda run: run.is_final)
    assert again.phase == "Succeeded"


@pytest.mark.matrix
@only_devcluster
def test_a_run_that_is_to_start_while_its_namespace_goes_waits_for_a_new_one(bench):
    bench.running(name="first", env={"BED_STOP_SECONDS": 2})
    ref = delete_namespace(bench)
    second = bench.submit(name="second", env={"BED_RUN_SECONDS": 1})
    bench.turn(second)
    assert not second.is_final, second.message
    assert not gone(bench.client, ref), "the namespace should still be going"
    bench.until(second, lambda run: run.is_final)
    assert second.phase == "Succeeded", second.message


@pytest.mark.matrix
@only_devcluster
def test_an_endpoint_survives_the_loss_of_its_namespace_without_a_failed_look(bench):
    workload = ready(bench).workload
    made = workload.events.filter(reason="Creating").count()
    ref = delete_namespace(bench)
    until(lambda: gone(bench.client, ref))
    # One turn may see it gone, make it again and see it ready; what it went through stands in its events.
    bench.until(workload, lambda row: row.events.filter(reason="Creating").count() > made)
    bench.until(workload, lambda row: row.reason == "Ready")
    assert workload.failures == 0


# --- interruptions


def node_of(bench, run):
    (pod,) = bench.own(run, kinds.POD)
    return ObjectRef("v1", "Node", "", pod["spec"]["nodeName"])


def lose(bench, ref, lost):
    bench.client.patch_merge(ref, {"metadata": {"annotations": {LOST: "true" if lost else None}}})


@pytest.fixture
def short_toleration(monkeypatch):
    monkeypatch.setattr("workloads.placement.UNREACHABLE_SECONDS", 1)


@only_devcluster
def test_after_a_lost_node_the_next_attempt_starts_on_the_same_claim(bench, short_toleration):
    run = bench.running()
    claim, node = Claim.objects.get(), node_of(bench, run)
    lose(bench, node, True)
    try:
        bench.until(run, lambda run: run.phase == "Stopping")
        assert run.reason == "NodeLost"
        assert used() == 2
    finally:
        lose(bench, node, False)
    bench.until(run, lambda run: run.phase == "Running" and run.attempts.count() == 2)
    assert Claim.objects.get() == claim
    assert (run.retries_used, run.interruptions) == (0, 1)
    first = run.attempts.get(number=1)
    assert (first.phase, first.reason) == ("Failed", "NodeLost")
    assert run.pods.filter(attempt=1, gone_at__isnull=True, finished_at__isnull=True).count() == 0


@only_devcluster
def test_reclaimed_spot_capacity_gives_the_claim_back_and_queues_at_the_old_place(bench, short_toleration):
    bench.flavor.capacity = {
        "on-demand": {},
        "spot": {"node_selector": {"karpenter.sh/capacity-type": ["spot"]}},
    }
    bench.flavor.save()
    quota = make_quota(bench.team, bench.flavor, 4, "spot")
    run = bench.submit(capacity="spot")
    queued = run.queued_at
    bench.until(run, lambda run: run.phase == "Running")
    node = node_of(bench, run)
    assert node.name.startswith("a100-spot")
    lose(bench, node, True)
    try:
        bench.until(run, lambda run: run.phase == "Stopping")
        assert run.reason == "SpotReclaimed"
    finally:
        lose(bench, node, False)
    bench.until(run, lambda run: run.phase == "Running" and run.attempts.count() == 2)
    assert run.queued_at == queued
    assert [claim.state for claim in quota.claims.order_by("pk")] == ["released", "active"]
    assert (run.retries_used, run.interruptions) == (0, 1)
    assert run.attempts.get(number=1).phase == "Failed"
    moves = list(run.events.values_list("to_phase", "reason"))
    assert ("Queued", "SpotReclaimed") in moves


def evict(bench, pod):
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]},
    }
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/eviction"
    bench.client._json("POST", path, body=body)


def test_an_evicted_pod_is_no_fault_of_the_user(bench):
    run = bench.running(max_retries=0)
    claim = Claim.objects.get()
    for budget in bench.own(run, kinds.DISRUPTION_BUDGET):
        # With it, a drain waits for the end of the run.
        bench.delete(kinds.DISRUPTION_BUDGET, budget)
    evict(bench, bench.own(run, kinds.POD)[0])
    bench.until(run, lambda run: run.phase == "Running" and run.attempts.count() == 2, seconds=90)
    assert Claim.objects.get() == claim
    assert (run.retries_used, run.interruptions) == (0, 1)
    first = run.attempts.get(number=1)
    # Which of the two it says depends on whether anybody saw the pod between its eviction and its end.
    assert (first.phase, first.reason in {"NodeLost", "DeletedExternally"}) == ("Failed", True)


@only_devcluster
def test_a_pod_that_somebody_deletes_by_hand_is_replaced_by_the_next_attempt(bench):
    run = bench.running(max_retries=0)
    (pod,) = bench.own(run, kinds.POD)
    bench.delete(kinds.POD, pod)
    bench.until(run, lambda run: run.phase == "Running" and run.attempts.count() == 2, seconds=90)
    assert (run.retries_used, used()) == (0, 2)


@pytest.mark.matrix
@pytest.mark.parametrize(("capacity", "reason"), [("on-demand", "NodeLost"), ("spot", "SpotReclaimed")])
@only_devcluster
def test_a_pod_that_vanishes_with_its_node_was_deleted_by_nobody(bench, capacity, reason):
    bench.flavor.capacity = {"on-demand": {}, "spot": {}}
    bench.flavor.save()
    make_quota(bench.team, bench.flavor, 4, "spot")
    run = bench.running(max_retries=0, capacity=capacity)
    (pod,) = bench.own(run, kinds.POD)
    NodeRecord.objects.filter(name=pod["spec"]["nodeName"]).update(gone_at=clock.now())
    bench.delete(kinds.POD, pod)
    bench.until(run, lambda run: run.phase == "Running" and run.attempts.count() == 2, seconds=90)
    assert (run.retries_used, run.interruptions) == (0, 1)
    assert run.attempts.get(number=1).reason == reason


@only_devcluster
def test_a_job_that_somebody_deletes_with_its_pods_first_has_failed(bench):
    run = bench.running(env={"BED_STOP_SECONDS": 1})
    (job,) = bench.own(run, kinds.JOB)
    bench.delete(kinds.JOB, job, "Foreground")
    bench.until(run, lambda run: run.is_final)
    assert (run.phase, run.reason, used()) == ("Failed", "DeletedExternally", 0)


@pytest.mark.parametrize("why", ["cancelled", "time limit"])
@only_devcluster
def test_pods_that_are_left_behind_without_their_job_are_stopped_all_the_same(bench, why):
    run = bench.running()
    (job,) = bench.own(run, kinds.JOB)
    bench.delete(kinds.JOB, job, "Orphan")
    until(lambda: not bench.own(run, kinds.JOB))
    assert bench.turn(run).phase == "Running", "its pod runs on, and holds its claim"
    assert used() == 2
    if why == "cancelled":
        bench.cancel(run)
    else:
        run.attempts.update(started_at=clock.now() - timedelta(seconds=601))
    bench.until(run, lambda run: run.is_final)
    assert run.phase == ("Cancelled" if why == "cancelled" else "Failed")
    assert (bench.own(run, kinds.POD), used()) == ([], 0)


# --- repeated and lost messages


def test_ten_deliveries_of_the_same_message_make_one_object(bench):
    run = bench.submit()
    start = threading.Barrier(10)
    errors = []

    def deliver():
        start.wait(30)
        try:
            for _ in range(4):
                Workload.objects.filter(pk=run.pk).update(next_reconcile_at=clock.now())
                reconcile(public_id=run.public_id, client=bench.client, now=clock.now())
        except Exception as error:  # noqa: BLE001 - shown below
            errors.append(error)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(10) as pool:
        for each in [pool.submit(deliver) for _ in range(10)]:
            result_of(each)
    assert errors == []
    bench.until(run, lambda run: run.phase == "Running")
    assert len(bench.own(run, kinds.JOB)) == 1
    assert run.attempts.count() == 1
    assert Claim.objects.count() == 1
    assert used() == 2


def test_somebody_who_looks_too_long_records_nothing_after_another_has_taken_over(bench):
    """A slow holder's lock has run out; whoever took over must not be disturbed by its late results."""
    from controller.reconcile import reconciler as module
    from workloads.locks import LOCK_SECONDS, lock

    run = bench.submit()
    takeover = []

    class Slow:
        def __getattr__(self, name):
            return getattr(bench.client, name)

        def answered_within(self, seconds):
            return False

        def version(self):
            if not takeover:
                age_lock(run, seconds=LOCK_SECONDS)
                takeover.append(lock(public_id=run.public_id, now=clock.now()))
            return bench.client.version()

    module.reconcile(public_id=run.public_id, client=Slow(), now=clock.now())
    (holder,) = takeover
    fresh = Workload.objects.get(pk=run.pk)
    assert fresh.lock_token == holder.lock_token
    assert (fresh.phase, used(), fresh.attempts.count()) == ("Queued", 0, 0)


def test_the_next_look_is_never_further_away_than_the_resync(bench):
    run = bench.running()
    wait = (run.next_reconcile_at - clock.now()).total_seconds()
    assert 0 < wait <= RESYNC_SECONDS


# --- resuming


def report(run, attempt, path, step=100):
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {run_token(run, attempt=attempt)}")
    url = f"/api/v1/training-runs/{run.public_id}/checkpoints/"
    return client.post(url, {"step": step, "path": path}, format="json").status_code


def environment(job):
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each.get("value") for each in container["env"]}


def test_the_next_attempt_is_told_the_newest_checkpoint_and_the_old_token_is_dead(bench):
    run = bench.submit(env={"BED_RUN_SECONDS": 3, "BED_EXIT_CODE": 1}, max_retries=1)
    assert report(run, 1, "/early") == 401, "there is no attempt yet"
    bench.until(run, lambda run: run.phase == "Running")
    assert "PORTAL_RESUME_FROM" not in environment(bench.own(run, kinds.JOB)[0])
    assert report(run, 1, "/checkpoints/100") == 201
    assert report(run, 1, "/checkpoints/200", step=200) == 201
    assert report(run, 2, "/future") == 401, "a token of an attempt that has not begun"
    bench.until(run, lambda run: run.attempts.count() == 2 and run.attempts.get(number=2).object_uid)
    jobs = {job["metadata"]["labels"]["mlportal.dev/attempt"]: job for job in bench.own(run, kinds.JOB)}
    assert environment(jobs["2"])["PORTAL_RESUME_FROM"] == "/checkpoints/200"
    assert run.attempts.get(number=2).resumed_from == "/checkpoints/200"
    assert report(run, 1, "/late") == 401
    assert report(run, 2, "/checkpoints/300", step=300) == 201
    bench.until(run, lambda run: run.is_final)
    assert report(run, 2, "/too-late") == 401
    assert list(run.checkpoints.values_list("path", flat=True)) == [
        "/checkpoints/300",
        "/checkpoints/200",
        "/checkpoints/100",
    ]


def test_a_run_token_of_one_run_says_nothing_about_another(bench):
    first, second = bench.submit(name="first"), bench.submit(name="second")
    for run in (first, second):
        bench.until(run, lambda run: run.attempt_number == 1)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {run_token(first, attempt=1)}")
    url = f"/api/v1/training-runs/{second.public_id}/checkpoints/"
    assert client.post(url, {"step": 1, "path": "/x"}, format="json").status_code == 404
    assert client.get(f"/api/v1/training-runs/{first.public_id}/").status_code in {401, 403}
    assert second.checkpoints.count() == 0
