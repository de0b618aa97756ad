"""Budgets over time: cut, renewed by the month, given on top of, told of, and looked at by themselves."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from budgets.reservations import close
from budgets.services import create_budget, delete_budget, preview
from budgets.standings import LASTS, NOTHING_RUNS, NOTHING_SPENT, standing
from budgets.stopping import end_of_money
from budgets.tasks import look_at_all_budgets
from costs.ledger.services import record_usage
from costs.models import Budget, BudgetReservation, LedgerEntry
from foundation import clock
from foundation.errors import Invalid
from notices.models import Delivery, NoticeSubscription, OutboxEvent
from notices.outbox import hand_on
from quotas.models import Pool
from quotas.snapshots import pool_snapshot_of
from teams.models import AuditEvent
from tests.controller.looks import look
from tests.costs.budget_world import TAIL, USD, Purse, midnight, next_month
from tests.factories.catalogue import SETUP
from tests.factories.submitted import make_pod
from tests.factories.teams import make_team
from workloads.models import Workload
from workloads.states import Phase, Reason

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("within_month")]


def ran(purse, minutes, *, units=1):
    """One that ended just now, after so many minutes."""
    run = purse.run(units=units)
    pod = make_pod(run, units=units, minutes=minutes)
    record_usage(pod, now=clock.now())
    Workload.objects.filter(pk=run.pk).update(
        phase=Phase.SUCCEEDED.value, reason="Completed", finished_at=clock.now()
    )
    return run


@pytest.mark.parametrize(
    ("values", "field", "code"),
    [
        ({"amount_micro_usd": 0}, "amount_micro_usd", "out_of_range"),
        ({"amount_micro_usd": -5}, "amount_micro_usd", "out_of_range"),
        ({"warn_percents": [0]}, "warn_percents", "out_of_range"),
        ({"period": "fixed"}, "starts_on", "required"),
        ({"period": "fixed", "starts_at": midnight((2030, 2, 1)), "ends_at": midnight((2030, 1, 1))},
         "ends_on", "ends_before_it_begins"),
        ({"period": "fixed", "starts_at": midnight((2020, 1, 1)), "ends_at": midnight((2020, 2, 1))}, "ends_on", "over"),
        ({"starts_at": midnight((2030, 1, 1))}, "starts_on", "not_fixed"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_its_field(values, field, code):
    team = make_team()
    with pytest.raises(Invalid) as caught:
        create_budget(
            team=team,
            values={"amount_micro_usd": USD, "period": "month"} | values,
            actor=SETUP,
            now=clock.now(),
        )
    assert [(error.field, error.code) for error in caught.value.errors] == [(field, code)]


def test_a_second_budget_at_a_time_is_refused_by_the_service_and_by_the_database():
    purse = Purse(10)
    with pytest.raises(Invalid, match="has a budget for each month already"):
        create_budget(team=purse.team, values={"amount_micro_usd": USD}, actor=SETUP, now=clock.now())
    now = clock.now()
    rows = {"team": purse.team, "amount_micro_usd": 1, "created_at": now, "changed_at": now}
    with pytest.raises(IntegrityError, match="budget_no_overlap"), transaction.atomic():
        Budget.objects.create(period="fixed", starts_at=now, ends_at=now + timedelta(days=1), **rows)
    delete_budget(budget=purse.budget, actor=SETUP, now=now)
    first = midnight((2030, 1, 1))
    for days in (0, 10):
        Budget.objects.create(
            period="fixed",
            starts_at=first + timedelta(days=days),
            ends_at=first + timedelta(days=days + 10),
            **rows,
        )
    with pytest.raises(IntegrityError, match="budget_more_than_nothing"), transaction.atomic():
        Budget.objects.create(
            period="fixed", starts_at=first, ends_at=first, **rows | {"amount_micro_usd": 0}
        )


def test_a_cut_promises_anew_in_the_order_of_admission_and_its_preview_says_so():
    purse = Purse(3_000)
    first, second = purse.run(600), purse.run(600)
    look(first)
    look(second)
    queued = purse.run(600)
    values = {"amount_micro_usd": 700 * USD}
    said = preview(team=purse.team, budget=purse.budget, values=values, actor=SETUP, now=clock.now())
    assert [row.workload for row in said.stopped] == [second]
    assert list(said.waiting) == [queued]
    assert said.standing.amount == 700 * USD
    assert purse.period.ceiling_micro_usd == 3_000 * USD
    assert not AuditEvent.objects.filter(action="budget.changed").exists()
    purse.change(**values)
    assert (purse.granted(first), purse.granted(second)) == (665, 35)
    end = end_of_money(Workload.objects.get(pk=second.pk), None, now=clock.now())
    assert end.stops
    assert end.at <= clock.now()
    assert AuditEvent.objects.get(action="budget.changed").after["amount_micro_usd"] == 700 * USD


def test_a_budget_that_is_made_while_runs_go_promises_them_money_first():
    purse = Purse(0)
    runs = [purse.run(600), purse.run(600)]
    for run in runs:
        look(run)
    purse.budget = create_budget(
        team=purse.team, values={"amount_micro_usd": 1_000 * USD}, actor=SETUP, now=clock.now()
    )
    assert [purse.granted(run) for run in runs] == [665, 335]


def test_when_the_month_begins_promises_are_made_anew_by_themselves():
    purse = Purse(1_000)
    runs = [purse.run(600), purse.run(200)]
    for run in runs:
        look(run)
    waiting = purse.run(600)
    look(waiting)
    assert waiting.reason == Reason.WAITING_FOR_BUDGET
    Pool.objects.update(due_at=None)
    begins = next_month(clock.now())
    purse.look(begins)
    assert purse.period.starts_at == begins
    assert [purse.granted(run) for run in runs] == [665, 265]
    assert BudgetReservation.objects.filter(closed_at__isnull=False).count() == 2
    assert Pool.objects.get().due_at is not None


def test_something_on_top_counts_until_it_expires_and_not_longer():
    purse = Purse(100)
    now = clock.now()
    purse.on_top(500, expires_at=now + timedelta(minutes=5))
    run = purse.run(300)
    assert look(run).admitted
    assert purse.left == 600 - 365
    later = now + timedelta(minutes=6)
    purse.look(later)
    assert purse.period.ceiling_micro_usd == 100 * USD
    assert purse.period.grandfathered_micro_usd == purse.period.committed_micro_usd
    snapshot = pool_snapshot_of(flavor=purse.flavor, capacity_type="on-demand", now=later, extra=None)
    assert (snapshot.teams[0].budget.amount, snapshot.teams[0].budget.left) == (100 * USD, 0)
    with pytest.raises(Invalid) as caught:
        purse.on_top(1, expires_at=next_month(now) + timedelta(days=1))
    assert caught.value.errors[0].field == "expires_at"


def test_thresholds_are_told_once_to_those_who_asked_for_it():
    purse = Purse(1_000)
    NoticeSubscription.objects.create(
        user=purse.member, name="me", channel="webhook", topics=["budget"], created_by=purse.member, sealed_url=b"x",
        origin="https://x", created_at=clock.now() - timedelta(days=1),
    )  # fmt: skip
    ran(purse, 14)
    look_at_all_budgets()
    purse.look()
    assert list(OutboxEvent.objects.values_list("type", flat=True)) == ["budget.warned", "budget.forecast"]
    ran(purse, 4)
    purse.look()
    hand_on(now=clock.now())
    told = list(Delivery.objects.order_by("pk").values_list("type", flat=True))
    assert told == ["budget.warned", "budget.forecast", "budget.exhausted"]
    assert (
        "has spent $840.00 of its budget of $1,000.00 (80 %)"
        in Delivery.objects.earliest("pk").payload["data"]["message"]
    )


def test_the_standing_says_what_is_spent_promised_and_left_and_when_it_runs_out():
    purse = Purse(10_000_000)
    now = clock.now()
    empty = standing(purse.budget, now=now)
    assert (empty.by_rate.unknown_because, empty.by_week.unknown_because) == (NOTHING_RUNS, NOTHING_SPENT)
    ran(purse, 10)
    run = purse.run(600)
    look(run)
    make_pod(run, units=1)
    shown = standing(purse.budget, now=clock.now())
    assert shown.spent == 600 * USD
    assert shown.reserved == (600 + TAIL) * USD
    assert shown.by_week.unknown_because == LASTS


def test_what_was_used_beyond_a_promise_is_credited_to_the_unit():
    purse = Purse(5_000)
    run = purse.run(600)
    look(run)
    BudgetReservation.objects.update(granted_micro_usd=100 * USD)
    pod = make_pod(run, units=1, minutes=5)
    record_usage(pod, now=clock.now())
    close(run, now=clock.now())
    lines = {row.account: row.amount_micro_usd for row in LedgerEntry.objects.filter(price=None)}
    assert lines == {f"team:{purse.team.slug}": -200 * USD, "platform:adjustment": 200 * USD}
    assert standing(purse.budget, now=clock.now()).spent == 100 * USD
