from __future__ import annotations

import threading
from datetime import timedelta
from uuid import uuid4

import pytest

from cluster.client import connect
from cluster.kinds import POD, ObjectRef
from cluster.labels import workload_labels
from foundation import clock
from logs import store, workload_logs
from logs.collector import FLUSH_SECONDS, TICK_SECONDS, LogCollector
from logs.store import ContainerLog
from tests.controller.logs_bed import LogBed, make_pod, make_workload, stamp
from tests.waiting import until
from workloads.models import LogChunk, PodRecord
from workloads.observations import PodSeen, record_pods

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def bed(tmp_path):
    bed = LogBed(tmp_path)
    yield bed
    bed.close()


@pytest.fixture
def collectors(bed):
    """Makes collectors on the bed, and stops them."""
    made = []

    def make(**options) -> LogCollector:
        client = connect(str(bed.server.kubeconfig))
        made.append((LogCollector(lambda: client, **options), client))
        made[-1][0].start()
        return made[-1][0]

    yield make
    for collector, client in made:
        collector.stop()
        client.close()


def running(bed):
    """A run and its only pod, whose log the bed has."""
    run = make_workload()
    pod = make_pod(run, "train-0")
    bed.add(pod.name, pod.uid)
    return run, pod


def line(index: int) -> bytes:
    return stamp(index, step_ms=100) + b" line %d\n" % index


def texts(workload) -> list[str]:
    page = workload_logs.read_lines(workload, limit=10_000)
    found = [each.text for each in page.lines]
    while page.more:
        page = workload_logs.read_lines(workload, cursor=page.cursor, limit=10_000)
        found += [each.text for each in page.lines]
    return found


def numbers(last: int) -> list[str]:
    return [f"line {index}" for index in range(last)]


def until_stored(workload, wanted: list[str]) -> None:
    until(
        lambda: len(texts(workload)) >= len(wanted), said=lambda: f"{len(texts(workload))} of {len(wanted)}"
    )
    assert texts(workload) == wanted


def finish(collector, bed, pod) -> None:
    """The pod ends as the watcher would tell it."""
    bed.end(pod.name)
    PodRecord.objects.filter(pk=pod.pk).update(phase="Succeeded", finished_at=clock.now())
    pod.refresh_from_db()
    collector.pod_changed(PodRecord.objects.select_related("workload").get(pk=pod.pk))


def whole(pod) -> bool:
    return store.is_stored(pod)


def test_lines_of_a_running_pod_are_stored_while_it_writes_and_whole_when_it_has_ended(
    bed, collectors, monkeypatch
):
    # Nothing else reads the line, and what was read waits for no more than this.
    monkeypatch.setattr("logs.collector.RESYNC_SECONDS", 3600.0)
    assert FLUSH_SECONDS + TICK_SECONDS < 5
    run, pod = running(bed)
    bed.write(pod.name, *(line(index) for index in range(5)))
    collector = collectors(poll_seconds=3600.0)
    until_stored(run, numbers(5))
    until(lambda: bed.following == 1)
    bed.write(pod.name, line(5))
    until_stored(run, numbers(6))
    assert not whole(pod)
    bed.write(pod.name, *(line(index) for index in range(6, 3000)))
    finish(collector, bed, pod)
    until(lambda: whole(pod))
    assert texts(run) == numbers(3000)
    until(lambda: bed.following == 0)


def test_a_pod_that_begins_later_is_followed_when_the_watcher_tells_of_it(bed, collectors):
    collector = collectors()
    run = make_workload()
    pod = make_pod(run, "train-0", phase="Pending")
    bed.add(pod.name, pod.uid)
    bed.write(pod.name, line(0))
    pod.phase = "Running"
    collector.pod_changed(pod)
    until_stored(run, numbers(1))


@pytest.mark.parametrize("fault", ["cut_after", "end_after"])
def test_streams_cut_inside_a_line_lose_and_repeat_nothing(bed, collectors, fault, monkeypatch):
    monkeypatch.setattr("logs.collector.REFOLLOW_SECONDS", 0.1)
    run, pod = running(bed)
    setattr(bed, fault, 7)
    collector = collectors(poll_seconds=0.1)
    until(lambda: bed.following == 1)
    for index in range(30):
        bed.write(pod.name, line(index))
        if index % 9 == 8:
            before = bed.follows
            until(lambda: bed.follows > before, said=lambda: f"{bed.follows} streams")  # noqa: B023
    until_stored(run, numbers(30))
    finish(collector, bed, pod)
    until(lambda: whole(pod))
    assert texts(run) == numbers(30)


def test_beyond_the_limit_of_streams_pods_are_polled(bed, collectors):
    run = make_workload()
    pods = [make_pod(run, f"train-{index}") for index in range(5)]
    for pod in pods:
        bed.add(pod.name, pod.uid)
    collector = collectors(streams_max=2, poll_seconds=0.1)
    for index in range(20):
        for pod in pods:
            bed.write(pod.name, line(index))
    until(lambda: len(texts(run)) >= 100)
    assert bed.following_max == 2
    for pod in pods:
        finish(collector, bed, pod)
    until(lambda: all(whole(pod) for pod in pods))
    for pod in pods:
        page = workload_logs.read_lines(run, pod=pod.name)
        assert [each.text for each in page.lines] == numbers(20)


