"""Rollouts of revisions on a cluster: each ends right, and its history says how."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from datetime import timedelta

import pytest

from cluster import kinds
from cluster.errors import ObjectNotFound
from cluster.kinds import ObjectRef
from cluster.labels import REVISION
from controller.reconcile.reconciler import reconcile
from foundation import clock
from inference.errors import RolloutBlocked
from inference.services import roll_back
from quotas.models import Quota
from teams.actors import Actor
from tests.controller.endpoints import (
    BAD_IMAGE,
    change,
    deploy,
    history,
    images,
    impatient,
    pods,
    ready,
    states,
    uids,
    used,
)
from tests.factories.catalogue import make_flavor, make_quota
from tests.waiting import until
from workloads.models import Workload
from workloads.pods.pod_status import condition

pytestmark = pytest.mark.django_db(transaction=True)


def one_node(bench):
    """A flavor of one node with eight units, of which the team may use all and more."""
    flavor = make_flavor(
        "one-node", capacity={"on-demand": {"node_selector": {"kubernetes.io/hostname": ["a100-0"]}}}
    )
    Quota.objects.all().delete()
    make_quota(bench.team, flavor, 24)
    bench.flavor = flavor


def test_a_good_revision_goes_live_and_every_step_is_told(bench):
    endpoint = ready(bench, min_replicas=2, max_replicas=2)
    before = uids(bench, endpoint)
    change(bench, endpoint, image="example.org/serve:2")
    assert states(endpoint) == ["live", "pending"]
    bench.turn(endpoint.workload)
    assert states(endpoint) == ["live", "rolling-out"]
    assert used() == 3
    bench.until(endpoint.workload, lambda row: states(endpoint) == ["superseded", "live"] and used() == 2)
    endpoint.refresh_from_db()
    revision = endpoint.current
    assert (endpoint.target, endpoint.stable_revision) == (2, 2)
    assert (revision.updated, revision.ready, revision.total) == (2, 2, 2)
    assert revision.started_at <= revision.live_at
    assert {pod["metadata"]["labels"][REVISION] for pod in pods(bench, endpoint)} == {"2"}
    assert not before & uids(bench, endpoint)
    assert history(endpoint, 1) == ["RolloutStarted", "RevisionLive"]
    told = [step for step in history(endpoint, 2) if step != "RolloutProgress"]
    assert told == ["RolloutStarted", "SurgeClaimed", "RevisionLive"]


def test_a_revision_is_live_since_the_cluster_says_so_whenever_the_portal_looks(bench):
    endpoint = ready(bench)
    change(bench, endpoint, image="example.org/serve:2")
    bench.turn(endpoint.workload)

    def rolled_out():
        found = pods(bench, endpoint)
        ready = [condition(each, "Ready").get("status") for each in found]
        return ready == ["True"] and found[0]["metadata"]["labels"][REVISION] == "2"

    until(rolled_out)
    late = clock.now() + timedelta(hours=1)
    until(lambda: look(bench, endpoint, late) == "live")
    revision = endpoint.revisions.get(number=2)
    assert revision.started_at <= revision.live_at < late


def look(bench, endpoint, now):
    """One reconcile at another time; the newest revision's state."""
    Workload.objects.filter(pk=endpoint.workload.pk).update(next_reconcile_at=clock.now())
    reconcile(public_id=endpoint.workload.public_id, client=bench.client, now=now)
    return states(endpoint)[-1]


def test_a_bad_image_is_rolled_back_and_the_old_pod_serves_all_the_while(bench):
    endpoint = ready(bench)
    (old,) = uids(bench, endpoint)
    impatient(image_pull_deadline=1)
    change(bench, endpoint, image=BAD_IMAGE)

    def rolled_back(row):
        ready = {
            pod["metadata"]["uid"]
            for pod in pods(bench, endpoint)
            for condition in pod["status"].get("conditions", ())
            if condition["type"] == "Ready" and condition["status"] == "True"
        }
        assert old in ready
        return states(endpoint) == ["superseded", "failed", "live"] and used() == 1

    bench.until(endpoint.workload, rolled_back)
    bench.until(endpoint.workload, lambda row: row.reason == "Ready")
    endpoint.refresh_from_db()
    failed, back = endpoint.revisions.get(number=2), endpoint.revisions.get(number=3)
    assert "could not be pulled" in failed.message
    assert (back.cause, back.returns_to, back.spec["image"]) == (
        "automatic-rollback",
        1,
        "example.org/serve:1",
    )
    assert uids(bench, endpoint) == {old}
    assert history(endpoint, 2) == ["RolloutStarted", "SurgeClaimed", "RevisionFailed"]
    assert history(endpoint, 3) == ["RolledBack", "RolloutStarted", "RevisionLive"]


