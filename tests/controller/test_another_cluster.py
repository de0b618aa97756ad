"""Two clusters in one database: what is done by one's client leaves the rows of the other as they are."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from cluster import kinds
from cluster.client import connect
from cluster.kinds import ObjectRef
from cluster.names import DEFAULT_CLUSTER
from console.strays import delete_strays
from controller.reconcile import garbage
from controller.watch.watcher import Watcher
from foundation import clock
from foundation.errors import NotFound
from logs.collector import _unfinished
from teams.actors import Actor
from tenancy.namespace_manifests import QUOTA_NAME
from tenancy.namespaces import ensure_namespace
from tests.controller.test_objects_of_no_workload import make_job
from tests.factories.catalogue import make_flavor
from tests.factories.elsewhere import ELSEWHERE, OBSERVED, make_rows, rows_of
from tests.factories.teams import make_team, make_user
from tests.factories.workloads import make_workload, put_in
from tests.waiting import until
from workloads.models import ObjectRecord, StrayObject
from workloads.states import Phase

pytestmark = pytest.mark.django_db(transaction=True)

LATER = timedelta(hours=1)


@pytest.fixture
def here(devcluster):
    client = connect(devcluster)
    yield client
    client.close()


@pytest.fixture
def there(devcluster):
    """A client of the same API server under another cluster's name."""
    client = connect(devcluster, cluster=ELSEWHERE)
    yield client
    client.close()


@pytest.fixture
def run():
    return make_workload(team=make_team(f"t-{uuid4().hex[:8]}"), flavor=make_flavor(), units=1)


def list_all(client):
    """What a watcher does first after its start, of every kind that it follows and the API server serves."""
    for thread in Watcher(lambda: client).threads:
        if thread._served(client):
            thread.relist(client)


@pytest.mark.parametrize("listing", ["here", "there"])
def test_what_a_list_lacks_is_gone_in_its_own_cluster_alone(request, listing, run):
    client = request.getfixturevalue(listing)
    mine, other = client.cluster, {"here": ELSEWHERE, "there": DEFAULT_CLUSTER}[listing]
    for cluster in (mine, other):
        make_rows(run, cluster=cluster, node="never-made")
    before = rows_of(other)
    assert all(before.values()), "rows of every kind"
    list_all(client)
    assert rows_of(other) == before
    after = rows_of(mine)
    for name in ("PodRecord", "ObjectRecord", "NodeRecord"):
        assert [row["gone_at"] is None for row in after[name] if row["uid"].endswith(f"-{mine}")] == [
            False
        ], name
    for name in ("ForeignPod", "StrayObject", "NodePoolRecord", "ClaimRecord"):
        assert not [row for row in after[name] if row["uid"].endswith(f"-{mine}")], name


def test_a_kind_that_one_cluster_serves_no_more_takes_nothing_from_the_other(here, run):
    make_rows(run, cluster=DEFAULT_CLUSTER)
    make_rows(run)
    (follower,) = (each for each in Watcher(lambda: here).threads if each.kind == kinds.NODE_POOL)
    here.served_kinds = set
    before = rows_of(ELSEWHERE)
    assert not follower._served(here)
    assert rows_of(ELSEWHERE) == before
    assert rows_of()["NodePoolRecord"] == []
    assert "NodePool" not in {row["kind"] for row in rows_of()["WatchCursor"]}


@pytest.fixture
def namespace(there, run):
    """That of the run's team, where there is a claim, a Job of the run, and one of a workload that nobody knows."""
    name = run.team.namespace_name
    made = there.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"namespace": name, "name": "data"}
    there.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim})
    make_job(there, run.team, "own", str(run.public_id))
    make_job(there, run.team, "lost", str(uuid4()))
    yield name
    there.delete(ObjectRef("v1", "Namespace", "", name), uid=made["metadata"]["uid"])


def on_nodes(client, namespace):
    pods = client.list(kinds.POD, namespace=namespace).items
    return len(pods) == 2 and all(pod["spec"].get("nodeName") for pod in pods)


def test_what_is_seen_is_of_the_cluster_of_the_client_that_saw_it(there, namespace):
    until(lambda: on_nodes(there, namespace))
    list_all(there)
    seen = {each.__name__: set(each._default_manager.values_list("cluster", flat=True)) for each in OBSERVED}
    assert seen.pop("NodePoolRecord") <= {ELSEWHERE}, "of which this API server may serve none"
    assert set(map(frozenset, seen.values())) == {frozenset({ELSEWHERE})}, seen


def test_what_was_applied_in_one_cluster_is_not_taken_for_granted_in_the_other(here, there, run):
    ensure_namespace(here, run.team)
    quota = ObjectRef(kinds.RESOURCE_QUOTA.api_version, "ResourceQuota", run.team.namespace_name, QUOTA_NAME)
    here.delete(quota, uid=here.get(quota)["metadata"]["uid"])
    ensure_namespace(there, run.team)
    assert there.get(quota)
    namespace = ObjectRef("v1", "Namespace", "", run.team.namespace_name)
    here.delete(namespace, uid=here.get(namespace)["metadata"]["uid"])


def test_garbage_is_collected_by_the_client_of_its_cluster(here, run):
    make_rows(run)
    now = clock.now()
    run.attempts.create(number=1, object_name="train", created_at=now, ended_at=now)
    put_in(run, Phase.FAILED)
    garbage.delete_ended(here, now=clock.now() + LATER)
    garbage.delete_objects(here, workload_id=run.pk, now=clock.now())
    assert ObjectRecord.objects.get().gone_at is None


def test_logs_are_collected_by_the_client_of_their_cluster(run):
    make_rows(run, cluster=DEFAULT_CLUSTER)
    make_rows(run)
    assert [pod.uid for pod in _unfinished(DEFAULT_CLUSTER, clock.now())] == [f"pod-{DEFAULT_CLUSTER}"]


def test_a_stray_is_not_deleted_by_the_client_of_another_cluster(here, run):
    make_rows(run)
    actor = Actor.of_user(make_user("root", platform_admin=True))
    with pytest.raises(NotFound):
        delete_strays(here, uids=[f"stray-{ELSEWHERE}"], reason="", actor=actor, now=clock.now())
    assert StrayObject.objects.get().deleted_at is None
