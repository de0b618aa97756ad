"""What people are told of a budget, each once in a period, in the transaction in which it is found."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from budgets.periods import held
from budgets.signals import budget_told
from costs.models import Budget, BudgetPeriod
from policy.budgets import usd

EXHAUSTED_PERCENT = 100


def tell_thresholds(period: BudgetPeriod, spent: int, *, now: datetime) -> None:
    """Tell of the highest threshold that what is spent has passed and nobody was told of; the budget's row is held."""
    budget, amount = period.budget, period.ceiling_micro_usd
    passed = [percent for percent in budget.warn_percents if spent * 100 >= percent * amount]
    new = [percent for percent in passed if percent not in period.told_percents]
    if not new:
        return
    period.told_percents = sorted({*period.told_percents, *new})
    period.save(update_fields=["told_percents"])
    says = f"Team {budget.team.slug} has spent {usd(spent)} of its budget of {usd(amount)} ({max(new)} %)."
    _tell(period, "exhausted" if max(new) >= EXHAUSTED_PERCENT else "warned", says, now)


def tell_exhausted(period: BudgetPeriod, *, now: datetime) -> None:
    """Tell that work is stopped for it."""
    with transaction.atomic():
        budget = held().get(pk=period.budget_id)
        fresh = BudgetPeriod.objects.select_related("budget__team").get(pk=period.pk)
        if EXHAUSTED_PERCENT in fresh.told_percents:
            return
        fresh.told_percents = sorted({*fresh.told_percents, EXHAUSTED_PERCENT})
        fresh.save(update_fields=["told_percents"])
        has = f"The budget of {usd(fresh.ceiling_micro_usd)} of team {budget.team.slug} is spent or promised"
        _tell(fresh, "exhausted", f"{has}: runs that it pays no further are stopped, new ones wait.", now)


def tell_override(period: BudgetPeriod, message: str, *, now: datetime) -> None:
    """Tell that an amount was given on top."""
    _tell(period, "override", message, now)


def tell_forecast(period: BudgetPeriod, runs_out_at: datetime, *, now: datetime) -> None:
    """Tell that it runs out before its period ends, by the mean of the last days."""
    if period.told_forecast:
        return
    period.told_forecast = True
    period.save(update_fields=["told_forecast"])
    says = f"As team {period.budget.team.slug} has spent in the last 7 days, its budget runs out on {runs_out_at:%Y-%m-%d}"
    _tell(period, "forecast", f"{says}, and its period ends on {period.ends_at:%Y-%m-%d}.", now)


def _tell(period: BudgetPeriod, event: str, message: str, now: datetime) -> None:
    budget_told.send(sender=Budget, period=period, event=event, message=message, now=now)
