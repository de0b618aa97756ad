from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation import clock
from tests.factories.workloads import age_lock, make_workload, put_in
from workloads.errors import StaleWorkload
from workloads.locks import LOCK_SECONDS, RENEW_SECONDS, due, hold, lock, renew, reread, unlock
from workloads.models import Workload
from workloads.services import (
    BACKOFF_SECONDS_MAX,
    backoff_seconds,
    change_generation,
    clear_up,
    note_call,
    set_desired,
    transition,
    wake,
)
from workloads.states import Desired, Phase, Reason

pytestmark = pytest.mark.django_db


@pytest.fixture
def now():
    return clock.now()


def due_at(workload):
    return Workload.objects.get(pk=workload.pk).next_reconcile_at


def locked(workload, now):
    found = lock(public_id=workload.public_id, now=now)
    assert found is not None
    return found


def test_a_row_that_is_not_due_is_not_looked_at(now):
    workload = make_workload(now=now + timedelta(minutes=1))
    assert lock(public_id=workload.public_id, now=now) is None
    Workload.objects.update(next_reconcile_at=None)
    assert lock(public_id=workload.public_id, now=now) is None


def test_given_back_it_is_due_when_its_holder_says(now):
    workload = make_workload(now=now)
    assert not unlock(locked(workload, now), next_at=now + timedelta(seconds=42), failed=False)
    assert due_at(workload) == now + timedelta(seconds=42)
    fresh = Workload.objects.get()
    assert (fresh.lock_token, fresh.lock_expires_at) == (None, None)


def test_of_many_calls_to_one_that_sleeps_the_first_is_noted(now):
    workload = make_workload(now=now)
    at = now + timedelta(hours=1)
    assert note_call(public_id=workload.public_id, now=at) == workload
    for seconds in (0, 1, 2.9):
        assert note_call(public_id=workload.public_id, now=at + timedelta(seconds=seconds)) is None
    assert Workload.objects.get().called_at == at
    later = at + timedelta(seconds=3)
    assert note_call(public_id=workload.public_id, now=later) == workload
    assert Workload.objects.get().called_at == later


def test_what_has_ended_is_called_in_vain(now):
    workload = put_in(make_workload(now=now), Phase.FAILED)
    assert note_call(public_id=workload.public_id, now=now) is None


@pytest.mark.parametrize("how", ["wake", "wish", "change"])
def test_a_wake_up_during_a_look_is_never_lost(now, how):
    workload = make_workload(now=now)
    mine = locked(workload, now)
    at = now + timedelta(seconds=3)
    if how == "wake":
        wake(workload_ids=[workload.pk], now=at)
    elif how == "wish":
        set_desired(workload, desired=Desired.CANCEL, now=at)
    else:
        change_generation(workload, now=at)
    assert lock(public_id=workload.public_id, now=at) is None, "one looker at a time"
    assert unlock(mine, next_at=None, failed=False), "the holder is told to look again"
    assert due_at(workload) == at
    assert lock(public_id=workload.public_id, now=at) is not None


def test_what_woke_it_before_its_end_does_not_wake_it_after_that(now):
    """Else its objects would be collected at once, by chance, and not after their time."""
    workload = put_in(make_workload(now=now), Phase.RUNNING)
    Workload.objects.filter(pk=workload.pk).update(next_reconcile_at=now)
    mine = locked(workload, now)
    wake(workload_ids=[workload.pk], now=now)
    transition(
        mine, to=Phase.SUCCEEDED, reason=Reason.COMPLETED, message="Completed.", actor="reconciler", now=now
    )
    assert not unlock(mine, next_at=None, failed=False)
    assert due_at(workload) is None
    clear_up(workload, now=now)
    assert due_at(workload) == now


def test_a_second_wake_up_does_not_push_the_first_one_back(now):
    workload = make_workload(now=now)
    wake(workload_ids=[workload.pk], now=now + timedelta(hours=1))
    assert due_at(workload) == now


def test_what_has_ended_is_not_woken(now):
    workload = put_in(make_workload(), Phase.FAILED, next_reconcile_at=None)
    wake(workload_ids=[workload.pk], now=now)
    assert due_at(workload) is None


def test_the_row_of_a_dead_holder_is_due_again_and_its_old_holder_stale(now):
    workload = make_workload(now=now)
    old = locked(workload, now)
    age_lock(old, seconds=LOCK_SECONDS - 1)
    assert lock(public_id=workload.public_id, now=now) is None
    age_lock(old, seconds=1)
    new = locked(workload, now)
    with pytest.raises(StaleWorkload):
        hold(old)
    hold(new)
    with pytest.raises(StaleWorkload):
        reread(old)
    with pytest.raises(StaleWorkload):
        hold(old)
    assert not unlock(old, next_at=None, failed=False), "it has nothing to give back any more"
    hold(new)
    assert Workload.objects.get().lock_token == new.lock_token