def test_two_collectors_and_a_last_fetch_store_every_line_once(bed, collectors):
    run, pod = running(bed)
    pair = [collectors(), collectors()]
    until(lambda: bed.following == 2)
    client = connect(str(bed.server.kubeconfig))
    for index in range(1000):
        bed.write(pod.name, line(index))
        if index % 250 == 0:
            workload_logs.fetch_last(client, run, attempt=1, now=clock.now())
    client.close()
    for collector in pair:
        finish(collector, bed, pod)
    until(lambda: whole(pod))
    for collector in pair:
        collector.stop()
    assert texts(run) == numbers(1000)


def test_a_second_collector_goes_on_where_the_first_was_stopped(bed, collectors):
    run, pod = running(bed)
    bed.write(pod.name, *(line(index) for index in range(10)))
    first = collectors()
    until_stored(run, numbers(10))
    until(lambda: bed.following == 1)
    bed.write(pod.name, line(10))
    first.stop()
    bed.write(pod.name, *(line(index) for index in range(11, 20)))
    collectors()
    until_stored(run, numbers(20))


def test_a_store_that_is_away_costs_time_and_no_line(bed, collectors, monkeypatch):
    run, pod = running(bed)
    collectors()
    until(lambda: bed.following == 1)
    away, tried = threading.Event(), threading.Event()
    original = ContainerLog._store

    def failing(self, lines, **options):
        if not away.is_set():
            tried.set()
            raise OSError(28, "No space left on device")
        return original(self, lines, **options)

    monkeypatch.setattr(ContainerLog, "_store", failing)
    bed.write(pod.name, *(line(index) for index in range(50)))
    assert tried.wait(30)
    assert texts(run) == []
    away.set()
    until_stored(run, numbers(50))


def test_a_flood_waits_for_the_store_and_is_whole(bed, collectors):
    run, pod = running(bed)
    collector = collectors()
    until(lambda: bed.following == 1)
    filler = b"x" * 500
    bed.write(pod.name, *(stamp(index, step_ms=1) + b" %d %b\n" % (index, filler) for index in range(8000)))
    until(lambda: LogChunk.objects.filter(pod_uid=pod.uid).count() > 5)
    finish(collector, bed, pod)
    until(lambda: whole(pod))
    assert [int(text.split()[0]) for text in texts(run)] == list(range(8000))


def test_a_pod_that_is_gone_is_whole_with_what_was_followed(bed, collectors):
    run, pod = running(bed)
    collector = collectors()
    until(lambda: bed.following == 1)
    bed.write(pod.name, *(line(index) for index in range(5)))
    until_stored(run, numbers(5))
    bed.remove(pod.name)
    PodRecord.objects.filter(pk=pod.pk).update(gone_at=clock.now())
    collector.pod_changed(PodRecord.objects.select_related("workload").get(pk=pod.pk))
    until(lambda: whole(pod))


def test_a_pod_whose_end_nobody_told_of_is_found_from_the_rows(bed, collectors):
    run = make_workload()
    lately = make_pod(run, "train-0", gone_at=clock.now())
    long_ago = make_pod(run, "train-1", gone_at=clock.now() - timedelta(days=3))
    collectors()
    until(lambda: whole(lately))
    assert not whole(long_ago)


def test_an_unreachable_cluster_is_asked_again(bed, collectors):
    run, pod = running(bed)
    bed.write(pod.name, line(0))
    bed.unavailable = True
    collectors()
    until(lambda: bed.server.requests)
    bed.unavailable = False
    until_stored(run, numbers(1))


# -- real processes


PROGRAM = """
import sys
for index in range(3000):
    print("line", index, "x" * 100, flush=index % 50 == 0)
print("half ", end="", flush=True)
sys.stderr.write("last")
"""


def test_what_a_real_process_prints_is_kept_after_its_pod_is_gone(process_cluster):
    client = connect(process_cluster)
    run = make_workload()
    namespace = client.create(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": f"logs-{uuid4().hex[:8]}"},
        }
    )["metadata"]
    labels = workload_labels(
        workload_id=str(run.public_id), attempt=1, team=run.team.slug, kind="training-run"
    )
    container = {"name": "main", "image": "python:3.11", "command": ["python", "-c", PROGRAM]}
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train-0", "namespace": namespace["name"], "labels": labels},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    collector = LogCollector(lambda: client)
    collector.start()
    try:
        made = client.create(manifest)
        ref = ObjectRef(POD.api_version, POD.kind, namespace["name"], "train-0")

        def seen() -> PodRecord:
            pod = client.get(ref)
            record_pods([PodSeen(pod, run)], cluster=client.cluster, now=clock.now())
            record = PodRecord.objects.select_related("workload__flavor").get(uid=pod["metadata"]["uid"])
            collector.pod_changed(record)
            return record

        record = until(lambda: (found := seen()).phase == "Succeeded" and found, seconds=60)
        until(lambda: whole(record))
        client.delete(ref, uid=made["metadata"]["uid"], grace_seconds=0)
    finally:
        collector.stop()
        client.delete(ObjectRef("v1", "Namespace", "", namespace["name"]), uid=namespace["uid"])
        client.close()
    found = texts(run)
    printed = [text for text in found if text.startswith("line ")]
    assert printed == [f"line {index} {'x' * 100}" for index in range(3000)]
    assert "".join(found[3000:]) == "half last"
