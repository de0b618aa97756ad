"""Sweeps, settlement and garbage: what is found again when messages, processes or deletes were lost."""

from __future__ import annotations

import json
from base64 import b64decode
from datetime import timedelta
from itertools import pairwise

import pytest
import redis
from django.conf import settings

from cluster import kinds
from cluster.kinds import ObjectRef
from controller import tasks
from controller.reconcile import garbage
from costs.models import LedgerEntry, RollupCheck
from costs.tasks import check_rollups
from foundation import clock, leases
from portal.settings import queues
from quotas import decisions
from quotas.models import Decision, Fence
from tenancy import resource_quotas
from tests.controller.clusters import gone
from tests.controller.test_reconcile_faults import job_manifest
from tests.factories.leases import run_out, take_over
from tests.factories.workloads import age_lock, make_workload, put_in
from tests.waiting import until
from workloads.locks import LOCK_SECONDS, lock
from workloads.models import ObjectRecord, Workload
from workloads.observations import record_object
from workloads.states import Phase

pytestmark = pytest.mark.django_db(transaction=True)

LATER = timedelta(minutes=11)


@pytest.fixture
def broker(servers):
    """The real broker's queue, empty at first."""
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        client.flushdb()

        def messages():
            found = []
            # Redis keeps each priority of a queue in a list of its own.
            while raw := client.rpop(queues.RECONCILES) or client.rpop(f"{queues.RECONCILES}\x06\x169"):
                message = json.loads(raw)
                _, kwargs, _ = json.loads(b64decode(message["body"]))
                found.append((message["headers"]["task"], kwargs["workload_id"]))
            return found

        yield messages


def test_a_submission_sends_its_wake_up_after_the_commit(broker):
    run = make_workload()
    assert broker() == []
    from controller.wakeups import wake_workload

    wake_workload(run, now=clock.now())
    assert broker() == [("controller.reconcile_workload", str(run.public_id))]


def test_a_call_to_one_that_sleeps_makes_it_due_and_a_second_one_sends_nothing(broker):
    from controller.services import call_for

    run = make_workload()
    Workload.objects.update(next_reconcile_at=None)
    now = clock.now()
    call_for(public_id=run.public_id, now=now)
    assert broker() == [("controller.reconcile_workload", str(run.public_id))]
    run.refresh_from_db()
    assert (run.called_at, run.next_reconcile_at) == (now, now)
    call_for(public_id=run.public_id, now=now + timedelta(seconds=1))
    assert broker() == []


def test_the_sweep_finds_a_row_whose_message_was_lost(broker):
    start = clock.now()
    lost, early, final = make_workload(now=start), make_workload(now=start), make_workload(now=start)
    put_in(early, Phase.QUEUED, next_reconcile_at=start + timedelta(hours=1))
    put_in(final, Phase.FAILED, next_reconcile_at=None)
    broker()
    with clock.freeze(start + timedelta(seconds=5)):
        tasks.sweep_due_workloads()
    assert broker() == [("controller.reconcile_workload", str(lost.public_id))]


def test_what_the_sweep_found_is_not_hinted_at_again_before_the_workers_have_come_to_it(broker):
    start = clock.now()
    runs = [make_workload(now=start) for _ in range(tasks.SWEEP_BACKLOG_MAX + 1)]
    broker()
    with clock.freeze(start + timedelta(seconds=5)):
        tasks.sweep_due_workloads()
    run_out()
    with clock.freeze(start + timedelta(seconds=10)):
        tasks.sweep_due_workloads()
    assert sorted(found for _, found in broker()) == sorted(str(run.public_id) for run in runs)


def test_a_submission_does_not_wait_behind_what_the_sweep_found(broker):
    from controller.wakeups import hints_waiting, send

    start = clock.now()
    old = make_workload(now=start)
    broker()
    with clock.freeze(start + timedelta(seconds=5)):
        tasks.sweep_due_workloads()
    new = make_workload()
    send(new.public_id)
    assert hints_waiting("controller.reconcile_workload") == 2
    assert [found for _, found in broker()] == [str(new.public_id), str(old.public_id)]


