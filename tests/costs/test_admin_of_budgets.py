"""Budgets in the admin console: what a change does is shown before it is made."""

from __future__ import annotations

import pytest
from django.test import Client

from costs.models import Budget, BudgetOverride
from tests.controller.looks import look
from tests.costs.budget_world import USD, Purse
from tests.factories.teams import make_team, make_user

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def manager():
    client = Client()
    client.force_login(make_user("manager", quota_manager=True))
    return client


def body(**values):
    return {
        "period": "month", "starts_on": "", "ends_on": "", "amount_usd": "500", "warn_percents": "80,100",
        "endpoints": "alert",
    } | values  # fmt: skip


def test_a_manager_makes_one_and_another_is_refused_at_its_field(manager):
    team = make_team("vision")
    assert manager.post("/admin/costs/budget/add/", body(team=team.pk)).status_code == 302
    budget = Budget.objects.get()
    assert (budget.amount_micro_usd, budget.warn_percents, budget.created_by) == (
        500 * USD,
        [80, 100],
        "manager",
    )
    again = manager.post("/admin/costs/budget/add/", body(team=team.pk))
    assert "has a budget for each month already" in again.content.decode()
    for row in ("", "add/", f"{budget.pk}/change/"):
        assert manager.get(f"/admin/costs/budget/{row}").status_code == 200


def test_a_cut_that_stops_a_run_is_shown_first_and_made_when_confirmed(manager):
    purse = Purse(3_000)
    run = purse.run(600)
    look(run)
    address = f"/admin/costs/budget/{purse.budget.pk}/change/"
    shown = manager.post(address, body(amount_usd="100")).content.decode()
    assert f"It would stop {run.name}" in shown
    assert Budget.objects.get().amount_micro_usd == 3_000 * USD
    assert manager.post(address, body(amount_usd="100", confirmed="on")).status_code == 302
    assert Budget.objects.get().amount_micro_usd == 100 * USD
    assert purse.granted(run) == 100


def test_something_is_given_on_top_with_its_reason(manager):
    purse = Purse(10)
    values = {
        "budget": purse.budget.pk,
        "amount_usd": "2.5",
        "reason": "a paper",
        "expires_at_0": "",
        "expires_at_1": "",
    }
    answer = manager.post("/admin/costs/budgetoverride/add/", values)
    assert answer.status_code == 302, answer.content.decode()[-3000:]
    assert BudgetOverride.objects.get().amount_micro_usd == 2_500_000
    assert manager.get("/admin/costs/budgetoverride/").status_code == 200
