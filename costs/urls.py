from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from costs import api

app_name = "costs"

urlpatterns: list[URLPattern | URLResolver] = []

api_urlpatterns: list[URLPattern | URLResolver] = [
    path("prices/", api.PriceListView.as_view(), name="price-list"),
    path("prices/<uuid:public_id>/", api.PriceView.as_view(), name="price"),
    path("ledger/", api.LedgerView.as_view(), name="ledger-list"),
    path("costs/", api.CostSummaryView.as_view(), name="cost-summary"),
    path("costs/export.csv", api.CostExportView.as_view(), name="cost-export"),
    path("adjustments/", api.AdjustmentView.as_view(), name="adjustment-list"),
]