def test_a_row_that_somebody_looks_at_is_not_swept_until_its_lock_runs_out(broker):
    start = clock.now()
    run = make_workload(now=start)
    lock(public_id=run.public_id, now=start)
    age_lock(run, seconds=LOCK_SECONDS - 1)
    with clock.freeze(start + timedelta(minutes=10)):
        tasks.sweep_due_workloads()
    assert broker() == []
    age_lock(run, seconds=1)
    run_out()
    with clock.freeze(start - timedelta(minutes=10)):
        tasks.sweep_due_workloads()
    assert [found for _, found in broker()] == [str(run.public_id)]


@pytest.mark.parametrize(
    ("job", "write"),
    [
        ("settle", lambda bench: tasks.settle_due(now=clock.now() + timedelta(hours=2))),
        ("garbage", lambda bench: decisions.expire(now=clock.now(), keep=timedelta())),
        ("fences", lambda bench: resource_quotas.keep_in_step(bench.client, now=clock.now())),
    ],
)
def test_a_job_that_was_overtaken_writes_nothing_any_more(bench, job, write):
    """It took longer than its lease, and another process does it by now."""
    bench.running()
    assert Decision.objects.exists()
    before = Decision.objects.count()
    with leases.periodic(job, seconds=30) as ours:
        assert ours
        take_over(job)
        write(bench)
        pytest.fail("it went on")
    assert (LedgerEntry.objects.count(), Fence.objects.count(), Decision.objects.count()) == (0, 0, before)


def test_a_sweep_that_another_process_has_just_done_sends_nothing(broker):
    start = clock.now()
    make_workload(now=start - timedelta(minutes=1))
    leases.acquire(name="periodic:sweep", holder="elsewhere:1", ttl_seconds=60)
    with clock.freeze(start + timedelta(seconds=1)):
        tasks.sweep_due_workloads()
    assert broker() == []


def test_a_broker_that_is_away_costs_no_submission(monkeypatch):
    from celery import current_app

    from controller.wakeups import wake_workload

    run = make_workload()
    Workload.objects.update(next_reconcile_at=None)
    with current_app.connection_for_write("redis://127.0.0.1:1/0") as away:
        monkeypatch.setattr(current_app, "connection_for_write", lambda *_: away)
        monkeypatch.setattr(current_app.amqp, "_producer_pool", None)
        wake_workload(run, now=clock.now())
    run.refresh_from_db()
    assert run.next_reconcile_at is not None


def test_sums_of_the_ledger_are_compared_with_its_lines(bench):
    check_rollups()
    assert RollupCheck.objects.get().round_ended_at is not None


def test_usage_that_goes_on_is_settled_by_the_hour(bench):
    bench.running()
    assert not LedgerEntry.objects.exists()
    with clock.freeze(clock.now() + timedelta(hours=1, seconds=1)):
        tasks.settle_usage()
        run_out()
        tasks.settle_usage()
    lines = list(LedgerEntry.objects.filter(account__startswith="team:").order_by("started_at"))
    # One, and another from midnight (UTC) on where the hour goes beyond it.
    assert len(lines) == 1 + (lines[0].started_at.date() != lines[-1].started_at.date())
    assert all(one.ended_at == other.started_at for one, other in pairwise(lines))


# --- garbage


def ended(bench, **fields):
    run = bench.submit(env={"BED_RUN_SECONDS": 0.2}, **fields)
    return bench.until(run, lambda run: run.is_final)


