"""Claims and counters, with the database as the last word."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import IntegrityError, connections, transaction
from django.db.models import Sum

from foundation import clock
from foundation.errors import Invalid
from quotas.errors import QuotaExceeded
from quotas.models import Claim, ClaimState, Quota, QuotaChange
from quotas.limits import remove_quota, set_nominal
from quotas.services import activate, claim, release
from teams.models import AuditEvent
from tests.factories.catalogue import SETUP, make_flavor, make_quota
from tests.factories.teams import make_team, make_user
from tests.factories.workloads import make_workload, put_in
from workloads.models import Workload
from workloads.states import Phase, Reason

pytestmark = pytest.mark.django_db


class Hall:
    """One quota, and as many workloads as wanted."""

    def __init__(self, nominal=8):
        self.team, self.owner, self.flavor = make_team(), make_user(), make_flavor()
        self.quota = make_quota(self.team, self.flavor, nominal)

    def workload(self, units=1, **values):
        return make_workload(team=self.team, owner=self.owner, flavor=self.flavor, units=units, **values)

    def claim(self, units=1):
        workload = self.workload(units)
        return claim(workload=workload, quota=self.quota, units=units, now=clock.now())

    def nominal(self, nominal, reason="because"):
        key = {"team": self.team, "flavor": self.flavor, "capacity_type": "on-demand"}
        return set_nominal(**key, nominal=nominal, reason=reason, actor=SETUP, now=clock.now())

    def facts(self):
        self.quota.refresh_from_db()
        return self.quota.nominal, self.quota.used, self.quota.grandfathered, self.quota.available


@pytest.fixture
def hall():
    return Hall()


def test_a_claim_fills_the_quota_to_the_brim_and_not_beyond(hall):
    hall.claim(5)
    hall.claim(3)
    with pytest.raises(QuotaExceeded):
        hall.claim(1)
    assert hall.facts() == (8, 8, 0, 0)
    assert Claim.objects.count() == 2


def test_the_same_workload_claims_once(hall):
    first = hall.claim(3)
    assert claim(workload=first.workload, quota=hall.quota, units=3, now=clock.now()) == first
    assert hall.facts()[1] == 3


def test_a_claim_is_reserved_then_active_then_released_once(hall):
    held = hall.claim(3)
    activate(workload=held.workload, now=clock.now())
    held.refresh_from_db()
    assert held.state == ClaimState.ACTIVE
    assert held.activated_at is not None
    assert release(workload=held.workload, now=clock.now())
    assert not release(workload=held.workload, now=clock.now())
    activate(workload=held.workload, now=clock.now())
    held.refresh_from_db()
    assert held.state == ClaimState.RELEASED
    assert hall.facts()[1] == 0
    assert claim(workload=held.workload, quota=hall.quota, units=3, now=clock.now()) != held


def test_a_cut_below_use_keeps_what_runs_and_admits_nothing_until_it_fits(hall):
    big, small = hall.claim(5), hall.claim(3)
    hall.nominal(4)
    assert hall.facts() == (4, 8, 8, -4)
    with pytest.raises(QuotaExceeded):
        hall.claim(1)
    release(workload=small.workload, now=clock.now())
    assert hall.facts() == (4, 5, 5, -1)
    with pytest.raises(QuotaExceeded):
        hall.claim(1)
    release(workload=big.workload, now=clock.now())
    assert hall.facts() == (4, 0, 0, 4)
    hall.claim(4)


def test_only_a_cut_raises_what_is_grandfathered(hall):
    hall.claim(8)
    hall.nominal(2)
    hall.nominal(6)
    assert hall.facts() == (6, 8, 8, -2)
    hall.nominal(20)
    assert hall.facts() == (20, 8, 0, 12)


def test_a_change_leaves_its_reason_twice_and_no_change_leaves_nothing(hall):
    hall.nominal(12, reason="new nodes")
    before = QuotaChange.objects.count(), AuditEvent.objects.count()
    hall.nominal(12, reason="again")
    assert (QuotaChange.objects.count(), AuditEvent.objects.count()) == before
    change = QuotaChange.objects.first()
    assert (change.old_nominal, change.new_nominal, change.reason) == (8, 12, "new nodes")
    assert AuditEvent.objects.filter(action="quota.changed", reason="new nodes").count() == 1


@pytest.mark.parametrize("nominal", [-1, 1_000_001])
def test_a_quota_out_of_range_is_refused_by_name(hall, nominal):
    with pytest.raises(Invalid) as refused:
        hall.nominal(nominal)
    assert refused.value.errors[0].field == "nominal"
    assert hall.facts()[0] == 8


def test_a_quota_that_was_ever_claimed_from_is_kept(hall):
    held = hall.claim()
    release(workload=held.workload, now=clock.now())
    with pytest.raises(QuotaExceeded):
        remove_quota(quota=hall.quota, reason="x", actor=SETUP, now=clock.now())
    unused = Hall.__new__(Hall)
    unused.team = make_team()
    quota = make_quota(unused.team, hall.flavor, 3)
    remove_quota(quota=quota, reason="x", actor=SETUP, now=clock.now())
    change = QuotaChange.objects.first()
    assert (change.quota, change.old_nominal, change.new_nominal) == (None, 3, None)


@pytest.mark.parametrize(
    ("constraint", "harm"),
    [
        ("quota_never_oversubscribed", lambda h, c: Quota.objects.update(used=9)),
        ("quota_never_oversubscribed", lambda h, c: Quota.objects.update(nominal=0)),
        ("quotas_quota_used_check", lambda h, c: Quota.objects.update(used=-1)),
        ("quota_unique", lambda h, c: Quota.objects.create(team=h.team, flavor=h.flavor, nominal=1)),
        ("claim_one_open_per_purpose", lambda h, c: Claim.objects.create(workload=c.workload, quota=h.quota, units=1, reserved_at=c.reserved_at)),
        ("claim_positive", lambda h, c: Claim.objects.filter(pk=c.pk).update(units=0)),
        ("claim_release_paired", lambda h, c: Claim.objects.filter(pk=c.pk).update(state=ClaimState.RELEASED)),
        ("claim_release_paired", lambda h, c: Claim.objects.filter(pk=c.pk).update(released_at=c.reserved_at)),
    ],
)  # fmt: skip
def test_each_rule_is_kept_by_the_database_itself(hall, constraint, harm):
    held = hall.claim(2)
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        harm(hall, held)


def test_a_release_wakes_those_who_wait_for_the_same_quota_alone(hall):
    held = hall.claim(8)
    later = clock.now() + timedelta(hours=1)
    waiting = hall.workload()
    other = make_workload(team=hall.team, owner=hall.owner)
    suspended = put_in(hall.workload(), Phase.SUSPENDED)
    resting = put_in(hall.workload(), Phase.QUEUED, reason=Reason.BACKOFF_WAITING.value)
    Workload.objects.exclude(pk=held.workload_id).update(next_reconcile_at=later)
    now = clock.now()
    release(workload=held.workload, now=now)
    dues = dict(Workload.objects.values_list("pk", "next_reconcile_at"))
    assert dues[waiting.pk] == now
    assert {dues[each.pk] for each in (other, suspended, resting)} == {later}


@pytest.mark.django_db(transaction=True)
def test_racing_admissions_never_hold_more_than_the_quota():  # noqa: PLR0915 (one race, told in order)
    """8 connections, 200 claims each on one hot row, without any lock of the caller's; some give back."""
    threads, each, nominal = 8, 200, 40
    hall = Hall(nominal)
    rows = [
        Workload(
            kind="training-run", team=hall.team, owner=hall.owner, name=f"w{index}", flavor=hall.flavor,
            units=1 + index % 4, since=clock.now(), created_at=clock.now(), queued_at=clock.now(),
        )
        for index in range(threads * each)
    ]  # fmt: skip
    workloads = Workload.objects.bulk_create(rows)
    start = threading.Barrier(threads + 1)
    ends = threading.Event()
    seen, refused = [], []

    def admit(worker):
        dice = random.Random(worker)
        mine = []
        start.wait(30)
        try:
            for workload in workloads[worker * each : (worker + 1) * each]:
                try:
                    claim(workload=workload, quota=hall.quota, units=workload.units, now=clock.now())
                    mine.append(workload)
                except QuotaExceeded:
                    refused.append(workload)
                if len(mine) > 3 or (mine and dice.random() < 0.4):
                    release(workload=mine.pop(dice.randrange(len(mine))), now=clock.now())
        finally:
            connections.close_all()

    def watch():
        start.wait(30)
        try:
            while not ends.is_set():
                with transaction.atomic():
                    quota = Quota.objects.select_for_update().get(pk=hall.quota.pk)
                    held = Claim.objects.filter(quota=quota).exclude(state=ClaimState.RELEASED)
                    seen.append((quota.used, held.aggregate(sum=Sum("units"))["sum"] or 0))
                ends.wait(0.02)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(threads + 1) as pool:
        watcher = pool.submit(watch)
        workers = [pool.submit(admit, worker) for worker in range(threads)]
        try:
            for worker in workers:
                worker.result(120)
        finally:
            ends.set()
            watcher.result(60)
    assert seen
    assert refused
    assert max(used for used, _ in seen) <= nominal
    assert [pair for pair in seen if pair[0] != pair[1]] == []
    held = Claim.objects.exclude(state=ClaimState.RELEASED).aggregate(sum=Sum("units"))["sum"] or 0
    hall.quota.refresh_from_db()
    assert hall.quota.used == held <= nominal
    assert Claim.objects.count() + len(refused) == threads * each


@pytest.mark.django_db(transaction=True)
def test_one_workload_that_is_claimed_for_twice_at_once_holds_one_claim(hall):
    workload = hall.workload(2)
    start = threading.Barrier(4)

    def take():
        start.wait(10)
        try:
            return claim(workload=workload, quota=hall.quota, units=2, now=clock.now())
        except IntegrityError:
            return None
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        taken = [each.result(30) for each in [pool.submit(take) for _ in range(4)]]
    assert len({each.pk for each in taken if each}) == 1
    assert hall.facts()[1] == 2
