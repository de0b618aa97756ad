from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from quotas import api

app_name = "quotas"

urlpatterns: list[URLPattern | URLResolver] = []

api_urlpatterns: list[URLPattern | URLResolver] = [
    path("teams/<str:slug>/quotas/", api.TeamQuotasView.as_view(), name="quota-list"),
    path("teams/<str:slug>/usage/", api.TeamUsageView.as_view(), name="usage-list"),
    path("quota-changes/", api.QuotaChangesView.as_view(), name="quota-change-list"),
]
