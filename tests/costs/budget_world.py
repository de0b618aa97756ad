"""A team with a budget, quota, nodes and a price of one dollar a card and second."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from budgets.looks import look_at_budgets
from budgets.services import change_budget, create_budget, give_on_top
from costs.models import BudgetPeriod, BudgetReservation
from foundation import clock
from tests.factories.catalogue import SETUP, make_flavor, make_node, make_price, make_quota
from tests.factories.teams import make_member, make_team
from tests.factories.workloads import make_workload

USD = 1_000_000
TAIL = 65
"""Seconds of grace and of the margin."""


def budget_for(team, usd=1_000, *, now=None, **values):
    values = {"amount_micro_usd": round(usd * USD), "period": "month"} | values
    return create_budget(team=team, values=values, actor=SETUP, now=now or clock.now())


class Purse:
    """One team, its flavor, and its budget of so many dollars a month."""

    def __init__(self, usd=1_000, *, nominal=64, **values):
        self.team = make_team("vision")
        self.member = make_member(team=self.team).user
        self.flavor = make_flavor()
        self.quota = make_quota(self.team, self.flavor, nominal)
        for number in range(8):
            make_node(f"n{number}")
        make_price()
        self.budget = budget_for(self.team, usd, **values) if usd else None

    def run(self, seconds=600, *, units=1, **values):
        """A queued one of so many GPUs and with such a time limit."""
        return make_workload(
            team=self.team, owner=self.member, flavor=self.flavor, units=units, units_each=units,
            time_limit_seconds=seconds, **values,
        )  # fmt: skip

    def change(self, *, now=None, **changes):
        self.budget = change_budget(budget=self.budget, changes=changes, actor=SETUP, now=now or clock.now())

    def on_top(self, usd, *, now=None, expires_at=None):
        return give_on_top(
            budget=self.budget, amount_micro_usd=usd * USD, reason="a paper", expires_at=expires_at, actor=SETUP,
            now=now or clock.now(),
        )  # fmt: skip

    def look(self, now=None):
        look_at_budgets(now=now or clock.now())

    @property
    def period(self):
        return BudgetPeriod.objects.filter(budget=self.budget).latest("starts_at")

    @property
    def left(self):
        """Dollars that new work may be promised."""
        return (self.period.ceiling_micro_usd - self.period.committed_micro_usd) / USD

    def granted(self, run):
        """Dollars that are promised to it now; None for nothing."""
        row = BudgetReservation.objects.filter(workload=run, closed_at__isnull=True).first()
        return None if row is None else row.granted_micro_usd / USD


def next_month(now):
    """Its first second."""
    first = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (first + timedelta(days=32)).replace(day=1)


def midnight(day):
    return datetime(*day, tzinfo=UTC)
