"""Pods that ended and went while the portal was off: charged until what still bounds their end, and never beyond."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import datetime, timedelta

import pytest

from cluster import kinds
from cluster.kinds import ObjectRef
from controller.watch import watcher as module
from controller.watch.objects import ObjectSink
from controller.watch.pods import PodSink
from controller.watch.watcher import OWN
from costs.models import UsageInterval
from costs.reports.queries import ledger_difference
from foundation import clock
from logs.collector import LogCollector
from tests.controller.clusters import gone
from tests.controller.followers import Follower
from tests.waiting import until
from workloads.models import PodRecord, WatchCursor

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("client", ["devcluster"], indirect=True),
]


@pytest.fixture(autouse=True)
def short_watches(monkeypatch):
    monkeypatch.setattr(module, "WATCH_SECONDS", 1)


@contextmanager
def following(client, kind, sink):
    stop = threading.Event()
    follower = Follower(kind=kind, sink=sink, client=lambda: client, stop=stop, scope=OWN)
    follower.start()
    try:
        yield
    finally:
        stop.set()
        follower.join(40)
        assert not follower.is_alive()


def watch(client, *what):
    """The portal is on, until each of these has been listed."""
    for name in what:
        kind, sink = {
            "pods": (kinds.POD, PodSink(LogCollector(lambda: client))),
            "jobs": (kinds.JOB, ObjectSink(kinds.JOB)),
        }[name]
        began = clock.now()
        with following(client, kind, sink):
            until(
                lambda kind=kind, began=began: WatchCursor.objects.filter(kind=kind.kind, listed_at__gt=began)
            )


def job_of(bench, run):
    return bench.own(run, kinds.JOB)[0]


def ended_unwatched(bench):
    """A run that ends, and whose pod goes, after the watches saw it run; its pod and when its Job was complete."""
    run = bench.running(env={"BED_RUN_SECONDS": 2})
    watch(bench.client, "pods", "jobs")
    pod = PodRecord.objects.get(workload=run)
    assert pod.finished_at is None, "the watch was off before it ended"
    until(lambda: (job_of(bench, run).get("status") or {}).get("completionTime"))
    completed = datetime.fromisoformat(job_of(bench, run)["status"]["completionTime"])
    ref = ObjectRef("v1", "Pod", pod.namespace, pod.name)
    bench.client.delete(ref, uid=pod.uid, grace_seconds=0)
    until(lambda: gone(bench.client, ref))
    # What follows is to be told from the completion by whole seconds.
    until(lambda: clock.now() > completed + timedelta(seconds=2))
    return run, pod, completed


@pytest.mark.parametrize("order", [("pods", "jobs"), ("jobs", "pods")])
def test_a_run_whose_end_nobody_watched_is_charged_until_its_jobs_completion(bench, order):
    run, pod, completed = ended_unwatched(bench)
    watch(bench.client, *order)
    pod.refresh_from_db()
    assert pod.gone_at > completed + timedelta(seconds=1)
    assert (pod.ended_at, pod.certain_until, pod.bounded_by) == (completed, completed, "job-completion")
    usage = UsageInterval.objects.get(pod_uid=pod.uid)
    assert (usage.started_at, usage.ended_at, usage.settled_until) == (pod.scheduled_at, completed, completed)
    assert ledger_difference() == 0
    bench.until(run, lambda each: each.is_final)
    assert run.attempts.get().ended_at == completed


def test_a_worker_that_looks_before_the_watcher_is_back_finds_the_same_end(bench):
    run, pod, completed = ended_unwatched(bench)
    bench.until(run, lambda each: each.is_final)
    pod.refresh_from_db()
    assert pod.ended_at == UsageInterval.objects.get(pod_uid=pod.uid).ended_at == completed
    assert run.attempts.get().ended_at == completed
    watch(bench.client, "pods", "jobs")
    pod.refresh_from_db()
    assert pod.ended_at == completed
