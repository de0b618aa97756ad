from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
from datetime import timedelta

import psycopg
import pytest
from django.core.files.base import ContentFile
from django.db import OperationalError, connection

from cluster.client import connect
from cluster.errors import ClusterUnavailable
from foundation import clock
from foundation.models import PlatformSettings
from logs import store, workload_logs
from logs.lines import text_of
from logs.store import CHUNK_BYTES_MAX, ContainerLog, source_of
from portal.settings import env
from tests.controller.logs_bed import LogBed, make_pod, make_workload, stamp
from workloads.models import Attempt, LogChunk

pytestmark = pytest.mark.django_db


@pytest.fixture
def pod():
    return make_pod(make_workload(), "train-0")


@pytest.fixture
def bed(tmp_path):
    bed = LogBed(tmp_path)
    yield bed
    bed.close()


def numbered(first: int, last: int, text=b"line") -> list[bytes]:
    return [stamp(index) + b" %b %d" % (text, index) for index in range(first, last)]


def container_log(pod) -> ContainerLog:
    log = ContainerLog(source_of(pod, container="main"))
    log.load()
    return log


def stored(pod) -> list[bytes]:
    rows = LogChunk.objects.filter(pod_uid=pod.uid, lines__gt=0).order_by("container", "sequence")
    lines = []
    for row in rows:
        data = store.read_chunk(row)
        assert len(data) == row.size_bytes <= CHUNK_BYTES_MAX
        assert data.count(b"\n") == row.lines
        lines += store.lines_in(data)
    return lines


def append(log, lines):
    return log.append(lines, now=clock.now())


def files_of(pod) -> list[str]:
    storage = store.store()
    return [
        f"{day}/{folder}/{name}"
        for day in storage.listdir("")[0]
        for folder in storage.listdir(day)[0]
        for name in storage.listdir(f"{day}/{folder}")[1]
        if name.startswith(pod.uid)
    ]


def test_lines_are_stored_in_chunks_of_at_most_256_kib_with_what_is_in_them(pod):
    lines = numbered(0, 9000, b"x" * 80)
    assert append(container_log(pod), lines) == 9000
    assert stored(pod) == lines
    rows = list(LogChunk.objects.filter(pod_uid=pod.uid).order_by("sequence"))
    assert [row.sequence for row in rows] == list(range(len(rows)))
    assert len(rows) == 5
    assert all(before.last_at <= after.first_at for before, after in itertools.pairwise(rows))


def test_a_slow_log_grows_one_chunk_and_leaves_no_old_file(pod):
    log = container_log(pod)
    for index in range(20):
        append(log, numbered(index, index + 1))
    assert stored(pod) == numbered(0, 20)
    assert LogChunk.objects.filter(pod_uid=pod.uid).count() == 1
    assert len(files_of(pod)) == 1


def test_a_chunk_does_not_grow_over_more_than_an_hour(pod):
    log = container_log(pod)
    append(log, numbered(0, 1))
    append(log, numbered(400_000, 400_001))
    assert LogChunk.objects.filter(pod_uid=pod.uid).count() == 2


def test_lines_of_the_seam_second_are_not_repeated_and_real_repetitions_are_kept(pod):
    same = stamp(5) + b" same"
    append(container_log(pod), [*numbered(0, 5), same, same])
    again = container_log(pod)
    assert again.since.microsecond == 0
    served = [*numbered(0, 5), same, same, same, *numbered(6, 9)]
    assert append(again, served) == 4
    assert stored(pod) == served


def test_two_writers_store_every_line_once_whoever_is_first(pod):
    lines = numbered(0, 60)
    first, second = container_log(pod), container_log(pod)
    append(first, lines[:10])
    append(second, lines[:4])
    append(second, lines[4:15])
    append(first, lines[10:12])
    append(first, lines[12:60])
    append(second, lines[15:60])
    assert stored(pod) == lines
    assert len(files_of(pod)) == LogChunk.objects.filter(pod_uid=pod.uid).count()


