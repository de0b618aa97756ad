"""What something costs is told from kept sums and from what is open: exactly, and as fast after years as on the first day."""

from __future__ import annotations

from copy import copy
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import count
from random import Random

import pytest
from django.db import connection, transaction

from costs.ledger.disputes import reverse
from costs.ledger.services import record_usage, settle, settle_due
from costs.models import LedgerEntry, UsageInterval, WorkloadCharge
from costs.queries import LINES_MAX, cost_lines, cost_of, costs_of
from costs.reports.queries import CostWindow, spent
from foundation.ids import new_public_id
from tests.effort import seeds
from tests.factories.catalogue import SETUP, make_flavor, make_price
from tests.factories.workloads import make_workload
from tests.plans import rows_read
from workloads.models import PodRecord, Workload
from workloads.states import Phase

pytestmark = pytest.mark.django_db

T0 = datetime(2026, 10, 1, 12, tzinfo=UTC)
numbers = count(1)


def at(seconds):
    return T0 + timedelta(seconds=seconds)


@pytest.fixture
def flavor():
    made = make_flavor()
    make_price()
    return made


def pod_of(run, start, end=None, *, units=1):
    number = next(numbers)
    return PodRecord.objects.create(
        uid=f"uid-{number}", namespace="ns", name=f"pod-{number}", workload=run, attempt=1, resource_version="1",
        created_at=at(start), scheduled_at=at(start), units=units, node_name="a100-0",
        finished_at=None if end is None else at(end),
    )  # fmt: skip


def live_long(run, *, pods):
    for number in range(pods):
        record_usage(pod_of(run, number * 60, number * 60 + 7), now=at(number * 60 + 7))
    record_usage(pod_of(run, pods * 60), now=at(pods * 60))


def repeat_the_past_of(run, *, times):
    """So many more settled intervals like those there are: few rows would be read in whole whatever index there is."""
    past = UsageInterval.objects.filter(workload=run, ended_at__isnull=False)
    copies = [copy(each) for each in past for _ in range(times)]
    for number, each in enumerate(copies):
        each.pk, each.pod_uid = None, f"past-{number}"
    UsageInterval.objects.bulk_create(copies)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE costs_usageinterval")


def recomputed(run, now):
    """From every pod's own lines in the ledger, and what has come up since."""
    lines = cost_lines(run, now=now, limit=10_000).lines
    return sum(line.amount_micro_usd for line in lines)


@pytest.mark.parametrize("seed", seeds(usual=1, matrix=5, soak=5))
def test_the_kept_sum_is_that_of_the_ledger_whatever_happened(flavor, seed):
    random = Random(seed)
    runs = [make_workload(flavor=flavor, units=4) for _ in range(3)]
    pods, now = [], 0
    for _ in range(60):
        now += random.randrange(1, 4000)
        match random.randrange(5):
            case 0 | 1:
                pods.append(pod_of(random.choice(runs), now, units=random.randrange(1, 4)))
                record_usage(pods[-1], now=at(now))
            case 2 if pods:
                # Heard of late as often as not: what was settled beyond the end is taken back.
                pod = pods.pop(random.randrange(len(pods)))
                pod.finished_at = at(now - random.randrange(6000))
                record_usage(pod, now=at(now))
            case 3:
                settle_due(now=at(now))
            case 4 if left := list(
                LedgerEntry.objects.filter(account__startswith="team:", reverses=None, reversed_by=None)
            ):
                entry = random.choice(left)
                reverse(entry, reason="test", actor=SETUP, now=at(now))
    shown = costs_of(runs, now=at(now))
    assert [shown[run.pk].so_far for run in runs] == [recomputed(run, at(now)) for run in runs]
    assert any(shown[run.pk].so_far for run in runs)


def test_what_was_posted_before_the_sums_were_kept_is_in_them(flavor):
    run, idle = make_workload(flavor=flavor), make_workload(flavor=flavor)
    live_long(run, pods=3)
    settle_due(now=at(9000))
    kept = dict(WorkloadCharge.objects.values_list("workload", "posted_micro_usd"))
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM costs_workloadcharge")
        cursor.execute(import_module("costs.migrations.0003_what_is_charged_is_kept").CHARGES_SO_FAR)
    assert dict(WorkloadCharge.objects.values_list("workload", "posted_micro_usd")) == kept
    assert kept.keys() == {run.pk}
    assert cost_of(idle, now=at(9000)).so_far == 0


def test_a_posting_that_is_rolled_back_is_not_kept(flavor):
    run = make_workload(flavor=flavor)
    usage = record_usage(pod_of(run, 0), now=at(0))
    with transaction.atomic():
        settle(usage, now=at(60))
        transaction.set_rollback(True)
    assert cost_of(run, now=at(60)).so_far == recomputed(run, at(60)) == 60 * 1_000_000
    assert not WorkloadCharge.objects.exists()


def test_pods_of_the_past_are_not_read_to_tell_what_it_costs(flavor):
    young, old = make_workload(flavor=flavor), make_workload(flavor=flavor)
    live_long(young, pods=2)
    live_long(old, pods=2)
    repeat_the_past_of(old, times=1000)
    assert not UsageInterval.objects.filter(UsageInterval.unsettled(), ended_at__isnull=False).exists()
    read = [rows_read(lambda run=run: cost_of(run, now=at(90_000))) for run in (young, old)]
    # Of a thousand times as many; which index is read first takes a row more or less.
    assert read[1] <= 2 * read[0]


def a_past_of(run, *, runs):
    """So many runs that ended, each with an interval that is settled."""
    (past,) = UsageInterval.objects.filter(workload=run, ended_at__isnull=False)
    others = [copy(run) for _ in range(runs)]
    for number, each in enumerate(others):
        each.pk, each.public_id, each.name = None, new_public_id(), f"past-{number}"
        each.phase, each.finished_at = Phase.SUCCEEDED.value, at(7)
    copies = [copy(past) for _ in range(runs)]
    for each, other in zip(copies, Workload.objects.bulk_create(others), strict=True):
        each.pk, each.workload, each.pod_uid = None, other, f"past-{other.pk}"
    UsageInterval.objects.bulk_create(copies)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE costs_usageinterval, workloads_workload")


def test_pods_of_the_past_are_not_read_to_tell_what_was_spent(flavor):
    run = make_workload(flavor=flavor)
    live_long(run, pods=1)
    asked = [
        {"teams": teams, "window": window, "group_by": "team", "now": at(90_000)}
        for teams in (None, [run.team_id])
        for window in (CostWindow(T0 - timedelta(days=4000)), CostWindow.month_of(T0))
    ]
    young = [rows_read(lambda each=each: spent(**each), is_large=True) for each in asked]
    a_past_of(run, runs=3000)
    old = [rows_read(lambda each=each: spent(**each), is_large=True) for each in asked]
    assert all(after <= 2 * before + 5 for before, after in zip(young, old, strict=True)), (young, old)


def test_the_lines_of_a_long_life_are_those_of_its_newest_pods(flavor):
    run = make_workload(flavor=flavor)
    live_long(run, pods=12)
    newest = list(UsageInterval.objects.order_by("started_at").values_list("pod_uid", flat=True))[-5:]
    found = cost_lines(run, now=at(9000), limit=5)
    assert [line.pod_uid for line in found.lines] == newest
    assert not found.complete
    assert cost_lines(run, now=at(9000)).complete
    assert LINES_MAX >= 100
