"""Budgets while others change them at the same time: no promise is lost, closed twice, or closed without its account."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connections, transaction

from budgets.looks import look_at_budgets
from budgets.periods import held
from budgets.reservations import close_all, opened
from budgets.stopping import end_of_money
from costs.models import BudgetReservation, LedgerEntry
from foundation import clock, leases
from tests.controller.looks import look
from tests.costs.budget_world import USD, Purse, budget_for
from tests.factories.catalogue import make_quota
from tests.factories.leases import take_over
from tests.factories.submitted import make_pod
from tests.factories.teams import make_member, make_team
from tests.factories.workloads import make_workload
from tests.waiting import until_blocked

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("within_month", "still")]


def in_a_thread(action, *args, **kwargs):
    """With a connection of its own, which is closed at the end."""
    try:
        return action(*args, **kwargs)
    finally:
        connections.close_all()


def test_what_a_budget_promises_that_is_made_during_a_look_stays_promised():
    purse = Purse(1_000)
    other = make_team("speech")
    make_quota(other, purse.flavor, 8)
    run = make_workload(
        team=other, owner=make_member(team=other).user, flavor=purse.flavor, time_limit_seconds=600
    )
    assert look(run).admitted
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            held().get(pk=purse.budget.pk)
            looking = threads.submit(in_a_thread, look_at_budgets, now=clock.now())
            until_blocked(unless=looking)
            # It has read which budgets there are, and waits for the first of them.
            with ThreadPoolExecutor(1) as others:
                others.submit(in_a_thread, budget_for, other, 1_000).result()
        assert looking.result() == 1
    assert purse.granted(run) == 665


def by_the_look(purse, run, over):
    look_at_budgets(now=over)


def by_a_look_at_the_run(purse, run, over):
    assert end_of_money(run, None, now=over) is None


def by_a_change_of_the_period(purse, run, over):
    purse.change(now=over - timedelta(hours=1), period="month", starts_at=None, ends_at=None)


@pytest.mark.parametrize("closed", [by_the_look, by_a_look_at_the_run, by_a_change_of_the_period])
def test_whatever_closes_a_promise_takes_over_what_was_used_beyond_it(closed):
    today = clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
    ends_at = today + timedelta(days=2)
    purse = Purse(5_000, period="fixed", starts_at=today - timedelta(days=1), ends_at=ends_at)
    run = purse.run(3600)
    assert look(run).admitted
    BudgetReservation.objects.update(granted_micro_usd=100 * USD)
    make_pod(run, units=1, minutes=5)
    closed(purse, run, ends_at + timedelta(seconds=1))
    row = BudgetReservation.objects.earliest("pk")
    assert row.closed_at is not None
    assert row.closed_at <= ends_at
    assert row.used_micro_usd == 100 * USD
    lines = {each.account: each.amount_micro_usd for each in LedgerEntry.objects.filter(price=None)}
    assert lines == {f"team:{purse.team.slug}": -200 * USD, "platform:adjustment": 200 * USD}


def test_a_look_that_was_overtaken_closes_no_promise():
    today = clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
    ends_at = today + timedelta(days=2)
    purse = Purse(5_000, period="fixed", starts_at=today, ends_at=ends_at)
    run = purse.run(600)
    assert look(run).admitted
    with leases.periodic("budgets", seconds=25) as ours:
        assert ours
        take_over("budgets")
        with pytest.raises(leases.LeaseLostError):
            look_at_budgets(now=ends_at + timedelta(seconds=1))
    assert purse.granted(run) == 665


def test_two_who_close_the_same_promise_take_its_excess_over_once():
    """The last pod's end, and the first look at the team's next budget, each of which holds another budget's row."""
    today = clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
    ends_at = today + timedelta(days=2)
    purse = Purse(5_000, period="fixed", starts_at=today - timedelta(days=1), ends_at=ends_at)
    run = purse.run(3600)
    assert look(run).admitted
    BudgetReservation.objects.update(granted_micro_usd=100 * USD)
    make_pod(run, units=1, minutes=5)
    over = ends_at + timedelta(seconds=1)
    following = budget_for(
        purse.team, 5_000, period="fixed", starts_at=ends_at, ends_at=ends_at + timedelta(days=9)
    )
    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            opened(held().get(pk=following.pk), now=over)
            closing = threads.submit(in_a_thread, end_closed, purse.budget, over)
            until_blocked(unless=closing)
        closing.result()
    assert LedgerEntry.objects.filter(price=None, amount_micro_usd=200 * USD).count() == 1


def end_closed(budget, now):
    with transaction.atomic():
        held().get(pk=budget.pk)
        close_all(BudgetReservation.objects.filter(period__budget=budget), now=now)