def test_the_objects_of_ended_runs_are_kept_a_while_and_then_deleted(bench):
    run = ended(bench)
    assert garbage.delete_ended(bench.client, now=clock.now()) == 0
    assert len(bench.own(run, kinds.JOB)) == 1
    assert garbage.delete_ended(bench.client, now=clock.now() + LATER) == 1
    for kind in (kinds.JOB, kinds.POD):
        until(lambda kind=kind: not bench.own(run, kind))
    assert garbage.delete_ended(bench.client, now=clock.now() + LATER) == 0
    assert not ObjectRecord.objects.filter(workload=run, gone_at__isnull=True).exists()
    run.refresh_from_db()
    assert run.phase == "Succeeded"


def test_what_still_runs_is_no_garbage(bench):
    run = bench.running()
    assert garbage.delete_ended(bench.client, now=clock.now() + timedelta(days=9)) == 0
    assert len(bench.own(run, kinds.JOB)) == 1


def test_an_object_of_the_same_name_that_is_not_the_portals_is_left_alone(bench):
    run = ended(bench)
    (job,) = bench.own(run, kinds.JOB)
    ref = ObjectRef("batch/v1", "Job", bench.team.namespace_name, job["metadata"]["name"])
    bench.delete(kinds.JOB, job)
    until(lambda: gone(bench.client, ref))
    foreign = bench.client.create(job_manifest(bench, ref.name))
    assert garbage.delete_ended(bench.client, now=clock.now() + LATER) == 0
    assert bench.client.get(ref)["metadata"]["uid"] == foreign["metadata"]["uid"]
    bench.client.delete(ref, uid=foreign["metadata"]["uid"])


def test_one_object_that_cannot_be_deleted_does_not_keep_the_others(bench):
    first, second = ended(bench, name="first"), ended(bench, name="second")

    class Refusing:
        def __getattr__(self, name):
            return getattr(bench.client, name)

        def delete(self, ref, **values):
            if ref.name.startswith("first"):
                from cluster.errors import ClusterRejected

                raise ClusterRejected("no")
            return bench.client.delete(ref, **values)

    assert garbage.delete_ended(Refusing(), now=clock.now() + LATER) == 1
    until(lambda: not bench.own(second, kinds.JOB))
    assert len(bench.own(first, kinds.JOB)) == 1


def test_who_is_overtaken_between_two_objects_deletes_no_more(bench):
    runs = [ended(bench, name=f"train-{number}") for number in range(2)]

    class Slow:
        def __getattr__(self, name):
            return getattr(bench.client, name)

        def delete(self, ref, **values):
            bench.client.delete(ref, **values)
            take_over("garbage")

    with leases.periodic("garbage", seconds=30):
        garbage.delete_ended(Slow(), now=clock.now() + LATER)
    until(lambda: sum(len(bench.own(run, kinds.JOB)) for run in runs) == 1)


def test_many_that_cannot_be_deleted_do_not_starve_the_others(bench, monkeypatch):
    monkeypatch.setattr(garbage, "BATCH_MAX", 2)
    run = ended(bench)
    (job,) = bench.own(run, kinds.JOB)
    for index in range(2):
        # Rows of older runs whose object the cluster does not let go.
        stuck = make_workload(team=bench.team, owner=bench.member)
        put_in(stuck, Phase.FAILED)
        manifest = {**job, "metadata": {**job["metadata"], "uid": f"stuck-{index}", "name": f"stuck-{index}"}}
        record_object(manifest, workload=stuck, cluster=bench.client.cluster, now=clock.now())
    ObjectRecord.objects.filter(uid=job["metadata"]["uid"]).delete()
    record_object(job, workload=run, cluster=bench.client.cluster, now=clock.now())

    class Refusing:
        def __getattr__(self, name):
            return getattr(bench.client, name)

        def get(self, ref):
            if ref.name.startswith("stuck"):
                from cluster.errors import ClusterRejected

                raise ClusterRejected("no")
            return bench.client.get(ref)

    def its_turn():
        garbage.delete_ended(Refusing(), now=clock.now() + LATER)
        return not bench.own(run, kinds.JOB)

    until(its_turn, said=lambda: "it is never its turn")
