"""A budget on a cluster: the run ends inside it, is suspended, and goes on when there is money again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from budgets.looks import look_at_budgets
from budgets.services import change_budget, give_on_top
from budgets.spending import spent_in_period
from costs.models import BudgetPeriod, BudgetReservation, LedgerEntry
from foundation import clock
from foundation.models import PlatformSettings
from tests.costs.budget_world import USD, budget_for
from tests.factories.catalogue import SETUP

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("client", ["devcluster"], indirect=True),
]


@pytest.fixture
def quick(bench):
    """The bench with short rests, so that a budget of some seconds is one."""
    PlatformSettings.objects.update_or_create(pk=1, defaults={"grace_seconds": 2, "minimum_run_seconds": 1})
    return bench


def spent(bench):
    period = BudgetPeriod.objects.latest("id")
    return spent_in_period(bench.team, period, now=clock.now())


def test_the_run_ends_inside_its_budget_by_itself_and_is_resumable(quick):
    bench = quick
    budget = budget_for(bench.team, 30)  # two GPUs at a dollar a second each: fifteen seconds
    run = bench.running(env={"BED_RUN_SECONDS": 600})
    assert BudgetReservation.objects.get().granted_micro_usd == 30 * USD
    # Only what is due is looked at: the row says when.
    run.refresh_from_db()
    assert run.next_reconcile_at <= clock.now() + timedelta(seconds=15)
    bench.until(run, lambda run: run.phase == "Stopping", 40)
    assert run.reason == "BudgetExhausted"
    assert "$30.00" in run.message
    bench.until(run, lambda run: run.phase == "Suspended", 40)
    assert run.reason == "BudgetExhausted"
    assert 0 < spent(bench) <= 30 * USD
    assert BudgetReservation.objects.get().closed_at is not None
    bench.resume(run)
    bench.until(run, lambda run: run.reason == "WaitingForBudget")
    change_budget(budget=budget, changes={"amount_micro_usd": 2_000 * USD}, actor=SETUP, now=clock.now())
    bench.until(run, lambda run: run.phase == "Running")
    assert run.attempt_number == 2


def test_what_stopping_takes_beyond_the_promise_is_the_platforms(quick):
    bench = quick
    budget = budget_for(bench.team, 5_000)
    run = bench.running(env={"BED_RUN_SECONDS": 600, "BED_STOP_SECONDS": 2})
    began = run.attempts.get().started_at
    # The amount is cut to what is spent: the promise is nothing, whatever stopping takes.
    change_budget(budget=budget, changes={"amount_micro_usd": 1 * USD}, actor=SETUP, now=clock.now())
    bench.until(run, lambda run: run.phase == "Suspended", 40)
    assert run.reason == "BudgetExhausted"
    ended = run.attempts.get().ended_at
    excess = LedgerEntry.objects.filter(account="platform:adjustment").get()
    assert excess.amount_micro_usd > 0
    assert excess.reason
    held = int((ended - began).total_seconds()) * 2 * USD
    assert spent(bench) + excess.amount_micro_usd == held


def test_stopping_begins_when_the_pod_is_asked_to_and_not_when_its_grace_period_ends(quick):
    bench = quick
    grace = 300
    PlatformSettings.objects.update(grace_seconds=grace)
    budget = budget_for(bench.team, 5_000)
    run = bench.running(env={"BED_RUN_SECONDS": 600, "BED_STOP_SECONDS": 2})
    change_budget(budget=budget, changes={"amount_micro_usd": 1 * USD}, actor=SETUP, now=clock.now())
    bench.until(run, lambda run: run.phase == "Suspended", 40)
    (line,) = LedgerEntry.objects.filter(account__startswith="team:", phase="stopping")
    pod = run.pods.get()
    assert (line.started_at, line.ended_at) == (pod.deletion_asked_at, pod.ended_at.replace(microsecond=0))
    assert 1 <= (line.ended_at - line.started_at).total_seconds() < grace


def test_a_promise_is_extended_from_what_is_given_on_top(quick):
    bench = quick
    budget = budget_for(bench.team, 60)
    run = bench.running(env={"BED_RUN_SECONDS": 600})
    give_on_top(
        budget=budget,
        amount_micro_usd=5_000 * USD,
        reason="a paper",
        expires_at=None,
        actor=SETUP,
        now=clock.now(),
    )
    BudgetReservation.objects.update(granted_micro_usd=6 * USD)
    BudgetPeriod.objects.update(committed_micro_usd=6 * USD)
    bench.turn(run)
    assert run.phase == "Running"
    assert BudgetReservation.objects.get().granted_micro_usd > 600 * USD


def test_a_look_promises_money_to_what_ran_before_the_budget_had_a_price_for_it(quick):
    bench = quick
    run = bench.running(env={"BED_RUN_SECONDS": 600})
    budget_for(bench.team, 5_000)
    BudgetReservation.objects.all().delete()
    look_at_budgets(now=clock.now())
    assert BudgetReservation.objects.get().workload_id == run.pk
