"""Claims and counters, with the database as the last word."""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import timedelta

import pytest
from django.db import IntegrityError, connections, transaction

from foundation import clock
from foundation.errors import Invalid
from foundation.models import PlatformSettings
from policy.decay import decayed, integral
from quotas.errors import QuotaExceeded
from quotas.limits import remove_quota
from quotas.models import Claim, ClaimPurpose, ClaimState, CohortUsage, Pool, Quota
from quotas.services import Wanted, activate, bump_revision, claim, claim_many, mark_due, release
from tests.factories.catalogue import SETUP, make_flavor, make_quota
from tests.factories.teams import make_team
from tests.quotas.hall import Hall, cohort_of, counters_are_right, free
from tests.waiting import result_of, until_blocked

pytestmark = pytest.mark.django_db


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
    hall.limit(nominal=4)
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
    hall.limit(nominal=2)
    hall.limit(nominal=6)
    assert hall.facts() == (6, 8, 8, -2)
    hall.limit(nominal=20)
    assert hall.facts() == (20, 8, 0, 12)


def test_a_quota_that_was_ever_claimed_from_is_kept(hall):
    held = hall.claim()
    release(workload=held.workload, now=clock.now())
    with pytest.raises(QuotaExceeded):
        remove_quota(quota=hall.quota, reason="x", actor=SETUP, now=clock.now())


@pytest.mark.parametrize(
    ("constraint", "harm"),
    [
        ("quota_never_oversubscribed", lambda h, c: Quota.objects.update(used=9)),
        ("quota_never_oversubscribed", lambda h, c: Quota.objects.update(ceiling=1)),
        (r"quotas_quota_\w+_check", lambda h, c: Quota.objects.update(used=-1, headroom=-1, lent_headroom=-1)),
        ("quota_unique", lambda h, c: Quota.objects.create(team=h.team, flavor=h.flavor, nominal=1)),
        ("quota_headroom_never_overlent", lambda h, c: Quota.objects.update(lent_headroom=1)),
        ("quota_headroom_never_overlent", lambda h, c: Quota.objects.update(headroom=3)),
        ("cohort_never_oversubscribed", lambda h, c: CohortUsage.objects.create(cohort=cohort_of(), flavor=h.flavor, capacity_type="spot", used=1)),
        ("claim_one_open_per_purpose", lambda h, c: Claim.objects.create(workload=c.workload, quota=h.quota, team=h.quota.team, units=1, reserved_at=c.reserved_at)),
        ("claim_positive", lambda h, c: Claim.objects.filter(pk=c.pk).update(units=0)),
        ("claim_headroom_within", lambda h, c: Claim.objects.filter(pk=c.pk).update(headroom=3)),
        ("claim_headroom_within", lambda h, c: Claim.objects.filter(pk=c.pk).update(headroom=1, lent=True)),
        ("claim_release_paired", lambda h, c: Claim.objects.filter(pk=c.pk).update(state=ClaimState.RELEASED)),
        ("claim_release_paired", lambda h, c: Claim.objects.filter(pk=c.pk).update(released_at=c.reserved_at)),
    ],
)  # fmt: skip
def test_each_rule_is_kept_by_the_database_itself(hall, constraint, harm):
    held = hall.claim(2)
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        harm(hall, held)


@pytest.mark.parametrize("units", [0, -1, 1.0, 1.5, "1", True, None, 1_000_001, 2**63])
def test_a_claim_is_for_a_positive_whole_number_of_units(hall, units):
    workload = hall.workload()
    with pytest.raises(Invalid) as refused:
        claim(workload=workload, quota=hall.quota, units=units, now=clock.now())
    assert refused.value.errors[0].field == "units"
    with pytest.raises(Invalid):
        claim_many(wanted=[Wanted(workload.pk, hall.quota.pk, units)], now=clock.now())
    assert hall.facts()[1] == 0


def test_headroom_is_a_part_of_the_units_and_of_none_that_are_lent(hall):
    for values in ({"headroom": 3}, {"headroom": -1}, {"headroom": 1.5}, {"headroom": 1, "lent": True}):
        with pytest.raises(Invalid) as refused:
            hall.claim(2, **values)
        assert refused.value.errors[0].field == "headroom"


