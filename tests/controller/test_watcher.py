"""The watcher against a cluster that forgets, restarts, loses its line and lies."""

from __future__ import annotations

import threading
from uuid import uuid4

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from cluster import kinds
from cluster.client import connect
from cluster.kinds import ObjectRef
from cluster.labels import workload_labels
from controller.watch import watcher as module
from controller.watch.capacity import NodeSink
from controller.watch.events import EventSink
from controller.watch.objects import ObjectSink
from controller.watch.pods import PodSink
from controller.watch.volume_claims import ClaimSink
from controller.watch.watcher import EVERY, OWN, TOLD, KindWatcher, Watcher
from costs.models import UsageInterval
from foundation import clock
from foundation.models import Heartbeat
from logs.collector import LogCollector
from tests.controller.clusters import OwnCluster, Relay
from tests.controller.followers import Follower
from tests.controller.watch_bed import Pods, following, record, seen
from tests.factories.catalogue import make_flavor
from tests.factories.teams import make_team
from tests.factories.workloads import make_workload
from tests.waiting import until
from workloads.models import (
    ClaimRecord,
    EventRecord,
    ForeignPod,
    NodeRecord,
    ObjectRecord,
    PodRecord,
    WatchCursor,
    Workload,
)
from workloads.observations import record_claim

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """It remembers eight versions only."""
    cluster = OwnCluster(tmp_path_factory.mktemp("forgetful"), "--history", "8")
    yield cluster
    cluster.stop()


@pytest.fixture
def direct(cluster):
    client = connect(str(cluster.kubeconfig))
    yield client
    client.close()


@pytest.fixture
def run():
    team = make_team(f"t-{uuid4().hex[:8]}")
    return make_workload(team=team, flavor=make_flavor(), units=1)


@pytest.fixture
def namespace(direct, run):
    name = run.team.namespace_name
    made = direct.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    direct.delete(ObjectRef("v1", "Namespace", "", name), uid=made["metadata"]["uid"])


@pytest.fixture
def pods(direct, namespace, run):
    return Pods(direct, namespace, run)


@pytest.fixture
def relay(cluster, tmp_path):
    relay = Relay(tmp_path, str(cluster.kubeconfig))
    yield relay
    relay.close()


def test_pods_become_rows_usage_and_wake_ups(relay, pods, run):
    Workload.objects.update(next_reconcile_at=None)
    with following(relay):
        uid = pods.make("one", BED_RUN_SECONDS="0.5")
        ended = seen(uid, finished_at__isnull=False)
        assert (ended.phase, ended.units, ended.workload) == ("Succeeded", 1, run)
        until(lambda: UsageInterval.objects.filter(pod_uid=uid, ended_at=ended.finished_at))
        assert Workload.objects.get().next_reconcile_at is not None
        pods.delete("one", uid)
        assert seen(uid, gone_at__isnull=False).ended_at == ended.finished_at
        cursor = WatchCursor.objects.get(kind="Pod")
        assert cursor.listed_at is not None
        assert cursor.seen_at >= cursor.listed_at


def test_what_changed_while_nobody_watched_is_found_by_the_list(relay, pods):
    with following(relay):
        kept, lost = pods.make("kept"), pods.make("lost")
        seen(kept, phase="Running")
        seen(lost, phase="Running")
    pods.delete("lost", lost)
    new = pods.make("new")
    with following(relay):
        seen(new, phase="Running")
        seen(lost, gone_at__isnull=False)
        until(lambda: UsageInterval.objects.filter(pod_uid=lost, ended_at__isnull=False))
    assert record(kept).gone_at is None


def test_a_version_that_is_forgotten_leads_to_a_new_list(relay, pods):
    uid = pods.make("one")
    pods.churn()
    with following(relay, version="1") as follower:
        seen(uid, phase="Running")
        second = pods.make("two")
        seen(second)
        assert follower.resource_version not in {"", "1"}
    asked = [path for method, path in relay.seen if "pods" in path]
    assert "watch=" in asked[0], "it tried to go on from where it stood"
    assert any("watch=" not in path and "/api/v1/pods?" in path for path in asked)


