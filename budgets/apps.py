from __future__ import annotations

from django.apps import AppConfig


class BudgetsConfig(AppConfig):
    """It has no rows of its own: they stand beside those of the ledger that they are about."""

    name = "budgets"
    default_auto_field = "django.db.models.BigAutoField"