# --- how many statements it takes


def test_claiming_for_many_takes_as_many_statements_as_for_two(hall, django_assert_max_num_queries):
    rows = [hall.workload() for _ in range(8)]
    with django_assert_max_num_queries(
        6
    ):  # two of them hold the transaction together, two are about ceilings
        claim_many(wanted=[Wanted(row.pk, hall.quota.pk, 1) for row in rows], now=clock.now())
    assert hall.facts()[1] == 8
    assert counters_are_right()


# --- in a transaction of the caller's


def test_a_refusal_leaves_the_transaction_of_its_caller_as_it_was(hall):
    fits, too_much = hall.workload(5), hall.workload(4)
    with transaction.atomic():
        claim(workload=fits, quota=hall.quota, units=5, now=clock.now())
        with pytest.raises(QuotaExceeded):
            claim(workload=too_much, quota=hall.quota, units=4, now=clock.now())
        assert hall.facts()[1] == 5
    assert Claim.objects.get().workload == fits


def test_what_is_claimed_goes_with_the_transaction_that_fails(hall):
    workload = hall.workload(5)
    with transaction.atomic():
        claim(workload=workload, quota=hall.quota, units=5, now=clock.now())
        transaction.set_rollback(True)
    assert hall.facts()[1] == 0
    assert not Claim.objects.exists()


# --- many at once


def test_many_are_claimed_for_or_none(hall):
    hall.many(3, 4)
    before = hall.facts()
    with pytest.raises(QuotaExceeded):
        hall.many(1, 1)
    assert hall.facts() == before == (8, 7, 0, 1)
    assert Claim.objects.count() == 2


def test_who_has_a_claim_is_left_as_it_is_among_many(hall):
    held = hall.claim(3)
    other = hall.workload(2)
    wanted = [Wanted(held.workload_id, hall.quota.pk, 7), Wanted(other.pk, hall.quota.pk, 2)]
    claim_many(wanted=wanted, now=clock.now())
    held.refresh_from_db()
    assert (held.units, hall.facts()[1]) == (3, 5)
    assert counters_are_right()


def test_nobody_is_claimed_for_twice_at_once(hall):
    row = hall.workload()
    with pytest.raises(ValueError, match="twice"):
        claim_many(wanted=[Wanted(row.pk, hall.quota.pk, 1)] * 2, now=clock.now())


def test_many_may_be_of_several_teams(hall):
    other = make_quota(make_team(), hall.flavor, 2)
    ours, theirs = hall.workload(8), hall.workload(2, team=other.team)
    claim_many(wanted=[Wanted(theirs.pk, other.pk, 2), Wanted(ours.pk, hall.quota.pk, 8)], now=clock.now())
    assert (hall.facts()[1], hall.facts(other)[1]) == (8, 2)


# --- a rollout's surge


def test_a_second_claim_is_released_by_its_purpose(hall):
    held = hall.claim(4)
    hall.claim(2, workload=held.workload, purpose=ClaimPurpose.SURGE)
    assert hall.facts()[1] == 6
    assert release(workload=held.workload, now=clock.now(), purpose=ClaimPurpose.SURGE)
    assert not release(workload=held.workload, now=clock.now(), purpose=ClaimPurpose.SURGE)
    assert hall.facts()[1] == 4
    hall.claim(2, workload=held.workload, purpose=ClaimPurpose.SURGE)
    assert free(held)
    assert hall.facts()[1] == 0
    assert counters_are_right()


# --- pools


def test_a_release_makes_its_pool_due_alone_and_no_later_than_it_was(hall):
    other = make_quota(make_team(), make_flavor("t4"), 1)
    held, second = hall.claim(3), hall.claim(3)
    Pool.objects.update(due_at=None)
    first = clock.now()
    free(held, first)
    free(second, first + timedelta(seconds=5))
    assert Pool.objects.get(flavor=hall.flavor, capacity_type="on-demand").due_at == first
    assert Pool.objects.get(flavor=other.flavor).due_at is None


