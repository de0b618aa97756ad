"""A claim that grows and shrinks with its endpoint: what it takes, gives back, and leaves alone."""

from __future__ import annotations

import pytest

from foundation import clock
from quotas.errors import QuotaExceeded
from quotas.models import Pool, Quota
from quotas.services import resize
from tests.quotas.hall import Hall, cohort_of, counters_are_right, free, held_units, usage_of

pytestmark = pytest.mark.django_db
NOW = clock.now()


@pytest.fixture
def hall():
    return Hall(8)


def resized(held, units, *, lends=False, now=NOW):
    return resize(workload=held.workload, units=units, lends=lends, now=now)


def due():
    return Pool.objects.get().due_at


def test_a_claim_that_grows_beyond_the_own_quota_borrows_the_difference_alone():
    hall, cohort = Hall(0), cohort_of()
    lender, borrower = (hall.member(cohort, nominal=each) for each in (8, 2))
    held = hall.claim(4, quota=borrower)
    before = usage_of(cohort)
    assert resized(held, 6) == 6
    assert (held_units(quota=borrower), usage_of(cohort)[2] - before[2]) == (6, 2)
    assert counters_are_right()
    with pytest.raises(QuotaExceeded, match=r"nothing left to lend|do not fit"):
        resized(held, 11)
    assert (held_units(quota=borrower), held_units(quota=lender)) == (6, 0)
    assert counters_are_right()


def test_what_comes_on_top_may_be_headroom_and_is_given_back_first(hall):
    held = hall.claim(2)
    assert resized(held, 6, lends=True) == 6
    assert resized(held, 3) == 3
    row = Quota.objects.get(pk=hall.quota.pk)
    assert (row.used, row.headroom) == (3, 1)
    assert counters_are_right()


def test_what_is_given_back_sets_off_a_pass_and_the_same_number_none(hall):
    held = hall.claim(4)
    Pool.objects.update(due_at=None)
    assert (resized(held, 4), due()) == (4, None)
    assert (resized(held, 3), due()) == (3, NOW)


def test_who_holds_nothing_any_more_has_nothing_to_resize(hall):
    held = hall.claim(4)
    free(held)
    assert resized(held, 6) == 0
    assert held_units() == 0
