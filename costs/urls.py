from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from costs.api import budgets, exports, ledger, prices, reports

app_name = "costs"

urlpatterns: list[URLPattern | URLResolver] = []

api_urlpatterns: list[URLPattern | URLResolver] = [
    path("prices/", prices.PriceListView.as_view(), name="price-list"),
    path("prices/<uuid:public_id>/", prices.PriceView.as_view(), name="price"),
    path("budgets/", budgets.BudgetListView.as_view(), name="budget-list"),
    path("budgets/preview/", budgets.BudgetPreviewView.as_view(), name="budget-preview"),
    path("budgets/<uuid:public_id>/", budgets.BudgetView.as_view(), name="budget"),
    path(
        "budgets/<uuid:public_id>/overrides/",
        budgets.BudgetOverridesView.as_view(),
        name="budget-override-list",
    ),
    path("teams/<str:slug>/budget/", budgets.TeamBudgetView.as_view(), name="team-budget"),
    path("ledger/", ledger.LedgerView.as_view(), name="ledger-list"),
    path("costs/", reports.CostSummaryView.as_view(), name="cost-summary"),
    path("costs/idle/", reports.CostIdleView.as_view(), name="cost-idle"),
    path("costs/export.csv", exports.CostExportView.as_view(), name="cost-export"),
    path("adjustments/", ledger.AdjustmentView.as_view(), name="adjustment-list"),
]