def test_a_pool_that_has_no_row_becomes_due_all_the_same(hall):
    Pool.objects.all().delete()
    key, now = {"flavor_id": hall.flavor.pk, "capacity_type": "spot"}, clock.now()
    mark_due(**key, now=now)
    pool = Pool.objects.get()
    assert (pool.due_at, pool.revision) == (now, 0)
    bump_revision(**key)
    bump_revision(flavor_id=hall.flavor.pk, capacity_type="on-demand")
    assert dict(Pool.objects.values_list("capacity_type", "revision")) == {"spot": 1, "on-demand": 1}


@pytest.mark.django_db(transaction=True)
def test_nothing_that_is_released_is_missed_by_who_takes_the_pool_off_the_list(hall):
    """The release finds the pool due; whoever clears that has to wait until the release can be seen."""
    held = hall.claim(3)
    assert Pool.objects.get().due_at is not None
    seen = []

    def take_off():
        try:
            Pool.objects.update(due_at=None)
            seen.append(Quota.objects.get().used)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            free(held)
            cleared = pool.submit(take_off)
            until_blocked(unless=cleared)
            assert not cleared.done()
        result_of(cleared)
    assert seen == [0]


# --- use that fades


def test_use_halves_with_every_half_life():
    assert decayed(100.0, 3600, 3600) == pytest.approx(50)
    assert decayed(100.0, -5, 3600) == 100.0
    assert decayed(100.0, 10**12, 3600) == 0.0
    assert integral(3, 0, 3600) == 0.0
    assert integral(3, -5, 3600) == 0.0
    assert integral(2, 10**9, 3600) == pytest.approx(2 * 3600 / math.log(2))


@pytest.mark.parametrize("seconds", [1, 60, 3600, 86_400])
def test_the_integral_is_the_sum_of_what_fades_second_by_second(seconds):
    half_life, steps = 3600.0, 20_000
    width = seconds / steps
    total = sum(4 * width * 2 ** (-(step + 0.5) * width / half_life) for step in range(steps))
    assert integral(4, seconds, half_life) == pytest.approx(total, rel=1e-6)
    assert integral(4, seconds, half_life) == pytest.approx(
        integral(4, seconds / 2, half_life)
        + decayed(integral(4, seconds / 2, half_life), seconds / 2, half_life)
    )


def test_what_was_held_is_added_to_the_teams_decayed_use(hall):
    PlatformSettings.objects.create(fair_share_half_life_hours=1)
    start = clock.now()
    first, second = hall.claim(2, now=start), hall.claim(3, now=start)
    free(first, start + timedelta(hours=1))
    once = Quota.objects.get()
    assert once.decayed_at == start + timedelta(hours=1)
    assert once.decayed_use == pytest.approx(integral(2, 3600, 3600))
    free(second, start + timedelta(hours=2))
    twice = Quota.objects.get()
    assert twice.decayed_use == pytest.approx(once.decayed_use / 2 + integral(3, 7200, 3600))


# --- the same workload at the same time


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.django_db(transaction=True)
def test_one_workload_that_is_claimed_for_twice_at_once_holds_one_claim(hall, together):
    """As one statement, and in a transaction of the caller's, where an error would end it."""
    workload = hall.workload(2)
    start = threading.Barrier(4)

    def take():
        start.wait(30)
        try:
            with transaction.atomic() if together else nullcontext():
                return claim(workload=workload, quota=hall.quota, units=2, now=clock.now())
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        taken = [result_of(each) for each in [pool.submit(take) for _ in range(4)]]
    assert len({each.pk for each in taken}) == 1
    assert hall.facts()[1] == 2


@pytest.mark.django_db(transaction=True)
def test_releases_that_meet_a_pass_do_not_wait_for_each_other(hall):
    """Both find the pool due while a pass takes it: what they lock then must not be what the other one needs."""
    at = clock.now()
    Pool.objects.update(due_at=at)
    ready = threading.Barrier(3)

    def make_due():
        try:
            with transaction.atomic():
                Quota.objects.first()
                ready.wait(30)
                mark_due(flavor_id=hall.flavor.pk, capacity_type="on-demand", now=at)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        with transaction.atomic():
            Pool.objects.update(due_at=at + timedelta(minutes=1))
            both = [pool.submit(make_due) for _ in range(2)]
            ready.wait(30)
            until_blocked(2)
        for each in both:
            result_of(each)
    assert Pool.objects.get().due_at == at
