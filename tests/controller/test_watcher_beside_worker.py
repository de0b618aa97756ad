"""The watcher and a worker write of the same workload at the same moment, and neither is thrown out for it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections, transaction

from cluster import kinds
from cluster.labels import workload_labels
from cluster.names import DEFAULT_CLUSTER
from controller.watch.objects import ObjectSink
from foundation import clock
from tests.factories.workloads import make_workload
from tests.waiting import until_blocked
from workloads import locks, services
from workloads.models import ObjectRecord, Workload
from workloads.observations import record_object

pytestmark = pytest.mark.django_db(transaction=True)


def job_of(workload):
    labels = workload_labels(
        workload_id=str(workload.public_id), attempt=1, team=workload.team.slug, kind=workload.kind
    )
    metadata = {
        "uid": "uid-job",
        "name": "train-1",
        "namespace": workload.team.namespace_name,
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": labels,
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}


def test_an_object_that_its_maker_writes_down_while_the_watcher_does_ends_in_no_deadlock():
    workload = make_workload(now=clock.now())
    held = locks.lock(public_id=workload.public_id, now=clock.now())
    job = job_of(workload)

    def watch():
        try:
            ObjectSink(kinds.JOB).seen([job], cluster=DEFAULT_CLUSTER, now=clock.now(), gone=False)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            locks.hold(held)
            watcher = threads.submit(watch)
            until_blocked(unless=watcher)
            record_object(job, workload=held, cluster=DEFAULT_CLUSTER, now=clock.now())
        watcher.result()
    assert ObjectRecord.objects.get().workload_id == workload.pk


def test_rows_are_woken_in_the_order_of_their_keys():
    first, second = (make_workload(now=clock.now()) for _ in range(2))
    Workload.objects.update(next_reconcile_at=None)
    # The table keeps them in the other order.
    Workload.objects.filter(pk=first.pk).update(message="moved behind")

    def wake():
        try:
            services.wake(workload_ids=[second.pk, first.pk], now=clock.now())
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            Workload.objects.select_for_update(no_key=True).get(pk=first.pk)
            other = threads.submit(wake)
            until_blocked(unless=other)
            Workload.objects.select_for_update(no_key=True).get(pk=second.pk)
        other.result()
    assert not Workload.objects.filter(next_reconcile_at=None).exists()