@pytest.mark.django_db(transaction=True)
def test_racing_writers_store_every_line_once(pod):
    lines = numbered(0, 400, b"y" * 400)
    failures = []

    def write(log, step):
        try:
            for at in range(0, len(lines), step):
                append(log, lines[at : at + step])
        except Exception as error:  # noqa: BLE001 - whatever it is, the test must fail
            failures.append(error)
        finally:
            connection.close()

    # All begin where nothing is stored: who begins later reads from the last stored second on.
    threads = [threading.Thread(target=write, args=(container_log(pod), step)) for step in (3, 7, 11, 50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert stored(pod) == lines


def test_a_chunk_that_others_write_anew_all_the_time_is_read(pod, monkeypatch):
    lines, real = numbered(0, 12), store.store()
    writer = container_log(pod)
    append(writer, lines[:2])
    late = container_log(pod)
    left = lines[2:]

    class Busy:
        def open(self, key):
            if left:
                monkeypatch.setattr(store, "store", lambda: real)
                append(writer, [left.pop(0)])
                monkeypatch.setattr(store, "store", Busy)
            return real.open(key)

        save, delete = staticmethod(real.save), staticmethod(real.delete)

    monkeypatch.setattr(store, "store", Busy)
    append(late, lines)
    monkeypatch.undo()
    assert stored(pod) == lines


def test_what_was_written_twice_is_stored_twice_whoever_stores_it(pod):
    same = numbered(0, 1) * 3
    writer, late = container_log(pod), container_log(pod)
    append(writer, same[:1])
    for log in (writer, late):
        log.load()
    append(writer, same)
    append(late, same)
    assert stored(pod) == same


def test_lines_given_again_after_the_store_failed_are_stored_once(pod, monkeypatch):
    log = container_log(pod)
    lines = numbered(0, 6000, b"z" * 100)
    original, calls = ContainerLog._claim, []

    def failing(self, chunk, *, grown):
        calls.append(chunk)
        if len(calls) == 2:
            raise OperationalError("the server closed the connection")
        original(self, chunk, grown=grown)

    monkeypatch.setattr(ContainerLog, "_claim", failing)
    with pytest.raises(OperationalError):
        append(log, lines)
    append(log, [*lines, *numbered(6000, 6002)])
    assert stored(pod) == [*lines, *numbered(6000, 6002)]


@pytest.mark.django_db(transaction=True)
def test_followers_are_told_after_every_flush(pod):
    options = connection.get_connection_params()
    names = {key: options[key] for key in ("host", "port", "user", "password", "dbname") if options.get(key)}
    with psycopg.connect(**names, autocommit=True) as listener:
        listener.execute(f"LISTEN {workload_logs.NOTIFY_CHANNEL}")
        append(container_log(pod), numbered(0, 1))
        (told,) = listener.notifies(timeout=30, stop_after=1)
    assert json.loads(told.payload) == {
        "workload": str(pod.workload.public_id),
        "attempt": 1,
        "pod_uid": pod.uid,
        "sequence": 0,
    }


CRASH = """
import django; django.setup()
from datetime import timedelta
from django.conf import settings
settings.STORAGES["logs"]["OPTIONS"]["location"] = {location!r}
settings.DATABASES["default"].update({database!r})
from logs.store import ContainerLog, source_of
from foundation import clock
from workloads.models import PodRecord
settings.TEST_CRASH_POINT = "logs.file_stored"
log = ContainerLog(source_of(PodRecord.objects.get(uid={uid!r}), container="main"))
log.load()
log.append({lines!r}, now=clock.now())
"""


@pytest.mark.crash
@pytest.mark.django_db(transaction=True)
def test_a_writer_killed_between_file_and_row_loses_and_repeats_nothing(pod):
    from django.conf import settings

    append(container_log(pod), numbered(0, 10))
    database = {key: connection.settings_dict[key] for key in ("NAME", "USER", "PASSWORD", "HOST", "PORT")}
    code = CRASH.format(
        location=str(settings.LOG_STORAGE), database=database, uid=pod.uid, lines=numbered(10, 20)
    )
    killed = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        env=env.for_child() | {"DJANGO_SETTINGS_MODULE": "portal.settings"},
        capture_output=True,
    )
    assert killed.returncode == -9, killed.stderr.decode()
    assert len(files_of(pod)) == 2
    assert stored(pod) == numbered(0, 10)
    append(container_log(pod), numbered(0, 20))
    assert stored(pod) == numbered(0, 20)


# -- the last fetch


def test_the_last_fetch_stores_what_is_not_stored_and_may_be_repeated(bed, pod):
    client = connect(str(bed.server.kubeconfig))
    containers = bed.add(pod.name, pod.uid, ("main", "sidecar"))
    bed.write(pod.name, *(line + b"\n" for line in numbered(0, 2500, b"v" * 400)))
    bed.write(pod.name, stamp(1) + b" side\n", container="sidecar")
    append(container_log(pod), numbered(0, 1000, b"v" * 400))
    bed.end(pod.name)
    containers["main"].lines.append(stamp(2500) + b" no newline")
    assert workload_logs.fetch_last(client, pod.workload, attempt=1, now=clock.now()) == 1502
    assert workload_logs.fetch_last(client, pod.workload, attempt=1, now=clock.now()) == 0
    assert stored(pod) == [
        *numbered(0, 2500, b"v" * 400),
        stamp(2500) + b" no newline",
        stamp(1) + b" side",
    ]
    bed.remove(pod.name)
    assert workload_logs.fetch_last(client, pod.workload, attempt=1, now=clock.now()) == 0
    client.close()


def test_the_last_fetch_passes_over_a_pod_that_is_gone_or_anothers_by_now(bed, pod):
    client = connect(str(bed.server.kubeconfig))
    assert workload_logs.fetch_last(client, pod.workload, attempt=1, now=clock.now()) == 0
    bed.add(pod.name, "of-another")
    bed.write(pod.name, stamp(1) + b" not ours\n")
    assert workload_logs.fetch_last(client, pod.workload, attempt=1, now=clock.now()) == 0
    assert stored(pod) == []
    client.close()


def test_the_last_fetch_says_when_the_cluster_is_away(bed, pod):
    client = connect(str(bed.server.kubeconfig))
    bed.unavailable = True
    with pytest.raises(ClusterUnavailable):
        workload_logs.fetch_last(client, pod.workload, attempt=1, now=clock.now())
    client.close()


def test_a_lost_node_is_waited_for_only_some_minutes(bed, pod):
    client = connect(str(bed.server.kubeconfig))
    bed.add(pod.name, pod.uid)
    bed.node_lost = True
    now = clock.now()
    Attempt.objects.update(ended_at=now)
    with pytest.raises(ClusterUnavailable):
        workload_logs.fetch_last(client, pod.workload, attempt=1, now=now)
    assert workload_logs.fetch_last(client, pod.workload, attempt=1, now=now + timedelta(minutes=11)) == 0
    client.close()


def test_what_a_container_wrote_before_its_restart_is_fetched_too(bed, pod):
    client = connect(str(bed.server.kubeconfig))
    container = bed.add(pod.name, pod.uid)["main"]
    container.previous = [line + b"\n" for line in numbered(0, 5)]
    container.restarts = 1
    bed.write(pod.name, *(line + b"\n" for line in numbered(5, 8)))
    workload_logs.fetch_last(client, pod.workload, attempt=1, now=clock.now())
    workload_logs.fetch_last(client, pod.workload, attempt=1, now=clock.now())
    assert [text_of(line) for line in stored(pod)] == [f"line {index}" for index in range(8)]
    client.close()


# -- retention


def test_chunks_past_their_retention_go_with_their_files_and_younger_ones_stay(pod):
    PlatformSettings.objects.create(log_retention_days=2)
    log, now = container_log(pod), clock.now()
    assert store.retention() == timedelta(days=2)
    log.append(numbered(0, 1), now=now - timedelta(days=3))
    log.append(numbered(400_000, 400_001), now=now)
    assert workload_logs.expire(now=now) == 1
    assert stored(pod) == numbered(400_000, 400_001)
    assert len(files_of(pod)) == 1
    append(log, numbered(400_001, 400_002))
    assert stored(pod) == numbered(400_000, 400_002)


def test_another_retention_holds_for_what_is_stored_already_in_both_directions(pod):
    kept = PlatformSettings.objects.create(log_retention_days=2)
    log, now = container_log(pod), clock.now()
    for days in (9, 5, 1):
        log.append(numbered(days * -400_000, days * -400_000 + 1), now=now - timedelta(days=days))
    kept.log_retention_days = 10
    kept.save()
    assert workload_logs.expire(now=now) == 0
    page = workload_logs.read_lines(pod.workload)
    assert (len(page.lines), page.expires_at) == (3, now + timedelta(days=1))
    kept.log_retention_days = 4
    kept.save()
    assert workload_logs.expire(now=now) == 2
    assert len(files_of(pod)) == len(stored(pod)) == 1


def test_a_team_that_keeps_more_than_it_may_loses_its_own_oldest_and_no_other_anything(pod, monkeypatch):
    """A program that prints without end filled the disk that all teams' logs are on."""
    monkeypatch.setattr(store, "GIB", 1000)
    settings, now = PlatformSettings.objects.create(team_log_gib=1), clock.now()
    other = make_pod(make_workload("quiet"), "quiet-0")
    append(container_log(other), numbered(0, 2, b"q" * 400))
    log = container_log(pod)
    for number in range(4):
        at = number * 400_000
        log.append(numbered(at, at + 1, b"x" * 300), now=now - timedelta(minutes=4 - number))
    assert workload_logs.expire_beyond(now=now) == 2
    assert stored(pod) == [
        *numbered(800_000, 800_001, b"x" * 300),
        *numbered(1_200_000, 1_200_001, b"x" * 300),
    ]
    assert len(files_of(pod)) == 2
    assert len(stored(other)) == 2
    assert workload_logs.expire_beyond(now=now) == 0
    log.append(numbered(1_600_000, 1_600_001), now=now)
    assert stored(pod)[-1:] == numbered(1_600_000, 1_600_001)
    settings.team_log_gib = None
    settings.save()
    log.append(numbered(2_000_000, 2_000_001, b"x" * 900), now=now)
    assert workload_logs.expire_beyond(now=now) == 0


def test_a_writer_whose_last_chunk_has_expired_goes_on(pod):
    log, now = container_log(pod), clock.now()
    log.append(numbered(0, 1), now=now - timedelta(days=40))
    assert workload_logs.expire(now=now) == 1
    assert append(log, numbered(1, 2)) == 1
    assert stored(pod) == numbered(1, 2)


def test_files_without_a_row_go_with_their_day(pod):
    now = clock.now()
    storage = store.store()
    old, young = (f"{now - timedelta(days=days):%Y-%m-%d}/w/{pod.uid}.x" for days in (33, 30))
    storage.save(old, ContentFile(b"x"))
    storage.save(young, ContentFile(b"x"))
    workload_logs.expire(now=now)
    assert files_of(pod) == [young]
    assert not storage.exists(old.partition("/")[0])
    storage.delete(young)