@pytest.mark.matrix
def test_a_rollback_that_fails_is_the_last_one(bench):
    endpoint = ready(bench)
    impatient(image_pull_deadline=1)
    change(bench, endpoint, image=BAD_IMAGE)
    bench.until(endpoint.workload, lambda row: len(states(endpoint)) == 3)
    # What worked once is gone from its registry, and so is the pod that had it.
    endpoint.revisions.filter(number=3).update(spec={**endpoint.revisions.get(number=2).spec}, pods_of=3)
    for pod in pods(bench, endpoint):
        bench.delete(kinds.POD, pod)
    bench.until(endpoint.workload, lambda row: states(endpoint)[-1] == "failed")
    for _ in range(3):
        bench.turn(endpoint.workload)
    assert len(states(endpoint)) == 3


def test_the_first_revision_has_nothing_to_go_back_to(bench):
    impatient(image_pull_deadline=1)
    endpoint = deploy(bench, image=BAD_IMAGE)
    bench.until(endpoint.workload, lambda row: row.phase == "Failed")
    assert states(endpoint) == ["failed"]


@pytest.mark.matrix
def test_an_endpoint_may_have_less_patience_with_its_image_than_the_platform_and_no_pod_is_replaced_for_it(
    bench,
):
    endpoint = ready(bench)
    impatient(image_pull_deadline=900)
    before = uids(bench, endpoint)
    change(bench, endpoint, image_pull_deadline_seconds=1)
    bench.until(endpoint.workload, lambda row: states(endpoint)[-1] == "live")
    assert uids(bench, endpoint) == before
    change(bench, endpoint, image=BAD_IMAGE, image_pull_deadline_seconds=1)
    bench.until(endpoint.workload, lambda row: "failed" in states(endpoint))
    assert "could not be pulled within 1 seconds" in endpoint.revisions.get(number=3).message


def test_what_a_revision_leaves_out_is_gone_from_its_pods(bench):
    said = [{"name": "SAID", "value": "once"}]
    endpoint = ready(bench, env=said)
    change(bench, endpoint, env=[])
    bench.until(endpoint.workload, lambda row: states(endpoint) == ["superseded", "live"])
    (pod,) = pods(bench, endpoint)
    (container,) = pod["spec"]["containers"]
    assert "SAID" not in {each["name"] for each in container.get("env", ())}


def test_people_go_back_and_the_pods_are_those_of_then(bench):
    endpoint = ready(bench)
    change(bench, endpoint, image="example.org/serve:2")
    bench.until(endpoint.workload, lambda row: states(endpoint) == ["superseded", "live"])
    endpoint.workload.refresh_from_db()
    roll_back(endpoint=endpoint, number=None, actor=Actor.of_user(bench.member), now=clock.now())
    bench.until(endpoint.workload, lambda row: states(endpoint)[-1] == "live" and used() == 1)
    endpoint.refresh_from_db()
    assert (endpoint.current.cause, endpoint.current.returns_to) == ("rollback", 1)
    (pod,) = pods(bench, endpoint)
    assert pod["spec"]["containers"][0]["image"] == "example.org/serve:1"
    assert pod["metadata"]["labels"][REVISION] == "1"


def test_without_quota_for_the_surge_nothing_changes_until_a_way_is_chosen(bench):
    endpoint = ready(bench, gpus_per_replica=8)
    (old,) = uids(bench, endpoint)
    with pytest.raises(RolloutBlocked, match="needs 8 more") as refused:
        change(bench, endpoint, image="example.org/serve:2")
    ways = {option["option"]: option for option in refused.value.options}
    assert set(ways) == {"replace", "wait", "quota"}
    bench.turn(endpoint.workload)
    endpoint.refresh_from_db()
    assert (endpoint.revision, states(endpoint), uids(bench, endpoint)) == (1, ["live"], {old})

    assert ways["replace"]["downtime_seconds"] is not None
    change(bench, endpoint, image="example.org/serve:2", **ways["replace"]["change"])
    bench.until(endpoint.workload, lambda row: states(endpoint) == ["superseded", "live"])
    assert used() == 8
    assert old not in uids(bench, endpoint)
    assert history(endpoint, 2) == ["RolloutStarted", "RevisionLive"]


def test_who_chooses_to_wait_is_served_when_quota_comes(bench):
    endpoint = ready(bench, gpus_per_replica=8)
    (old,) = uids(bench, endpoint)
    change(bench, endpoint, image="example.org/serve:2", rollout={"when_blocked": "wait"})
    bench.turn(endpoint.workload)
    bench.turn(endpoint.workload)
    assert (states(endpoint), uids(bench, endpoint), used()) == (["live", "pending"], {old}, 8)
    assert "needs 8 more" in endpoint.current.message
    assert history(endpoint, 2) == ["RolloutWaits"]
    make_quota(bench.team, bench.flavor, 16)
    bench.until(endpoint.workload, lambda row: states(endpoint) == ["superseded", "live"] and used() == 8)
    assert history(endpoint, 2) == ["RolloutWaits", "RolloutStarted", "SurgeClaimed", "RevisionLive"]


