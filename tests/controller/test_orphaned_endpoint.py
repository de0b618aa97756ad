"""An endpoint whose Deployment somebody deleted while what it owns was told to stay, or to go."""

from __future__ import annotations

import pytest

from cluster import kinds
from costs.models import UsageInterval
from quotas.models import Quota
from tests.controller.endpoints import TWO, change, deploy
from tests.effort import spread
from tests.waiting import until
from workloads.models import Workload

pytestmark = pytest.mark.django_db(transaction=True)

MINUTES = 90


@pytest.fixture
def endpoint(bench):
    """Two ready replicas."""
    return bench.until(deploy(bench, **TWO).workload, lambda row: row.reason == "Ready")


def delete(bench, workload, kind, policy="Orphan"):
    """As `kubectl delete --cascade` does it; its UID."""
    (found,) = bench.own(workload, kind)
    bench.delete(kind, found, policy)
    until(lambda: not bench.own(workload, kind))
    return found["metadata"]["uid"]


def uids(bench, workload, kind):
    return {each["metadata"]["uid"] for each in bench.own(workload, kind)}


def made_again(bench, workload, old):
    found = uids(bench, workload, kinds.DEPLOYMENT)
    return bool(found) and old not in found


def controllers(bench, workload, kind):
    owners = [found["metadata"].get("ownerReferences") or () for found in bench.own(workload, kind)]
    return {owner["uid"] for each in owners for owner in each if owner.get("controller")}


def stopped(row):
    return row.phase == "Suspended"


# --- it runs


def test_it_is_made_again_and_takes_its_pods_over(bench, endpoint):
    pods, sets = uids(bench, endpoint, kinds.POD), uids(bench, endpoint, kinds.REPLICA_SET)
    old = delete(bench, endpoint, kinds.DEPLOYMENT)
    assert bench.turn(endpoint).phase == "Running", "its pods serve all the while"
    assert made_again(bench, endpoint, old)
    until(lambda: controllers(bench, endpoint, kinds.REPLICA_SET) == uids(bench, endpoint, kinds.DEPLOYMENT))
    bench.until(endpoint, lambda row: row.reason == "Ready")
    assert (uids(bench, endpoint, kinds.POD), uids(bench, endpoint, kinds.REPLICA_SET)) == (pods, sets)
    assert {each.pod_uid for each in UsageInterval.objects.filter(ended_at=None)} == pods
    assert (UsageInterval.objects.count(), Quota.objects.get().used) == (2, 2)


def test_pods_whose_set_has_gone_as_well_are_taken_over_too(bench, endpoint):
    pods = uids(bench, endpoint, kinds.POD)
    old = delete(bench, endpoint, kinds.DEPLOYMENT)
    delete(bench, endpoint, kinds.REPLICA_SET)
    bench.until(endpoint, lambda row: row.reason == "Ready" and made_again(bench, row, old))
    until(lambda: controllers(bench, endpoint, kinds.POD) == uids(bench, endpoint, kinds.REPLICA_SET))
    assert uids(bench, endpoint, kinds.POD) == pods


@pytest.mark.matrix
@pytest.mark.parametrize("client", ["devcluster"], indirect=True)
def test_pods_of_another_revision_whose_set_has_gone_are_deleted_first(bench):
    endpoint = deploy(bench, **TWO)
    workload = bench.until(endpoint.workload, lambda row: row.reason == "Ready")
    pods = uids(bench, workload, kinds.POD)
    old = delete(bench, workload, kinds.DEPLOYMENT)
    delete(bench, workload, kinds.REPLICA_SET)
    change(bench, endpoint, image="example.org/serve:2")
    bench.turn(workload)
    assert not made_again(bench, workload, old), "nothing runs twice"
    bench.until(workload, lambda row: row.reason == "Ready" and made_again(bench, row, old), MINUTES)
    left = uids(bench, workload, kinds.POD)
    assert len(left) == Quota.objects.get().used == 2
    assert not left & pods


