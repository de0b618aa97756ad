"""What it cost: versioned prices, one usage interval per pod, an append-only double-entry ledger, and budgets.

All amounts are integer micro-USD. Prices are per card-hour; a flavor costs its exact fraction of its card.
"""

from __future__ import annotations

from costs.models.budgets import Budget, BudgetOverride, BudgetPeriod, BudgetReservation
from costs.models.ledger import LedgerEntry, WorkloadCharge
from costs.models.prices import Price, PricedCard
from costs.models.rollups import CostRollup, Facet, Grain, RollupCheck, WorkloadDay, WorkloadRollup
from costs.models.usage import UsageInterval

__all__ = [
    "Budget",
    "BudgetOverride",
    "BudgetPeriod",
    "BudgetReservation",
    "CostRollup",
    "Facet",
    "Grain",
    "LedgerEntry",
    "Price",
    "PricedCard",
    "RollupCheck",
    "UsageInterval",
    "WorkloadCharge",
    "WorkloadDay",
    "WorkloadRollup",
]
