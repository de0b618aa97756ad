"""Budgets at admission: what is promised, who waits, and that nothing is promised twice."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import IntegrityError, connections, transaction

from budgets.errors import BudgetExceeded
from budgets.reservations import Promise, close, commit, promise
from controller.admission import scheduler
from costs.models import Budget, BudgetOverride, BudgetPeriod, BudgetReservation
from costs.prices.services import set_price
from foundation import clock
from quotas import snapshots
from quotas.decisions import replay
from quotas.models import Claim, Decision, Pool
from tests.controller.looks import look
from tests.costs.budget_world import TAIL, USD, Purse, next_month
from tests.factories.catalogue import SETUP
from workloads.states import Phase, Reason

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("within_month")]


def test_a_run_is_promised_its_time_limit_and_its_stop():
    purse = Purse(1_000)
    run = purse.run(600, units=1)
    assert look(run).admitted
    assert purse.granted(run) == 600 + TAIL
    assert purse.left == 1_000 - 600 - TAIL


def test_one_for_whose_time_limit_less_is_left_is_promised_what_is_left():
    purse = Purse(500)
    run = purse.run(600)
    assert look(run).admitted
    assert (purse.granted(run), purse.left) == (500, 0)


def test_one_for_whose_least_too_little_is_left_waits_and_is_told_how_much_and_until_when():
    purse = Purse(1_000)
    first, second = purse.run(600), purse.run(600)
    look(first)
    verdict = look(second)
    assert (second.phase, second.reason) == (Phase.QUEUED, Reason.WAITING_FOR_BUDGET)
    until = next_month(clock.now())
    assert verdict.message == (
        f"Team vision has $335.00 left of its budget of $1,000.00; this run needs $365.00 to start and $665.00 for its "
        f"time limit. It starts when others give enough back, or on {until:%Y-%m-%d %H:%M} UTC, when the budget begins anew."
    )
    assert {fact.fact: fact.value for fact in verdict.evidence}["budget_left"] == 335 * USD
    decision = Decision.objects.filter(workload=second).get()
    assert replay(decision).same


def test_those_behind_that_need_less_are_not_held_up():
    purse = Purse(1_000)
    rows = [purse.run(600), purse.run(600), purse.run(200)]
    for row in rows:
        look(row)
    assert [row.phase for row in rows] == ["Admitted", "Queued", "Admitted"]


def test_what_is_given_back_lets_the_next_one_start_by_itself():
    purse = Purse(1_000)
    first, second = purse.run(600), purse.run(600)
    look(first)
    look(second)
    Pool.objects.update(due_at=None)
    with transaction.atomic():
        close(first, now=clock.now())
    pool = Pool.objects.get()
    assert pool.due_at is not None
    scheduler.pass_over(pool, now=clock.now() + timedelta(seconds=1))
    second.refresh_from_db()
    assert second.phase == "Admitted"


def test_the_pool_is_due_again_when_the_month_begins():
    purse = Purse(500)
    look(purse.run(600))
    look(purse.run(600))
    begins = next_month(clock.now())
    pool = Pool.objects.get()
    Pool.objects.update(due_at=begins - timedelta(seconds=10))
    scheduler.pass_over(pool, now=begins - timedelta(seconds=10))
    assert Pool.objects.get().due_at == begins


def test_what_has_no_price_needs_no_money():
    purse = Purse(1)
    run = purse.run(600, capacity_type="on-demand")
    snapshot = snapshots.pool_snapshot_of(flavor=purse.flavor, capacity_type="spot", now=clock.now())
    assert snapshot.prices == ()
    assert not look(run).admitted


def test_of_two_pools_at_once_only_one_is_promised_the_last_money():
    purse = Purse(400)
    runs = [purse.run(300, units=1) for _ in range(16)]
    start = threading.Barrier(16)

    def take(run):
        start.wait(60)
        try:
            with transaction.atomic():
                promise([Promise(run.pk, run.team_id, 30 * USD, 30 * USD)], now=clock.now())
            return True
        except BudgetExceeded:
            return False
        finally:
            connections.close_all()

    with ThreadPoolExecutor(16) as threads:
        taken = list(threads.map(take, runs))
    assert sum(taken) == 13
    assert purse.left == 400 - 13 * 30
    assert BudgetReservation.objects.count() == 13


def test_the_database_refuses_to_commit_more_than_there_is():
    Purse(100)
    with pytest.raises(IntegrityError, match="budget_not_overcommitted"), transaction.atomic():
        BudgetPeriod.objects.update(committed_micro_usd=100 * USD + 1)


@pytest.mark.parametrize("more", [1, 500 * USD])
def test_the_database_refuses_what_a_fault_would_promise_beyond_the_amount(more):
    purse = Purse(1_000)
    look(purse.run(600))
    period = purse.period
    with pytest.raises(IntegrityError, match="budget_not_overcommitted"), transaction.atomic():
        commit(period, 1_000 * USD + more, clock.now())
    assert purse.left == 335


def test_what_a_cut_has_left_above_the_amount_stays_so_and_grows_by_nothing():
    purse = Purse(1_000)
    run = purse.run(600)
    look(run)
    BudgetOverride.objects.create(
        budget=purse.budget, amount_micro_usd=1, reason="r", actor="a", created_at=clock.now(),
        expires_at=next_month(clock.now()),
    )  # fmt: skip
    Budget.objects.update(amount_micro_usd=100 * USD)
    purse.look()
    period = purse.period
    assert (period.ceiling_micro_usd, period.committed_micro_usd) == (100 * USD + 1, 665 * USD)
    assert period.grandfathered_micro_usd == 665 * USD
    with pytest.raises(IntegrityError, match="budget_not_overcommitted"), transaction.atomic():
        commit(period, 665 * USD + 1, clock.now())
    with transaction.atomic():
        close(run, now=clock.now())
    assert (purse.period.committed_micro_usd, purse.period.grandfathered_micro_usd) == (0, 0)


def test_a_team_without_a_budget_is_judged_and_stored_without_prices():
    purse = Purse(0)
    run = purse.run(600)
    assert look(run).admitted
    assert not BudgetReservation.objects.exists()
    assert Claim.objects.count() == 1
    snapshot = snapshots.pool_snapshot_of(flavor=purse.flavor, capacity_type="on-demand", now=clock.now())
    assert (snapshot.prices, snapshot.teams[0].budget) == ((), None)


def test_a_price_that_is_to_come_counts_from_then_on():
    purse = Purse(2_000)
    now = clock.now().replace(microsecond=0)
    set_price(
        card="a100-40gb", capacity_type="on-demand", micro_usd_per_card_hour=7_200_000_000,
        valid_from=now + timedelta(seconds=300), reason="r", actor=SETUP, now=now,
    )  # fmt: skip
    run = purse.run(600)
    assert look(run).admitted
    assert purse.granted(run) == pytest.approx(300 + 2 * (300 + TAIL), abs=2)
