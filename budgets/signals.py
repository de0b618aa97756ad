"""Signals to other apps about money, inside the transaction of the change: an error in a receiver rolls it back."""

from __future__ import annotations

from django.dispatch import Signal

budget_freed = Signal()
"""`team` may have more money to spend since `now`: what waits for it may be judged again."""

budget_told = Signal()
"""Something that people are told of a budget: `period`, its BudgetPeriod; `event`, one of BUDGET_EVENTS; `message`; `now`."""

BUDGET_EVENTS = ("warned", "exhausted", "override", "forecast")