def test_who_stalls_between_locking_and_reading_does_not_pass_for_the_next_holder(now):
    workload = make_workload(now=now)
    others = []

    def stall(execute, sql, params, many, context):
        if sql.startswith("SELECT") and not others:
            others.append(None)
            age_lock(workload, seconds=LOCK_SECONDS)
            others[0] = locked(workload, now)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(stall):
        assert lock(public_id=workload.public_id, now=now) is None
    hold(others[0])


@pytest.mark.parametrize("minutes", [-10, 10])
def test_a_process_whose_clock_is_wrong_neither_takes_a_lock_that_is_held_nor_keeps_one(now, minutes):
    workload = make_workload(now=now - timedelta(hours=1))
    wrong = now + timedelta(minutes=minutes)
    locked(workload, now)
    age_lock(workload, seconds=LOCK_SECONDS - 1)
    assert lock(public_id=workload.public_id, now=wrong) is None
    assert not due(by=wrong).exists()
    age_lock(workload, seconds=1)
    locked(workload, wrong)
    assert lock(public_id=workload.public_id, now=now) is None
    age_lock(workload, seconds=LOCK_SECONDS)
    locked(workload, now)


@pytest.mark.parametrize("minutes", [-10, 10])
def test_a_process_whose_clock_is_wrong_finds_the_row_of_a_dead_holder_when_the_others_do(now, minutes):
    workload = make_workload(now=now - timedelta(hours=1))
    wrong = now + timedelta(minutes=minutes)
    locked(workload, now)
    age_lock(workload, seconds=LOCK_SECONDS)
    assert [*due(by=wrong)] == [*due(by=now)] == [workload]


@pytest.mark.parametrize("woken", [False, True])
def test_a_renewed_lock_keeps_others_away_and_no_wake_up_from_its_holder(now, woken):
    workload = make_workload(now=now)
    mine = locked(workload, now)
    at = now + timedelta(seconds=LOCK_SECONDS / 2)
    if woken:
        wake(workload_ids=[workload.pk], now=at)
    age_lock(mine, seconds=LOCK_SECONDS - 1)
    renew(mine)
    age_lock(mine, seconds=LOCK_SECONDS / 2)
    assert lock(public_id=workload.public_id, now=now + timedelta(hours=1)) is None
    assert unlock(mine, next_at=now + timedelta(days=1), failed=False) == woken
    assert due_at(workload) == (at if woken else now + timedelta(days=1))


def test_failures_in_a_row_are_counted_and_forgotten_by_a_success(now):
    workload = make_workload(now=now)
    for failed, count in ((True, 1), (True, 2), (False, 0)):
        unlock(locked(workload, now), next_at=now, failed=failed)
        workload.refresh_from_db()
        assert workload.failures == count


@given(st.integers(0, 10_000))
def test_the_back_off_grows_from_two_seconds_to_its_end(failures):
    assert 2 <= backoff_seconds(failures) <= backoff_seconds(failures + 1) <= BACKOFF_SECONDS_MAX


@settings(max_examples=40)
@given(offsets=st.lists(st.integers(0, LOCK_SECONDS - 1), max_size=4), rest=st.none() | st.integers(0, 600))
def test_whatever_comes_during_a_look_the_row_is_due_no_later_than_its_first_wake_up(offsets, rest):
    now = clock.now()
    workload = make_workload(now=now)
    mine = locked(workload, now)
    for offset in offsets:
        wake(workload_ids=[workload.pk], now=now + timedelta(seconds=offset))
    again = unlock(mine, next_at=None if rest is None else now + timedelta(seconds=rest), failed=False)
    assert again == bool(offsets)
    if offsets:
        assert due_at(workload) == now + timedelta(seconds=min(offsets))


def test_a_fresh_lock_is_renewed_without_a_statement(now, django_assert_num_queries):
    mine = locked(make_workload(now=now), now)
    with django_assert_num_queries(0):
        renew(mine)
    age_lock(mine, seconds=RENEW_SECONDS)
    with django_assert_num_queries(1):
        renew(mine)
        renew(mine)


def test_a_lock_that_was_taken_over_cannot_be_renewed(now):
    workload = make_workload(now=now)
    old = locked(workload, now)
    age_lock(old, seconds=LOCK_SECONDS)
    locked(workload, now)
    with pytest.raises(StaleWorkload):
        renew(old)
