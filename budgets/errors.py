"""Errors of money."""

from __future__ import annotations

from foundation.errors import Conflict


class BudgetExceeded(Conflict):
    """A budget has less left than work needs that was about to start; nothing was promised."""

    code = "budget_exceeded"
