"""Where one period of a budget ends and the next begins, what a week's spending foretells, and what stopped work costs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from budgets.reservations import close
from budgets.services import preview
from budgets.spending import spent_in_period
from budgets.standings import LASTS, NOTHING_SPENT, standing
from costs.ledger.services import record_usage
from costs.models import BudgetPeriod, BudgetReservation, LedgerEntry
from foundation import clock
from tests.controller.looks import look
from tests.costs.budget_world import TAIL, USD, Purse, budget_for
from tests.factories.catalogue import SETUP
from tests.factories.submitted import make_pod
from tests.factories.workloads import put_in
from workloads.states import Phase

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("within_month", "still")]

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def midnight():
    """The one before now, which is where a period ends."""
    return clock.now().replace(hour=0, minute=0, second=0, microsecond=0)


def used(run, *, since, until):
    """A pod of the run that held its GPU for that time; it is in the ledger."""
    pod = make_pod(run, units=1, scheduled_at=since, finished_at=until, created_at=since)
    record_usage(pod, now=until + MINUTE)
    return pod


def under_the_first_of_two(purse, midnight, *, granted):
    """A run with a promise of a budget that has ended by now, and the budget that follows it on the same day."""
    purse.budget = budget_for(
        purse.team,
        1_000,
        period="fixed",
        starts_at=midnight - 9 * DAY,
        ends_at=midnight,
        now=midnight - 5 * DAY,
    )
    run = put_in(purse.run(3_600), Phase.RUNNING)
    period = BudgetPeriod.objects.get(budget=purse.budget)
    BudgetReservation.objects.create(
        period=period,
        workload=run,
        base_micro_usd=0,
        granted_micro_usd=granted * USD,
        opened_at=midnight - 10 * MINUTE,
    )
    following = budget_for(
        purse.team, 2_000, period="fixed", starts_at=midnight, ends_at=midnight + 9 * DAY, now=midnight - DAY
    )
    return run, period, following


def test_what_is_in_the_ledger_from_the_periods_end_on_is_not_of_its_promise(midnight):
    purse = Purse(0)
    run, period, _ = under_the_first_of_two(purse, midnight, granted=300)
    # Four minutes before midnight, and three after it.
    used(run, since=midnight - 4 * MINUTE, until=midnight + 3 * MINUTE)
    close(run, now=midnight + 4 * MINUTE)
    row = BudgetReservation.objects.get(period=period)
    assert row.used_micro_usd == 240 * USD
    assert not LedgerEntry.objects.filter(price=None).exists(), "nothing went beyond the promise"


def test_what_it_used_beyond_its_promise_before_the_end_is_taken_over_in_that_period(midnight):
    purse = Purse(0)
    run, period, following = under_the_first_of_two(purse, midnight, granted=200)
    used(run, since=midnight - 4 * MINUTE, until=midnight + 3 * MINUTE)
    close(run, now=midnight + 4 * MINUTE)
    assert BudgetReservation.objects.get(period=period).used_micro_usd == 200 * USD
    credit = LedgerEntry.objects.get(price=None, account=f"team:{purse.team.slug}")
    assert credit.amount_micro_usd == -40 * USD
    assert credit.started_at < midnight
    assert spent_in_period(purse.team, period, now=midnight + 4 * MINUTE) == 200 * USD
    assert standing(following, now=midnight + 4 * MINUTE).spent == 180 * USD


def test_of_two_budgets_back_to_back_the_first_pays_to_the_end_and_the_second_promises_anew(midnight):
    purse = Purse(0)
    run, period, following = under_the_first_of_two(purse, midnight, granted=665)
    pod = make_pod(run, units=1, scheduled_at=midnight - MINUTE, created_at=midnight - MINUTE)
    record_usage(pod, now=midnight - MINUTE)
    purse.look(midnight - MINUTE / 2)
    assert BudgetReservation.objects.get(workload=run, closed_at=None).period == period
    assert not BudgetPeriod.objects.filter(budget=following).exists()

    purse.look(midnight)
    first, second = BudgetReservation.objects.filter(workload=run).order_by("pk")
    assert (first.closed_at, first.used_micro_usd) == (midnight, 60 * USD)
    assert (second.period.budget, second.base_micro_usd) == (following, 60 * USD)
    assert second.granted_micro_usd == 2_000 * USD
    later = standing(following, now=midnight + MINUTE)
    assert (later.spent, later.reserved, later.left) == (60 * USD, 1_940 * USD, 0)
    assert standing(purse.budget, now=midnight + MINUTE).span is None
    assert spent_in_period(purse.team, period, now=midnight + MINUTE) == 60 * USD


def test_an_interval_between_two_budgets_limits_nothing(midnight):
    purse = Purse(0)
    purse.budget = budget_for(
        purse.team, 1, period="fixed", starts_at=midnight - 9 * DAY, ends_at=midnight, now=midnight - DAY
    )
    budget_for(purse.team, 1, period="fixed", starts_at=midnight + 2 * DAY, ends_at=midnight + 3 * DAY)
    assert look(purse.run(600)).admitted
    assert not BudgetReservation.objects.exists()


def spent_each_day(purse, midnight, days, *, minutes):
    """So many minutes of a GPU at noon of each of so many days before today, the last of them yesterday."""
    for number in range(1, days + 1):
        run = put_in(purse.run(600), Phase.SUCCEEDED)
        noon = midnight - number * DAY + DAY / 2
        used(run, since=noon, until=noon + minutes * MINUTE)


def test_the_week_foretells_the_day_by_the_mean_of_its_seven_days(midnight):
    purse = Purse(0)
    spent_each_day(purse, midnight, 6, minutes=7)
    span = {"period": "fixed", "starts_at": midnight - 20 * DAY, "ends_at": midnight + 60 * DAY}
    purse.budget = budget_for(purse.team, 420 * 16, **span)
    now = midnight + DAY / 2
    told = standing(purse.budget, now=now)
    assert told.spent == 6 * 420 * USD
    # $2,520 in seven days, $4,200 are left: eleven days and two thirds.
    assert told.by_week.runs_out_at == now + timedelta(seconds=4_200 * 7 * 86_400 // 2_520)


def test_what_was_spent_before_the_week_foretells_nothing(midnight):
    purse = Purse(0)
    run = put_in(purse.run(600), Phase.SUCCEEDED)
    then = midnight - 7 * DAY
    used(run, since=then, until=then + 7 * MINUTE)
    span = {"period": "fixed", "starts_at": midnight - 20 * DAY, "ends_at": midnight + 60 * DAY}
    purse.budget = budget_for(purse.team, 500, **span)
    told = standing(purse.budget, now=midnight + DAY / 2)
    assert (told.spent, told.by_week.unknown_because) == (420 * USD, NOTHING_SPENT)
    # A day later than that, and it is in the week.
    run = put_in(purse.run(600), Phase.SUCCEEDED)
    used(run, since=then + DAY, until=then + DAY + MINUTE)
    told = standing(purse.budget, now=midnight + DAY / 2)
    assert told.by_week.runs_out_at == midnight + DAY / 2 + timedelta(seconds=20 * 7 * 86_400 // 60)


def test_a_forecast_beyond_the_period_says_that_it_lasts(midnight):
    purse = Purse(0)
    spent_each_day(purse, midnight, 6, minutes=7)
    span = {"period": "fixed", "starts_at": midnight - 20 * DAY, "ends_at": midnight + 11 * DAY}
    purse.budget = budget_for(purse.team, 420 * 16, **span)
    told = standing(purse.budget, now=midnight + DAY / 2)
    assert (told.by_week.runs_out_at, told.by_week.unknown_because) == (None, LASTS)


@pytest.mark.parametrize("policy", ["stop", "alert"])
def test_the_preview_says_when_an_endpoint_would_stop_and_what_it_still_costs(policy):
    purse = Purse(10_000, endpoints=policy)
    endpoint = purse.run(None, kind="endpoint")
    assert look(endpoint).admitted
    assert purse.granted(endpoint) == 3_600
    now = clock.now().replace(microsecond=0)
    said = preview(
        team=purse.team, budget=purse.budget, values={"amount_micro_usd": 600 * USD}, actor=SETUP, now=now
    )
    expected = [] if policy == "alert" else [(endpoint, now + timedelta(seconds=600 - TAIL))]
    assert [(each.workload, each.at) for each in said.stopped] == expected
    # Ten minutes are promised to it either way, and it ends within them where it is stopped.
    assert (said.standing.reserved, said.standing.left) == (600 * USD, 0)
    assert purse.granted(endpoint) == 3_600, "a preview changes nothing"
