"""What has long gone from the cluster is forgotten; what a bill is made of, and what somebody may still read, stays."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import IntegrityError

from controller import retention
from controller.tasks import collect_garbage
from costs.ledger import check
from costs.ledger.services import record_usage
from costs.models import UsageInterval
from costs.queries import cost_lines, cost_of
from costs.reports.queries import ledger_difference
from foundation import clock
from foundation.models import PlatformSettings
from logs.store import NO_CONTAINER, mark_stored
from quotas import queries as quota_queries
from quotas.models import StartEstimate
from tests.factories.catalogue import make_flavor, make_node, make_price
from tests.factories.workloads import make_workload
from tests.plans import rows_read, tables_read_whole
from workloads.models import LogChunk, NodeRecord, ObjectRecord, PodRecord
from workloads.nodes.capacity import nodes, observe

pytestmark = pytest.mark.django_db

# A year on, so that there was a price already in what is old by then.
NOW = clock.now().replace(microsecond=0) + timedelta(days=400)
OLD, NEW = NOW - timedelta(days=401), NOW - timedelta(days=399)


@pytest.fixture
def run():
    made = make_workload(flavor=make_flavor(), units=1)
    make_price()
    return made


def pod(run, name, *, gone, **values):
    at = (gone or NOW) - timedelta(hours=1)
    made = PodRecord.objects.create(
        uid=f"uid-{name}", namespace="ns", name=name, workload=run, attempt=1, resource_version="1", units=1,
        created_at=at, scheduled_at=at, gone_at=gone, finished_at=gone, **values,
    )  # fmt: skip
    record_usage(made, now=gone or NOW)
    return made


def names(model):
    return set(model.objects.values_list("name", flat=True))


def test_what_went_before_the_retention_is_forgotten_and_the_rest_stays(run):
    for name, gone in (("old", OLD), ("new", NEW), ("there", None)):
        pod(run, name, gone=gone)
        ObjectRecord.objects.create(
            uid=f"uid-{name}", api_version="batch/v1", kind="Job", namespace="ns", name=name, workload=run, attempt=1,
            resource_version="1", created_at=OLD, gone_at=gone,
        )  # fmt: skip
        node = make_node(name=name)
        NodeRecord.objects.filter(pk=node.pk).update(gone_at=gone)
    assert retention.forget(now=NOW) == {"pods": 1, "objects": 1, "events": 0, "nodes": 1, "estimates": 0}
    for model in (PodRecord, ObjectRecord, NodeRecord):
        assert names(model) == {"new", "there"}
    assert retention.forget(now=NOW) == {"pods": 0, "objects": 0, "events": 0, "nodes": 0, "estimates": 0}


def test_a_bill_is_the_same_without_the_rows_of_its_pods(run):
    for number in range(5):
        pod(run, f"pod-{number}", gone=OLD - timedelta(hours=number))
    before = cost_of(run, now=NOW), cost_lines(run, now=NOW)
    assert before[0].so_far
    assert retention.forget(now=NOW)["pods"] == 5
    assert (cost_of(run, now=NOW), cost_lines(run, now=NOW)) == before
    assert ledger_difference() == 0
    seconds = sum((each.ended_at - each.started_at).total_seconds() for each in UsageInterval.objects.all())
    assert seconds == 5 * 3600


def test_the_ledger_is_proved_without_the_rows_that_were_verified_and_what_differs_stays(run):
    pod(run, "right", gone=OLD)
    wrong = pod(run, "wrong", gone=OLD)
    PodRecord.objects.filter(name="wrong").update(finished_at=OLD + timedelta(seconds=7))
    assert retention.forget(now=NOW)["pods"] == 1
    assert names(PodRecord) == {"wrong"}
    assert [fault.key for fault in check.check_all(now=NOW)] == [PodRecord.objects.get().uid]
    PodRecord.objects.all().delete()
    assert len(check.check_all(now=NOW)) == 1, wrong


def test_a_pod_whose_bill_is_open_stays(run):
    kept = pod(run, "unpriced", gone=OLD)
    UsageInterval.objects.filter(pod_uid=kept.uid).update(settled_until=kept.scheduled_at)
    assert retention.forget(now=NOW)["pods"] == 0
    assert names(PodRecord) == {"unpriced"}


def test_a_pod_stays_as_long_as_its_log_and_its_mark_goes_with_it(run):
    written, silent = pod(run, "written", gone=OLD), pod(run, "silent", gone=OLD)
    for each in (written, silent):
        mark_stored(each, now=OLD)
    LogChunk.objects.create(
        workload=run, attempt=1, pod_uid=written.uid, pod_name="written", container="main", sequence=1,
        storage_key="k", first_at=OLD, last_at=OLD, lines=1, size_bytes=1, stored_at=NOW,
    )  # fmt: skip
    assert retention.forget(now=NOW)["pods"] == 1
    assert names(PodRecord) == {"written"}
    assert set(LogChunk.objects.values_list("pod_uid", "container")) == {
        (written.uid, "main"),
        (written.uid, NO_CONTAINER),
    }


def test_estimates_go_once_they_are_judged_and_old(run):
    def estimate(made_at, hit):
        at = made_at + timedelta(hours=1)
        started = at if hit is not None else None
        StartEstimate.objects.create(
            workload=run,
            team=run.team,
            queued_at=made_at,
            made_at=made_at,
            p50=at,
            p90=at,
            started_at=started,
            hit=hit,
        )

    estimate(NOW - timedelta(days=181), True)
    estimate(NOW - timedelta(days=181), None)
    estimate(NOW - timedelta(days=20), False)
    assert retention.forget(now=NOW)["estimates"] == 1
    assert quota_queries.hit_rate(now=NOW) == 0.0


def test_more_than_a_batch_goes_in_one_call(run, monkeypatch):
    monkeypatch.setattr(retention, "BATCH", 3)
    for number in range(10):
        pod(run, f"pod-{number}", gone=OLD - timedelta(hours=number))
    assert retention.forget(now=NOW)["pods"] == 10


def test_where_nothing_is_too_old_it_is_only_looked_for(run, django_assert_num_queries):
    pod(run, "new", gone=NEW)
    with django_assert_num_queries(6):  # the settings, and each of five kinds of row
        retention.forget(now=NOW)


@pytest.mark.django_db(transaction=True)
def test_the_settings_say_how_long_and_the_periodic_job_does_it(run, settings):
    settings.CLUSTER_KUBECONFIG = "/nonexistent/kubeconfig"
    PlatformSettings.objects.create(record_retention_days=31, estimate_retention_days=31)
    pod(run, "gone", gone=clock.now() - timedelta(days=32))
    collect_garbage()
    assert not PodRecord.objects.exists()


@pytest.mark.parametrize("name", ["record_retention_days", "estimate_retention_days"])
def test_what_live_runs_need_is_never_too_old(name):
    with pytest.raises(IntegrityError):
        PlatformSettings.objects.create(**{name: 30})


@pytest.mark.matrix
def test_what_is_there_is_told_without_reading_what_has_gone(run):
    pod(run, "there", gone=None)
    make_node(name="there")
    before = rows_read(nodes), rows_read(observe)
    for number in range(200):
        pod(run, f"gone-{number}", gone=NEW)
        NodeRecord.objects.filter(pk=make_node(name=f"gone-{number}").pk).update(gone_at=NEW)
    after = rows_read(nodes), rows_read(observe)
    # Of two hundred; which index is read first takes a row more or less.
    assert all(later <= earlier + 20 for earlier, later in zip(before, after, strict=True))
    for asked in (
        lambda: list(run.pods.filter(gone_at__isnull=True)),
        lambda: list(ObjectRecord.objects.filter(gone_at__isnull=True, kind="Job")),
        lambda: quota_queries.hit_rate(now=NOW),
        lambda: retention.forget(now=NOW),
    ):
        assert not tables_read_whole(asked)
