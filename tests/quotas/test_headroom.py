"""Headroom of endpoints: lent to the own team's runs, and back."""

from __future__ import annotations

import pytest

from foundation import clock
from quotas.errors import QuotaExceeded
from quotas.models import Claim, ClaimPurpose, ClaimState, Pool, Quota
from quotas.services import activate, release, set_firm
from tests.quotas.hall import Hall, counters_are_right, free, held_units

pytestmark = pytest.mark.django_db


@pytest.fixture
def hall():
    return Hall(8)


def counters(hall):
    """used, headroom, lent_headroom; right as the claims are."""
    assert counters_are_right()
    row = Quota.objects.get(pk=hall.quota.pk)
    return row.used, row.headroom, row.lent_headroom


def test_an_endpoint_claims_its_maximum_and_its_team_borrows_what_is_idle_and_gives_it_back(hall):
    hall.claim(8, headroom=6)
    with pytest.raises(QuotaExceeded):
        hall.claim(1)
    lent = hall.claim(4, lent=True)
    hall.claim(2, lent=True)
    with pytest.raises(QuotaExceeded):
        hall.claim(1, lent=True)
    assert counters(hall) == (8, 6, 6)
    free(lent)
    assert counters(hall) == (8, 6, 2)


def test_runs_borrow_headroom_while_the_team_is_over_its_quota(hall):
    hall.claim(8, headroom=6)
    hall.limit(nominal=2)
    hall.claim(3, lent=True)
    assert counters(hall) == (8, 6, 3)


def test_many_may_be_lent_headroom_at_once(hall):
    hall.claim(8, headroom=4)
    hall.many(1, 1, lent=True)
    with pytest.raises(QuotaExceeded):
        hall.many(1, 2, lent=True)
    assert counters(hall) == (8, 4, 2)


def test_an_endpoint_grows_into_headroom_that_nobody_borrowed(hall):
    endpoint = hall.claim(8, headroom=6).workload
    hall.claim(4, lent=True)
    assert set_firm(workload=endpoint, units=4, now=clock.now()) == 0
    assert counters(hall) == (8, 4, 4)


def test_what_is_lent_must_come_back_before_it_is_firm(hall):
    endpoint = hall.claim(8, headroom=6).workload
    lent = hall.claim(4, lent=True)
    assert set_firm(workload=endpoint, units=7, now=clock.now()) == 3
    assert counters(hall) == (8, 4, 4)
    free(lent)
    assert set_firm(workload=endpoint, units=7, now=clock.now()) == 0
    assert counters(hall) == (8, 1, 0)


def test_an_endpoint_that_shrinks_has_more_to_lend_and_its_pool_is_due(hall):
    endpoint = hall.claim(8, headroom=0).workload
    Pool.objects.update(due_at=None)
    assert set_firm(workload=endpoint, units=3, now=clock.now()) == 0
    assert counters(hall) == (8, 5, 0)
    assert Pool.objects.get().due_at is not None


def test_what_is_firm_is_never_more_than_the_claim_nor_less_than_nothing(hall):
    endpoint = hall.claim(4, headroom=2).workload
    assert set_firm(workload=endpoint, units=100, now=clock.now()) == 0
    assert counters(hall) == (4, 0, 0)
    assert set_firm(workload=endpoint, units=-100, now=clock.now()) == 0
    assert counters(hall) == (4, 4, 0)


def test_nothing_is_written_while_nothing_changes(hall, django_assert_num_queries):
    endpoint = hall.claim(4, headroom=2).workload
    with django_assert_num_queries(1):
        assert set_firm(workload=endpoint, units=2, now=clock.now()) == 0


def test_who_holds_nothing_or_what_is_lent_has_nothing_that_is_firm(hall):
    hall.claim(4, headroom=4)
    lent = hall.claim(2, lent=True).workload
    assert set_firm(workload=lent, units=2, now=clock.now()) == 0
    assert set_firm(workload=hall.workload(), units=2, now=clock.now()) == 0
    assert counters(hall) == (4, 4, 2)


# --- an endpoint that goes while its headroom is lent


def test_runs_on_the_headroom_of_an_endpoint_that_goes_hold_units_of_their_own(hall):
    endpoint = hall.claim(8, headroom=6)
    first, second = hall.claim(2, lent=True), hall.claim(3, lent=True)
    free(endpoint)
    assert counters(hall) == (5, 0, 0)
    for each in (first, second):
        each.refresh_from_db()
        assert not each.lent
    hall.claim(3)
    with pytest.raises(QuotaExceeded):
        hall.claim(1)


def test_a_run_that_keeps_a_part_of_its_headroom_holds_the_rest_itself(hall):
    """Two endpoints lend 3 and 5 to runs of 4 and 4; the first one goes. Nobody ever holds more than the quota."""
    first, second = hall.claim(3, headroom=3), hall.claim(5, headroom=5)
    runs = [hall.claim(4, lent=True), hall.claim(4, lent=True)]
    activate(workload=runs[0].workload, now=clock.now())
    free(first)
    assert counters(hall) == (8, 5, 5)
    split = Claim.objects.filter(workload=runs[0].workload).order_by("purpose")
    assert [(each.purpose, each.units, each.lent, each.state) for each in split] == [
        (ClaimPurpose.SURGE, 3, False, ClaimState.ACTIVE),
        (ClaimPurpose.WORKLOAD, 1, True, ClaimState.ACTIVE),
    ]
    assert held_units(workload=runs[0].workload) == 4
    # The second endpoint needs its place; then it shrinks and goes too.
    assert set_firm(workload=second.workload, units=1, now=clock.now()) == 1
    free(second)
    assert counters(hall) == (8, 0, 0)
    assert held_units(workload=runs[0].workload) == 4
    for each in runs:
        assert release(workload=each.workload, now=clock.now())
    assert counters(hall) == (0, 0, 0)


def test_a_part_is_added_to_what_a_run_holds_itself_already(hall):
    endpoints = [hall.claim(2, headroom=2) for _ in range(4)]
    run = hall.claim(8, lent=True)
    for index, endpoint in enumerate(endpoints):
        free(endpoint)
        assert counters(hall) == (8, 6 - 2 * index, 6 - 2 * index)
        assert held_units(workload=run.workload) == 8
    assert free(run)
    assert counters(hall) == (0, 0, 0)