def test_a_node_without_room_is_known_before_anything_changes(bench):
    one_node(bench)
    endpoint = ready(bench, gpus_per_replica=8)
    with pytest.raises(RolloutBlocked, match="the freest has 0 left") as refused:
        change(bench, endpoint, image="example.org/serve:2")
    assert [option["option"] for option in refused.value.options] == ["replace", "wait"]


@pytest.mark.matrix
def test_room_that_vanishes_between_is_told_and_the_old_revision_goes_on(bench):
    one_node(bench)
    endpoint = ready(bench, gpus_per_replica=4)
    (old,) = uids(bench, endpoint)
    impatient(schedule_deadline=1)
    with stranger(bench, 4):
        change(bench, endpoint, image="example.org/serve:2")
        bench.until(endpoint.workload, lambda row: "RolloutTakenBack" in history(endpoint))
        impatient(schedule_deadline=600)
        # It is tried again after two seconds, and a busy machine takes longer for what is seen here.
        with clock.freeze(endpoint.revisions.get(number=2).held_until - timedelta(seconds=1)):
            bench.until(endpoint.workload, lambda row: uids(bench, endpoint) == {old} and used() == 4)
        assert states(endpoint) == ["live", "pending"]
        assert "No node took pod" in endpoint.revisions.get(number=2).message
    bench.until(endpoint.workload, lambda row: states(endpoint) == ["superseded", "live"] and used() == 4)
    assert old not in uids(bench, endpoint)
    assert history(endpoint, 2)[:3] == ["RolloutStarted", "SurgeClaimed", "RolloutTakenBack"]


@contextmanager
def stranger(bench, units):
    """While a pod that the portal does not know has so many units of the node."""
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stranger", "namespace": "default"},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": "a100-0"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "containers": [
                {
                    "name": "main",
                    "image": "example.org/stranger:1",
                    "resources": {"limits": {"nvidia.com/gpu": str(units)}},
                }
            ],
        },
    }
    made = bench.client.create(manifest)
    try:
        yield
    finally:
        with suppress(ObjectNotFound):
            bench.client.delete(ObjectRef("v1", "Pod", "default", "stranger"), uid=made["metadata"]["uid"])


def test_a_replacement_that_is_not_ready_in_the_announced_time_is_taken_back(bench):
    endpoint = ready(bench, gpus_per_replica=8)
    slow = [{"name": "BED_START_SECONDS", "value": "600"}]
    change(bench, endpoint, env=slow, rollout={"strategy": "replace", "max_downtime_seconds": 20})
    endpoint.revisions.filter(number=2).update(
        spec={**endpoint.current.spec, "rollout": {"strategy": "replace", "max_downtime_seconds": 2}}
    )
    bench.until(endpoint.workload, lambda row: states(endpoint) == ["superseded", "failed", "live"])
    assert "the most that was announced" in endpoint.revisions.get(number=2).message


@pytest.mark.matrix
def test_a_revision_that_comes_while_another_is_rolled_out_ends_right(bench):
    endpoint = ready(bench)
    impatient(image_pull_deadline=60)
    change(bench, endpoint, image=BAD_IMAGE)
    bench.until(endpoint.workload, lambda row: states(endpoint) == ["live", "rolling-out"])
    change(bench, endpoint, image="example.org/serve:3")
    assert states(endpoint) == ["live", "superseded", "pending"]
    bench.until(endpoint.workload, lambda row: states(endpoint)[-1] == "live" and used() == 1)
    assert states(endpoint) == ["superseded", "superseded", "live"]
    assert images(bench, endpoint) == {"example.org/serve:3"}


@pytest.mark.matrix
def test_a_change_made_while_stopped_that_fails_needs_no_room_to_go_back(bench):
    endpoint = ready(bench, gpus_per_replica=8)
    impatient(image_pull_deadline=1)
    bench.suspend(endpoint.workload)
    bench.until(endpoint.workload, lambda row: row.phase == "Suspended")
    change(bench, endpoint, image=BAD_IMAGE)
    bench.resume(endpoint.workload)
    # What failed holds all that the team may have, and serves nobody.
    bench.until(endpoint.workload, lambda row: states(endpoint) == ["superseded", "failed", "live"])
    assert used() == 8