def test_a_restarted_cluster_is_followed_on_and_nothing_is_taken_for_deleted(cluster, relay, pods):
    with following(relay):
        before = pods.make("before")
        seen(before, phase="Running")
        cluster.restart()
        pods.churn()
        after = pods.make("after")
        seen(after, phase="Running")
    assert record(before).gone_at is None


def test_a_cut_line_is_taken_up_again(relay, pods):
    with following(relay) as follower:
        first = pods.make("first")
        seen(first, phase="Running")
        for index in range(3):
            relay.cut()
            uid = pods.make(f"after-{index}")
            seen(uid)
        assert follower.is_alive()
    assert PodRecord.objects.filter(gone_at__isnull=False).count() == 0


def test_while_the_cluster_is_away_it_waits_longer_and_longer_and_then_goes_on(relay, pods, monkeypatch):
    monkeypatch.setattr(module, "BACKOFF_SECONDS_MAX", 0.2)
    relay.away = True
    with following(relay) as follower:
        until(lambda: follower.failures >= 3)
        assert not WatchCursor.objects.exists()
        uid = pods.make("one")
        relay.away = False
        seen(uid)
        seen(pods.make("two"))
        until(lambda: follower.failures == 0)


@pytest.mark.parametrize("shown", ["nothing", "half"])
def test_an_empty_or_partial_list_is_no_proof_of_deletion(relay, pods, shown):
    with following(relay):
        uids = [pods.make("one"), pods.make("two")]
        for uid in uids:
            seen(uid, phase="Running")
    listing = pods.client.list(kinds.POD, namespace=pods.namespace)
    items = [] if shown == "nothing" else listing.items[:1]
    lie = {
        "kind": "PodList", "apiVersion": "v1", "code": 200,
        "metadata": {"resourceVersion": listing.resource_version}, "items": items,
    }  # fmt: skip
    lied = []

    def rule(method, path):
        if method == "GET" and path.startswith("/api/v1/pods?") and "watch=" not in path:
            lied.append(path)
            return lie
        return None

    relay.rules.append(rule)
    with following(relay):
        until(lambda: lied)
        third = pods.make("three")
        seen(third)
    assert PodRecord.objects.filter(gone_at__isnull=False).count() == 0


def lister(relay, *, sink=None, kind=kinds.POD):
    client = connect(relay.kubeconfig, timeout=(2, 10))
    sink = sink or PodSink(LogCollector(lambda: client))
    return client, KindWatcher(kind=kind, sink=sink, client=lambda: client, stop=threading.Event(), scope=OWN)


def test_a_list_is_read_page_by_page_and_only_what_all_its_pages_lack_is_looked_for(relay, pods, monkeypatch):
    monkeypatch.setattr("cluster.client.PAGE_SIZE", 2)
    client, watch = lister(relay)
    uids = [pods.make(f"pod-{number}") for number in range(5)]
    watch.relist(client)
    assert PodRecord.objects.filter(uid__in=uids).count() == 5
    pods.delete("pod-3", uids[3])
    relay.seen.clear()
    watch.relist(client)
    client.close()
    assert PodRecord.objects.get(gone_at__isnull=False).uid == uids[3]
    asked = [path for _, path in relay.seen]
    assert sum("continue=" in path for path in asked) == 1
    assert [path for path in asked if "limit=" not in path] == [
        f"/api/v1/namespaces/{pods.namespace}/pods/pod-3"
    ]


def test_what_a_list_shows_unchanged_is_neither_written_nor_wakes_anybody(relay, pods, run):
    client, watch = lister(relay)
    numbers = []
    for count in (1, 40):
        for number in range(count):
            pods.make(f"pod-{count}-{number}")
        watch.relist(client)
        Workload.objects.update(next_reconcile_at=None)
        with CaptureQueriesContext(connection) as queries:
            watch.relist(client)
        numbers.append(len(queries))
        assert Workload.objects.filter(next_reconcile_at__isnull=False).count() == 0
    client.close()
    assert numbers[0] == numbers[1] <= 9


