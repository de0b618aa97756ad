"""Work that the platform destroyed is credited to the team that paid for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from costs import tasks
from costs.ledger import check, lost_work
from costs.ledger.disputes import reverse
from costs.ledger.services import record_usage
from costs.models import LedgerEntry, LostWork
from costs.queries import cost_of
from foundation.models import PlatformSettings
from tests.factories.catalogue import SETUP, make_flavor, make_price
from tests.factories.workloads import make_workload
from workloads.models import Attempt, PodRecord
from workloads.services import end_attempt, start_attempt
from workloads.states import Phase

pytestmark = pytest.mark.django_db

T0 = datetime(2026, 10, 1, 12, tzinfo=UTC)
USD = 1_000_000
numbers = count(1)


def at(seconds):
    return T0 + timedelta(seconds=seconds)


class Bed:
    """One run of one card that costs one USD a second."""

    def __init__(self):
        self.run = make_workload(flavor=make_flavor(), units=1)
        make_price()

    def attempt(self, reason="Preempted", *, start=0, end=600, saved=None, phase=Phase.FAILED):
        attempt = start_attempt(self.run, object_name="x", token_digest="", now=at(start))
        attempt.started_at = at(start)
        number = next(numbers)
        self.pod = PodRecord.objects.create(
            uid=f"pod-{number}", namespace="ns", name=f"pod-{number}", workload=self.run, attempt=attempt.number,
            units=1, resource_version="1", created_at=at(start), scheduled_at=at(start), node_name="n",
            finished_at=at(end),
        )  # fmt: skip
        if saved is not None:
            self.run.checkpoints.create(attempt=attempt.number, at=at(saved), path="x", step=1)
        end_attempt(attempt, phase=phase, reason=reason, message="", exit_code=None, ended_at=at(end))
        record_usage(self.pod, now=at(end))
        lost_work.note(Attempt.objects.get(pk=attempt.pk))
        lost_work.credit_due(now=at(end))
        return attempt

    def sums(self):
        accounts = {}
        for row in LedgerEntry.objects.all():
            kind = row.account.partition(":")[0]
            accounts[kind] = accounts.get(kind, 0) + row.amount_micro_usd
        return accounts.get("team", 0) // USD, accounts.get("lost", 0) // USD


@pytest.fixture
def bed():
    return Bed()


@pytest.mark.parametrize("reason", ["Preempted", "QuotaReduced", "NodeLost"])
def test_what_the_platform_took_is_credited(bed, reason):
    bed.attempt(reason)
    assert bed.sums() == (0, 600)
    assert cost_of(bed.run, now=at(700)).so_far == 0
    line = LedgerEntry.objects.get(account__startswith="lost:")
    assert (line.account, line.team, line.workload) == ("lost:a100-40gb:on-demand", bed.run.team, bed.run)


@pytest.mark.parametrize("reason", ["SpotReclaimed", "ApplicationError", "UserRequested", "DeadlineExceeded"])
def test_what_others_took_is_counted_and_not_credited(bed, reason):
    bed.attempt(reason)
    assert bed.sums() == (600, 0)
    lost = LostWork.objects.get()
    assert (lost.cause, lost.lost_micro_usd, lost.credited_micro_usd, lost.due) == (
        reason,
        600 * USD,
        0,
        False,
    )


def test_what_a_checkpoint_has_saved_is_not_lost(bed):
    bed.attempt(saved=450)
    assert bed.sums() == (450, 150)


@pytest.mark.parametrize(("most", "credited"), [(0, 0), (100, 100), (10_000, 600)])
def test_no_more_is_credited_than_the_platform_says(bed, most, credited):
    PlatformSettings.objects.update_or_create(pk=1, defaults={"lost_work_credit_seconds": most})
    bed.attempt()
    assert bed.sums() == (600 - credited, credited)
    assert LostWork.objects.get().lost_micro_usd == 600 * USD


@pytest.mark.parametrize("later", [0, 100, 9_000])
def test_a_setting_that_changes_later_changes_no_credit_of_before(bed, later):
    PlatformSettings.objects.update_or_create(pk=1, defaults={"lost_work_credit_seconds": 300})
    bed.attempt()
    assert bed.sums() == (300, 300)
    PlatformSettings.objects.update(lost_work_credit_seconds=later)
    lost_work.look_again(workload_ids={bed.run.pk})
    lines = LedgerEntry.objects.count()
    assert lost_work.credit_due(now=at(700)) == 1
    assert LedgerEntry.objects.count() == lines
    bed.pod.finished_at = at(590)
    bed.pod.save()
    record_usage(bed.pod, now=at(800))
    lost_work.credit_due(now=at(810))
    assert bed.sums() == (300, 290)


def test_what_a_process_of_the_release_before_has_noted_is_credited_by_the_setting_once_and_for_all(bed):
    PlatformSettings.objects.update_or_create(pk=1, defaults={"lost_work_credit_seconds": 300})
    bed.attempt()
    LostWork.objects.update(credit_seconds=None, due=True)
    lost_work.credit_due(now=at(700))
    assert (bed.sums(), LostWork.objects.get().credit_seconds) == ((300, 300), 300)


def test_a_credit_outlasts_the_rows_of_its_pods(bed):
    """Their retention ends before that of the ledger, and what is looked at again after it has nothing to go by."""
    bed.attempt()
    lines = list(LedgerEntry.objects.values().order_by("id"))
    assert check.seal([bed.pod.uid]) == {bed.pod.uid}
    bed.pod.delete()
    lost_work.look_again(workload_ids={bed.run.pk})
    assert lost_work.credit_due(now=at(9_000)) == 0
    assert list(LedgerEntry.objects.values().order_by("id")) == lines
    work = LostWork.objects.get()
    assert (work.lost_micro_usd, work.credited_micro_usd, work.due) == (600 * USD, 600 * USD, False)
    assert check.check_all(now=at(9_100)) == []


@pytest.mark.django_db(transaction=True)
def test_beat_credits_by_itself(bed):
    bed.attempt()
    lines = LedgerEntry.objects.count()
    bed.pod.finished_at = at(500)
    bed.pod.save()
    record_usage(bed.pod, now=at(800))
    tasks.credit_lost_work()
    assert LedgerEntry.objects.count() > lines
    assert bed.sums() == (0, 500)


def test_it_is_credited_once(bed):
    attempt = bed.attempt()
    lost_work.note(attempt)
    lost_work.look_again(workload_ids={bed.run.pk})
    lines = LedgerEntry.objects.count()
    assert lost_work.credit_due(now=at(700)) == 1
    assert lost_work.credit_due(now=at(700)) == 0
    assert LedgerEntry.objects.count() == lines


def test_a_pods_end_that_is_corrected_corrects_the_credit_by_reversing(bed):
    bed.attempt()
    bed.pod.finished_at = at(500)
    bed.pod.save()
    record_usage(bed.pod, now=at(800))
    lost_work.credit_due(now=at(810))
    assert bed.sums() == (0, 500)
    assert LostWork.objects.get().credited_micro_usd == 500 * USD
    rows = LedgerEntry.objects.filter(account__startswith="lost:").order_by("id")
    assert [row.amount_micro_usd // USD for row in rows] == [600, -600, 500]
    assert check.check_all(now=at(900)) == []


def test_what_a_person_has_taken_back_is_not_credited_besides(bed):
    bed.attempt()
    line = LedgerEntry.objects.get(account__startswith="team:", pod_uid=bed.pod.uid, reverses=None)
    reverse(line, reason="The network was down.", actor=SETUP, now=at(700))
    lost_work.credit_due(now=at(710))
    assert bed.sums() == (0, 0)


def test_what_has_pods_that_run_on_waits(bed):
    attempt = bed.attempt()
    bed.pod.finished_at = None
    bed.pod.save()
    record_usage(bed.pod, now=at(700))
    assert lost_work.credit_due(now=at(710)) == 0
    bed.pod.finished_at = at(590)
    bed.pod.save()
    record_usage(bed.pod, now=at(800))
    assert lost_work.credit_due(now=at(810)) == 1
    assert bed.sums() == (0, 590)
    assert attempt.lost_seconds == 600