@pytest.mark.matrix
@pytest.mark.parametrize("client", ["devcluster"], indirect=True)
def test_pods_that_the_sets_of_a_living_deployment_do_not_take_over_are_deleted(bench, endpoint):
    """Taken out of their set by hand, as one does to look at a pod in peace."""
    lost = bench.own(endpoint, kinds.POD)[0]
    labels = {"metadata": {"labels": {"pod-template-hash": "another"}, "ownerReferences": None}}
    bench.client.patch_merge(kinds.ref_of(lost), labels)
    until(lambda: len(bench.own(endpoint, kinds.POD)) == 3)
    uid = lost["metadata"]["uid"]
    bench.until(endpoint, lambda row: uid not in uids(bench, row, kinds.POD), MINUTES)
    bench.until(endpoint, lambda row: row.reason == "Ready")
    assert len(bench.own(endpoint, kinds.POD)) == 2


@pytest.mark.matrix
@pytest.mark.parametrize("client", ["devcluster"], indirect=True)
def test_what_has_grown_keeps_its_size(bench):
    scaling = {"trigger": "cpu", "threshold": 70}
    workload = deploy(bench, min_replicas=1, max_replicas=3, scaling=scaling).workload
    bench.until(workload, lambda row: row.phase == "Running")
    (deployment,) = bench.own(workload, kinds.DEPLOYMENT)
    bench.client.patch_merge(kinds.ref_of(deployment), {"spec": {"replicas": 3}})
    until(lambda: len(bench.own(workload, kinds.POD)) == 3)
    pods = uids(bench, workload, kinds.POD)
    old = delete(bench, workload, kinds.DEPLOYMENT)
    bench.until(workload, lambda row: made_again(bench, row, old))
    (deployment,) = bench.own(workload, kinds.DEPLOYMENT)
    assert deployment["spec"]["replicas"] == 3
    until(lambda: controllers(bench, workload, kinds.REPLICA_SET) == {deployment["metadata"]["uid"]})
    assert uids(bench, workload, kinds.POD) == pods


@pytest.mark.parametrize("client", ["devcluster"], indirect=True)
@pytest.mark.parametrize(
    ("said", "size"), spread([("x", 1), ("-5", 1), ("0", 1), ("2", 2), ("1000000", 3)], usual=2)
)
def test_the_size_of_before_is_a_number_within_its_bounds(bench, said, size):
    scaling = {"trigger": "cpu", "threshold": 70}
    workload = deploy(bench, min_replicas=1, max_replicas=3, scaling=scaling).workload
    bench.until(workload, lambda row: row.phase == "Running")
    old = delete(bench, workload, kinds.DEPLOYMENT)
    (kept,) = bench.own(workload, kinds.REPLICA_SET)
    annotations = {"deployment.kubernetes.io/desired-replicas": said}
    bench.client.patch_merge(kinds.ref_of(kept), {"metadata": {"annotations": annotations}})
    bench.until(workload, lambda row: made_again(bench, row, old))
    (deployment,) = bench.own(workload, kinds.DEPLOYMENT)
    assert deployment["spec"]["replicas"] == size


@pytest.mark.matrix
@pytest.mark.parametrize("client", ["devcluster"], indirect=True)
def test_nothing_is_made_beside_pods_that_are_taken_down(bench):
    env = [{"name": "BED_STOP_SECONDS", "value": "2"}]
    workload = bench.until(deploy(bench, **TWO, env=env).workload, lambda row: row.reason == "Ready")
    pods = uids(bench, workload, kinds.POD)
    old = delete(bench, workload, kinds.DEPLOYMENT, "Background")
    bench.turn(workload)
    assert uids(bench, workload, kinds.POD) == pods, "they take their time to stop"
    assert bench.own(workload, kinds.DEPLOYMENT) == []
    bench.until(workload, lambda row: row.reason == "Ready" and made_again(bench, row, old), MINUTES)
    assert not uids(bench, workload, kinds.POD) & pods