@pytest.mark.matrix
def test_what_never_starts_keeps_no_better_revision_waiting(bench):
    endpoint = ready(bench, gpus_per_replica=8)
    bench.suspend(endpoint.workload)
    bench.until(endpoint.workload, lambda row: row.phase == "Suspended")
    change(bench, endpoint, image=BAD_IMAGE, rollout={"when_blocked": "wait"})
    bench.resume(endpoint.workload)
    bench.until(endpoint.workload, lambda row: row.reason == "ImagePullFailed")
    # All the room that there is belongs to what serves nobody.
    change(bench, endpoint, image="example.org/serve:3")
    bench.until(endpoint.workload, lambda row: states(endpoint) == ["superseded", "superseded", "live"])
    assert images(bench, endpoint) == {"example.org/serve:3"}
    assert used() == 8


@pytest.mark.matrix
def test_what_runs_is_judged_also_while_a_newer_revision_waits_for_room(bench):
    endpoint = ready(bench, gpus_per_replica=4, min_replicas=2, max_replicas=2)
    impatient(image_pull_deadline=600)
    change(bench, endpoint, image=BAD_IMAGE, rollout={"strategy": "replace"})
    bench.until(endpoint.workload, lambda row: "ImagePullFailed" in row.message and row.phase == "Running")
    change(bench, endpoint, image="example.org/serve:3", rollout={"when_blocked": "wait"})
    bench.until(endpoint.workload, lambda row: history(endpoint, 3) == ["RolloutWaits"])
    impatient(image_pull_deadline=1)
    bench.until(endpoint.workload, lambda row: states(endpoint) == ["superseded", "failed", "live"])
    assert "could not be pulled" in endpoint.revisions.get(number=2).message
    assert history(endpoint, 3)[:3] == ["RolloutWaits", "RolloutInPlace", "RolloutStarted"]
    assert used() == 8


@pytest.mark.matrix
def test_a_pod_that_served_and_restarts_in_a_long_rollout_has_its_load_budget_anew(bench):
    endpoint = ready(bench, min_replicas=2, max_replicas=2)
    change(bench, endpoint, env=[{"name": "BED_START_SECONDS", "value": "3"}])
    bench.until(endpoint.workload, lambda row: endpoint.revisions.get(number=2).ready == 1)
    # It began longer ago than a pod may take to load, and the first of its pods has served since soon after.
    endpoint.revisions.filter(number=2).update(started_at=clock.now() - timedelta(hours=1))
    (served,) = (
        pod
        for pod in pods(bench, endpoint)
        if pod["metadata"]["labels"][REVISION] == "2" and pod["status"]["phase"] == "Running"
    )
    restarts(bench, served)
    bench.turn(endpoint.workload)
    assert states(endpoint) == ["live", "rolling-out"]
    report(bench, served, served["status"])
    bench.until(endpoint.workload, lambda row: states(endpoint) == ["superseded", "live"])


def restarts(bench, pod):
    """The kubelet's report that it, placed an hour ago, has just ended and been started again."""
    times = {"PodScheduled": clock.now() - timedelta(hours=1), "Ready": clock.now()}
    conditions = [
        {
            **each,
            "status": "False" if each["type"] == "Ready" else each["status"],
            "lastTransitionTime": f"{times.get(each['type'], times['PodScheduled']):%Y-%m-%dT%H:%M:%SZ}",
        }
        for each in pod["status"]["conditions"]
    ]
    containers = [{**each, "restartCount": 1, "ready": False} for each in pod["status"]["containerStatuses"]]
    report(bench, pod, {"conditions": conditions, "containerStatuses": containers})


def report(bench, pod, status):
    ref = ObjectRef("v1", "Pod", bench.team.namespace_name, pod["metadata"]["name"])
    bench.client.patch_merge(ref, {"status": status}, sub="status")


@pytest.mark.matrix
def test_a_worker_that_dies_in_the_middle_leaves_nothing_undone(bench, monkeypatch):
    endpoint = ready(bench)
    impatient(image_pull_deadline=1)
    change(bench, endpoint, image=BAD_IMAGE)

    for _ in range(3):
        with monkeypatch.context() as patched:
            patched.setattr("controller.reconcile.reconciler.crash_point", _die_when_acted)
            with pytest.raises(_Died):
                bench.turn(endpoint.workload)
        # Its lock runs out.
        Workload.objects.update(lock_token=None, lock_expires_at=None)
    bench.until(
        endpoint.workload, lambda row: states(endpoint) == ["superseded", "failed", "live"] and used() == 1
    )
    assert history(endpoint, 2) == ["RolloutStarted", "SurgeClaimed", "RevisionFailed"]


class _Died(BaseException):
    pass


def _die_when_acted(name):
    if name == "acted":
        raise _Died