def test_many_changed_pods_of_a_list_cost_as_many_queries_as_one(relay, pods, run):
    client, watch = lister(relay)
    watch.relist(client)
    numbers = []
    for count in (1, 40):
        for number in range(count):
            pods.make(f"pod-{count}-{number}", labels=None)
        Workload.objects.update(next_reconcile_at=None)
        with CaptureQueriesContext(connection) as queries:
            watch.relist(client)
        numbers.append(len(queries))
        assert Workload.objects.get().next_reconcile_at is not None
    client.close()
    assert PodRecord.objects.count() == 41
    assert abs(numbers[0] - numbers[1]) <= 2, "two of them may close or open usage"


def test_an_object_of_a_list_that_cannot_be_recorded_keeps_no_other_from_being_seen(relay, pods):
    client, watch = lister(relay)
    uids = [pods.make(name) for name in ("one", "two", "three")]
    listing = client.list(kinds.POD, label_selector=OWN.label_selector)
    del listing.items[1]["metadata"]["creationTimestamp"]
    relay.rules.append(
        lambda method, path: {
            "kind": "PodList", "apiVersion": "v1", "code": 200,
            "metadata": {"resourceVersion": listing.resource_version}, "items": listing.items,
        } if path.startswith("/api/v1/pods?") else None
    )  # fmt: skip
    watch.relist(client)
    client.close()
    assert PodRecord.objects.filter(uid__in=uids).count() == 2


def test_a_spoilt_object_stops_nobody(relay, pods, run):
    marked = {"app.kubernetes.io/managed-by": "ml-portal"}
    spoilt = [
        {**marked, "mlportal.dev/workload-id": "garbage"},
        {**marked, "mlportal.dev/workload-id": ""},
        marked,
        {**marked, "mlportal.dev/workload-id": str(uuid4())},
        {**marked, "mlportal.dev/workload-id": str(run.public_id), "mlportal.dev/attempt": "first"},
    ]
    with following(relay) as follower:
        for index, labels in enumerate(spoilt):
            pods.make(f"spoilt-{index}", labels=labels)
        uid = pods.make("good")
        seen(uid, phase="Running")
        assert follower.is_alive()
    assert PodRecord.objects.exclude(workload=run).count() == 0
    # What they hold of a node is held all the same, and not by the portal.
    assert {pod.name for pod in ForeignPod.objects.all()} == {f"spoilt-{index}" for index in range(4)}


def test_nodes_come_and_go(relay, direct):
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n-{uuid4().hex[:6]}"}}
    node["status"] = {"capacity": {"nvidia.com/gpu": "4", "cpu": "4", "memory": "4Gi", "pods": "9"}}
    with following(relay, kind=kinds.NODE, sink=NodeSink(), scope=EVERY):
        until(lambda: NodeRecord.objects.filter(name="a100-0", ready=True, allocatable={"nvidia.com/gpu": 8}))
        made = direct.create(node)
        uid = made["metadata"]["uid"]
        until(lambda: NodeRecord.objects.filter(uid=uid))
    direct.delete(ObjectRef("v1", "Node", "", node["metadata"]["name"]), uid=uid)
    with following(relay, kind=kinds.NODE, sink=NodeSink(), scope=EVERY):
        until(lambda: NodeRecord.objects.filter(uid=uid, gone_at__isnull=False, ready=False))
    assert NodeRecord.objects.get(name="a100-0").gone_at is None


def test_claims_of_anybody_come_and_go_and_one_that_a_list_lacks_must_be_gone(relay, direct, namespace):
    def claim(name):
        metadata = {"name": name, "namespace": namespace}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        made = direct.create(
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
        )
        return made["metadata"]["uid"]

    def names():
        return {record.name for record in ClaimRecord.objects.all()}

    def delete(name, uid):
        direct.delete(ObjectRef("v1", "PersistentVolumeClaim", namespace, name), uid=uid)

    kept, lost = claim("kept"), claim("lost")
    with following(relay, kind=kinds.CLAIM, sink=ClaimSink(), scope=EVERY):
        until(lambda: names() == {"kept", "lost"})
        late = claim("late")
        until(lambda: names() == {"kept", "lost", "late"})
        delete("late", late)
        until(lambda: names() == {"kept", "lost"})
    delete("lost", lost)
    # Written down since the list, as `create_volume` does.
    fresh = direct.get(ObjectRef("v1", "PersistentVolumeClaim", namespace, "kept"))
    ClaimRecord.objects.all().delete()
    record_claim(fresh, cluster=direct.cluster, now=clock.now())
    ClaimRecord.objects.create(
        uid=lost, namespace=namespace, name="lost", phase="Bound", observed_at=clock.now()
    )
    ClaimSink().forget_absent(direct, set(), now=clock.now())
    assert names() == {"kept"}
    assert ClaimRecord.objects.get().access_modes == ["ReadWriteOnce"]
    delete("kept", kept)


