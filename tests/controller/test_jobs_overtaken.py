"""A periodic job that took longer than its lease, and that another process does by now: it writes nothing more."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controller import retention, tasks
from foundation import clock
from logs import store
from tests.controller.logs_bed import START, make_pod, stamp
from tests.factories.leases import overtaken, taken_over
from tests.factories.workloads import make_workload
from workloads.models import LogChunk, ObjectRecord, PodRecord

pytestmark = pytest.mark.django_db(transaction=True)

NOW = clock.now().replace(microsecond=0)
OLD = NOW - timedelta(days=500)
ROWS = 3


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 1)
    monkeypatch.setattr(store, "EXPIRE_BATCH", 1)


@pytest.fixture
def run():
    return make_workload(now=OLD)


def old_objects(run):
    for number in range(ROWS):
        ObjectRecord.objects.create(
            uid=f"uid-{number}", api_version="batch/v1", kind="Job", namespace="ns", name="job", workload=run, attempt=1,
            resource_version="1", created_at=OLD, gone_at=OLD,
        )  # fmt: skip


def old_log(run, number):
    log = store.ContainerLog(store.source_of(make_pod(run, f"pod-{number}"), container="main"))
    log.append([stamp(number) + b" a line"], now=START - timedelta(days=30))


def test_of_what_has_long_gone_only_the_first_batch_is_forgotten(run):
    old_objects(run)
    with overtaken("garbage", after='DELETE FROM "workloads_objectrecord"'):
        retention.forget(now=NOW)
    assert ObjectRecord.objects.count() == ROWS - 1


def test_the_next_job_in_the_same_call_is_not_begun(run, settings):
    settings.CLUSTER_KUBECONFIG = "/nonexistent/kubeconfig"
    old_objects(run)
    for number in range(ROWS):
        old_log(run, number)
    with taken_over("garbage", after='DELETE FROM "workloads_logchunk"'):
        tasks.collect_garbage()
    assert (LogChunk.objects.count(), ObjectRecord.objects.count()) == (ROWS - 1, ROWS)
    store.expire(now=NOW)


def test_a_pod_that_is_kept_keeps_the_mark_of_its_log(run):
    for number in range(ROWS):
        pod = make_pod(run, f"pod-{number}")
        store.mark_stored(pod, now=OLD)
    PodRecord.objects.update(gone_at=OLD, finished_at=OLD)
    with overtaken("garbage", after='DELETE FROM "workloads_podrecord"'):
        retention.forget(now=NOW)
    kept = set(PodRecord.objects.values_list("uid", flat=True))
    assert len(kept) == ROWS - 1
    assert set(LogChunk.objects.values_list("pod_uid", flat=True)) == kept


def test_of_old_logs_only_the_first_batch_goes_and_the_files_of_the_others_stay(run):
    for number in range(ROWS):
        old_log(run, number)
    with overtaken("garbage", after='DELETE FROM "workloads_logchunk"'):
        store.expire(now=NOW)
    kept = list(LogChunk.objects.values_list("storage_key", flat=True))
    assert [store.store().exists(key) for key in kept] == [True] * (ROWS - 1)
    store.expire(now=NOW)
