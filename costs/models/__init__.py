"""What it cost: versioned prices, one usage interval per pod, an append-only double-entry ledger, and budgets.

All amounts are integer micro-USD. Prices are per card-hour; a flavor costs its exact fraction of its card.
"""

from __future__ import annotations

from costs.models.budgets import Budget, BudgetOverride, BudgetPeriod, BudgetReservation, ChargeLimit
from costs.models.checks import LaneSum, LedgerCheck, LedgerFault
from costs.models.ledger import LedgerEntry, WorkloadCharge
from costs.models.lost import LostWork
from costs.models.prices import Price, PricedCard
from costs.models.rollups import CostRollup, Facet, Grain, RollupCheck, WorkloadDay, WorkloadRollup
from costs.models.supply import IdleSpan, SupplyCursor, SupplyMark
from costs.models.usage import UsageInterval

__all__ = [
    "Budget",
    "BudgetOverride",
    "BudgetPeriod",
    "BudgetReservation",
    "ChargeLimit",
    "CostRollup",
    "Facet",
    "Grain",
    "IdleSpan",
    "LaneSum",
    "LedgerCheck",
    "LedgerEntry",
    "LedgerFault",
    "LostWork",
    "Price",
    "PricedCard",
    "RollupCheck",
    "SupplyCursor",
    "SupplyMark",
    "UsageInterval",
    "WorkloadCharge",
    "WorkloadDay",
    "WorkloadRollup",
]
