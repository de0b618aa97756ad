from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from costs.api import exports, ledger, prices, reports

app_name = "costs"

urlpatterns: list[URLPattern | URLResolver] = []

api_urlpatterns: list[URLPattern | URLResolver] = [
    path("prices/", prices.PriceListView.as_view(), name="price-list"),
    path("prices/preview/", prices.PricePreviewView.as_view(), name="price-preview"),
    path("prices/import/", prices.ImportView.as_view(), name="price-import"),
    path("prices/import/preview/", prices.ImportPreviewView.as_view(), name="price-import-preview"),
    path("prices/<uuid:public_id>/", prices.PriceView.as_view(), name="price"),
    path("ledger/", ledger.LedgerView.as_view(), name="ledger-list"),
    path("costs/", reports.CostSummaryView.as_view(), name="cost-summary"),
    path("costs/idle/", reports.CostIdleView.as_view(), name="cost-idle"),
    path("costs/export.csv", exports.CostExportView.as_view(), name="cost-export"),
    path("adjustments/", ledger.AdjustmentView.as_view(), name="adjustment-list"),
]