@pytest.mark.matrix
@pytest.mark.parametrize("client", ["devcluster"], indirect=True)
def test_it_is_made_again_as_it_was_while_its_change_waits_for_room(bench):
    endpoint = deploy(bench, **TWO, gpus_per_replica=4)
    workload = bench.until(endpoint.workload, lambda row: row.reason == "Ready")
    pods = uids(bench, workload, kinds.POD)
    change(bench, endpoint, image="example.org/serve:2", rollout={"when_blocked": "wait"})
    assert "The new revision waits." in bench.turn(workload).message
    old = delete(bench, workload, kinds.DEPLOYMENT)
    assert "The new revision waits." in bench.turn(workload).message
    assert made_again(bench, workload, old)
    until(lambda: controllers(bench, workload, kinds.REPLICA_SET) == uids(bench, workload, kinds.DEPLOYMENT))
    assert uids(bench, workload, kinds.POD) == pods
    assert Quota.objects.get().used == 8


def test_what_somebody_else_has_taken_over_is_left_to_them(bench, endpoint):
    old = another_takes_over(bench, endpoint)
    for _ in range(3):
        assert bench.turn(endpoint).phase == "Running"
    assert len(bench.own(endpoint, kinds.REPLICA_SET)) == 1
    assert not made_again(bench, endpoint, old)


def another_takes_over(bench, endpoint):
    """Somebody's own Deployment with the same selector, which has none of the portal's labels; the old one's UID."""
    (mine,) = bench.own(endpoint, kinds.DEPLOYMENT)
    old = delete(bench, endpoint, kinds.DEPLOYMENT)
    spec = {key: mine["spec"][key] for key in ("replicas", "selector", "template")}
    namespace = bench.team.namespace_name
    theirs = bench.client.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "theirs", "namespace": namespace},
            "spec": spec,
        }
    )
    until(lambda: controllers(bench, endpoint, kinds.REPLICA_SET) == {theirs["metadata"]["uid"]})
    return old


# --- it stops


@pytest.mark.parametrize("left", ["with its set", "without"])
def test_what_is_left_behind_goes_when_it_is_stopped(bench, endpoint, left):
    delete(bench, endpoint, kinds.DEPLOYMENT)
    if left == "without":
        delete(bench, endpoint, kinds.REPLICA_SET)
    bench.suspend(endpoint)
    bench.until(endpoint, stopped, MINUTES)
    assert bench.own(endpoint, kinds.REPLICA_SET) == bench.own(endpoint, kinds.POD) == []
    assert Quota.objects.get().used == 0
    assert not UsageInterval.objects.filter(ended_at=None).exists()


@pytest.mark.matrix
def test_it_stops_only_when_nothing_is_left_that_could_make_pods(bench, endpoint):
    delete(bench, endpoint, kinds.DEPLOYMENT)
    (kept,) = bench.own(endpoint, kinds.REPLICA_SET)
    bench.client.patch_merge(kinds.ref_of(kept), {"spec": {"replicas": 0}})
    until(lambda: not bench.own(endpoint, kinds.POD))
    bench.suspend(endpoint)
    bench.until(endpoint, stopped, MINUTES)
    assert bench.own(endpoint, kinds.REPLICA_SET) == []


def test_what_somebody_else_has_taken_over_is_not_deleted(bench, endpoint):
    another_takes_over(bench, endpoint)
    sets, pods = uids(bench, endpoint, kinds.REPLICA_SET), uids(bench, endpoint, kinds.POD)
    bench.suspend(endpoint)
    for _ in range(3):
        assert bench.turn(Workload.objects.get(pk=endpoint.pk)).phase == "Stopping"
    assert (uids(bench, endpoint, kinds.REPLICA_SET), uids(bench, endpoint, kinds.POD)) == (sets, pods)