def test_a_job_that_somebody_deletes_wakes_its_run(relay, direct, namespace, run):
    labels = workload_labels(workload_id=str(run.public_id), attempt=1, team="x", kind="training-run")
    container = {"name": "main", "image": "x"}
    job = {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "train", "namespace": namespace, "labels": labels},
        "spec": {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }  # fmt: skip
    with following(relay, kind=kinds.JOB, sink=ObjectSink(kinds.JOB)):
        uid = direct.create(job)["metadata"]["uid"]
        until(lambda: ObjectRecord.objects.filter(uid=uid, gone_at__isnull=True))
        Workload.objects.update(next_reconcile_at=None)
        direct.delete(ObjectRef("batch/v1", "Job", namespace, "train"), uid=uid)
        until(lambda: ObjectRecord.objects.filter(uid=uid, gone_at__isnull=False))
        until(lambda: Workload.objects.filter(next_reconcile_at__isnull=False))


def test_what_a_list_of_one_group_lacks_is_not_asked_for_in_another(relay, namespace, run):
    relay.refuse("GET", "/mpijobs/", 404, "NotFound", "404 page not found")
    client = connect(relay.kubeconfig, timeout=(2, 10))
    metadata = {"name": "train", "namespace": namespace, "uid": "uid-1", "resourceVersion": "1"}
    metadata["creationTimestamp"] = "2026-11-01T10:00:00Z"
    metadata["labels"] = workload_labels(workload_id=str(run.public_id), attempt=1, team="x", kind="run")
    ObjectSink(kinds.MPI_JOB).seen(
        [{"metadata": metadata}], cluster=client.cluster, now=clock.now(), gone=False
    )
    ObjectSink(kinds.MPI_JOB_V2).forget_absent(client, set(), now=clock.now())
    assert ObjectRecord.objects.get().gone_at is None
    ObjectSink(kinds.MPI_JOB).forget_absent(client, set(), now=clock.now())
    assert ObjectRecord.objects.get().gone_at is not None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_watcher_beats_and_ends_when_one_of_its_watches_has_died(relay, monkeypatch):
    monkeypatch.setattr(module, "HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(module, "KindWatcher", Follower)
    client = connect(relay.kubeconfig, timeout=(2, 10))
    watcher = Watcher(lambda: client)
    failed = []

    def work():
        try:
            watcher.run()
        except RuntimeError as error:
            failed.append(str(error))
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        until(lambda: Heartbeat.objects.filter(process="watcher", at__lte=clock.now()))
        # Karpenter's NodePools and some kinds of runs are not served here: nothing is known of them, nothing gets old.
        here = client.served_kinds()
        served = [each for each in watcher.threads if (each.kind.api_version, each.kind.kind) in here]
        aging = [each for each in served if not each.scope.told_only]
        until(lambda: WatchCursor.objects.count() == len(aging))
        assert len(served) < len(watcher.threads)
        assert not WatchCursor.objects.filter(kind="NodePool").exists()

        def die(*_args, **_kwargs):
            raise ArithmeticError

        watcher.threads[0].follow = die
        until(lambda: relay.cut() or failed)
    finally:
        watcher.stop()
        for each in (thread, *watcher.threads):
            until(lambda each=each: relay.cut() or each.join(0.05) or not each.is_alive())
        client.close()
    assert failed == ["These watches died: watch-nodes."]


def test_what_is_said_of_pods_is_copied_and_no_watch_of_it_looks_quiet(relay, pods):
    with following(relay, kind=kinds.EVENT, sink=EventSink(), scope=TOLD):
        uid = pods.make("one", BED_RUN_SECONDS="0.5")
        told = EventRecord.objects.filter(object_uid=uid).values_list("reason", flat=True)
        until(lambda: {"Scheduled"} <= set(told.all()), said=lambda: list(EventRecord.objects.values()))
    assert not WatchCursor.objects.exists()
