"""The periodic look at all budgets: what a lost message or a crash has left is found here."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

from django.db import transaction

from budgets.periods import held, holding_now
from budgets.reservations import close_all, close_those_that_left, opened, renew
from budgets.spending import spent_in_period
from budgets.standings import standing
from budgets.telling import tell_forecast, tell_thresholds
from costs.models import Budget, BudgetReservation, Price
from foundation import leases
from workloads.services import wake

PRICES_NEW_FOR = timedelta(seconds=90)
"""What runs is woken after a change of prices, which moves the moment at which its promise ends."""


def look_at_budgets(*, now: datetime) -> int:
    """Renew every budget's period, tell what is to be told of it, and wake what it may end; how many there are.

    Promises of budgets whose period is over, and which nobody has opened a next one of, are closed.
    """
    keys = list(Budget.objects.filter(holding_now(now)).order_by("pk").values_list("pk", flat=True))
    for key in keys:
        with transaction.atomic():
            leases.check()
            _look_at(key, now)
    promised = BudgetReservation.objects.filter(closed_at__isnull=True).values("period__budget")
    over = Budget.objects.filter(ends_at__lte=now, pk__in=promised).order_by("pk")
    for key in list(over.values_list("pk", flat=True)):
        with transaction.atomic():
            leases.check()
            _close_if_over(key, now)
    return len(keys)


def _close_if_over(key: int, now: datetime) -> None:
    """Its period may have been made longer meanwhile."""
    budget = held().filter(pk=key, ends_at__lte=now).first()
    if budget is not None:
        close_all(BudgetReservation.objects.filter(period__budget=budget), now=now)


def _look_at(key: int, now: datetime) -> None:
    budget = held().filter(pk=key).first()
    period = opened(budget, now=now) if budget is not None else None
    if budget is None or period is None:
        return
    close_those_that_left(period, now=now)
    before = set(period.reservations.filter(closed_at__isnull=True).values_list("workload", flat=True))
    renew(period, now=now)
    tell_thresholds(period, spent_in_period(budget.team, period, now=now), now=now)
    runs_out_at = standing(budget, now=now).by_week.runs_out_at
    if runs_out_at is not None:
        tell_forecast(period, runs_out_at, now=now)
    promised = period.reservations.filter(closed_at__isnull=True, stop_asked_at__isnull=True)
    repriced = Price.objects.filter(created_at__gt=now - PRICES_NEW_FOR).exists()
    follows = repriced or budget.endpoints == Budget.Endpoints.STOP
    keys = promised.values_list("workload", flat=True)
    wake_those([key for key in keys if follows or key not in before], now=now)


def wake_those(workload_ids: list[int], *, now: datetime) -> None:
    """Let each look at its promise once this transaction has ended: their rows are locked before a budget's."""
    if workload_ids:
        transaction.on_commit(partial(wake, workload_ids=workload_ids, now=now))
