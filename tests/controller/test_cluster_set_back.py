"""F17: etcd is restored from a backup, so that versions run again from an older one and what came later never was."""

from __future__ import annotations

import shutil
import threading
from contextlib import contextmanager

import pytest

from cluster import kinds
from cluster.client import connect
from cluster.kinds import ref_of
from controller.reconcile.garbage import delete_objects
from controller.watch import watcher as module
from controller.watch.objects import ObjectSink
from controller.watch.pods import PodSink
from controller.watch.watcher import OWN
from costs.models import UsageInterval
from foundation import clock
from logs.collector import LogCollector
from quotas.models import Claim, Quota
from tests.controller.clusters import OwnCluster, gone
from tests.controller.conftest import Bench
from tests.controller.fault_proxy import FaultProxy
from tests.controller.followers import Follower
from tests.effort import spread
from tests.waiting import until
from workloads.models import ObjectRecord, PodRecord, WatchCursor

pytestmark = pytest.mark.django_db(transaction=True)


class BackedUp(OwnCluster):
    def back_up(self):
        self.stop()
        shutil.copytree(self.folder / "data", self.folder / "backup")
        self.start()

    def set_back(self):
        self.stop()
        shutil.rmtree(self.folder / "data")
        shutil.copytree(self.folder / "backup", self.folder / "data")
        self.start()


@pytest.fixture
def cluster(tmp_path):
    made = BackedUp(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def bench(cluster, monkeypatch):
    monkeypatch.setattr(module, "WATCH_SECONDS", 1)
    monkeypatch.setattr(module, "BACKOFF_SECONDS_MAX", 0.2)
    client = connect(str(cluster.kubeconfig))
    yield Bench(client)
    client.close()


@contextmanager
def watched(client):
    stop = threading.Event()
    sinks = [(kinds.POD, PodSink(LogCollector(lambda: client))), (kinds.JOB, ObjectSink(kinds.JOB))]
    followers = [
        Follower(kind=kind, sink=sink, client=lambda: client, stop=stop, scope=OWN) for kind, sink in sinks
    ]
    for follower in followers:
        follower.start()
    try:
        yield followers
    finally:
        stop.set()
        for follower in followers:
            follower.join(30)


def caught_up():
    listed = dict(WatchCursor.objects.values_list("kind", "listed_at"))
    return lambda: all(at > listed[kind] for kind, at in WatchCursor.objects.values_list("kind", "listed_at"))


@pytest.mark.parametrize("watching", spread(["all the time", "only before and after"], usual=1))
def test_what_is_missing_starts_again_what_stands_is_kept_and_what_had_ended_goes(bench, cluster, watching):
    """Invariant: one object for each live run, none for the others; no pod is charged twice; rows follow on."""
    with watched(bench.client):
        kept, ends = bench.running(name="kept"), bench.running(name="ends")
        until(lambda: PodRecord.objects.filter(phase="Running").count() == 2)
        cluster.back_up()
        bench.cancel(ends)
        bench.until(ends, lambda run: run.is_final)
        late = bench.running(name="late")
        until(lambda: ObjectRecord.objects.filter(workload=late, kind="Job"))
        pod = PodRecord.objects.get(workload=kept)
        if watching == "all the time":
            go_on = caught_up()
            cluster.set_back()
            until(go_on)
    if watching != "all the time":
        cluster.set_back()
    with watched(bench.client):
        bench.until(late, lambda run: run.attempts.count() == 2 and run.phase == "Running")
        assert (late.retries_used, late.interruptions) == (0, 1)
        assert len(bench.own(late, kinds.JOB)) == 1
        bench.turn(kept)
        assert (kept.phase, kept.attempts.count(), len(bench.own(kept, kinds.JOB))) == ("Running", 1, 1)
        (job,) = bench.own(ends, kinds.JOB)
        until(lambda: ObjectRecord.objects.filter(uid=job["metadata"]["uid"], gone_at__isnull=True))
        delete_objects(bench.client, workload_id=ends.pk, now=clock.now())
        until(lambda: gone(bench.client, ref_of(job)))
        bench.turn(ends)
        assert (ends.phase, ends.attempts.count()) == ("Cancelled", 1)
        bench.client.patch_merge(
            kinds.ObjectRef("v1", "Pod", pod.namespace, pod.name), {"metadata": {"annotations": {"a": "b"}}}
        )
        shown = bench.client.get(kinds.ObjectRef("v1", "Pod", pod.namespace, pod.name))
        version = shown["metadata"]["resourceVersion"]
        until(
            lambda: PodRecord.objects.filter(pk=pod.pk, resource_version=version), said="its row follows on"
        )
    assert (Quota.objects.get().used, Claim.objects.filter(released_at=None).count()) == (4, 2)
    assert UsageInterval.objects.filter(pod_uid=pod.uid).count() == 1
    open_ones = UsageInterval.objects.filter(ended_at__isnull=True)
    assert set(open_ones.values_list("pod_uid", flat=True)) == set(
        PodRecord.objects.filter(workload__in=[kept, late], gone_at=None).values_list("uid", flat=True)
    )


def test_a_server_that_is_behind_is_noticed_by_its_bookmark(bench, cluster, tmp_path):
    """Invariant: a real server that was set back expires no version: it is silent until it has come as far again."""
    (tmp_path / "proxy").mkdir()
    proxy = FaultProxy(tmp_path / "proxy", str(cluster.kubeconfig))
    behind = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"101"}}}\n'

    def only_a_bookmark(exchange):
        exchange.start()
        exchange.chunk(behind)
        proxy.closing.wait(30)

    client = connect(proxy.kubeconfig)
    fault = proxy.meet(lambda _, path: "watch=" in path and "/jobs" in path, answer=only_a_bookmark, times=1)
    stop = threading.Event()
    follower = Follower(
        kind=kinds.JOB, sink=ObjectSink(kinds.JOB), client=lambda: client, stop=stop, scope=OWN
    )
    follower.start()
    try:
        run = bench.running()
        until(lambda: ObjectRecord.objects.filter(workload=run, kind="Job").exclude(status={}))
        lists = [path for _, path in proxy.seen if "watch=" not in path and "/jobs" in path]
        assert (fault.met, len(lists)) == (1, 2)
    finally:
        stop.set()
        proxy.close()
        follower.join(30)
        client.close()
