from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from budgets import api

app_name = "budgets"

urlpatterns: list[URLPattern | URLResolver] = []

api_urlpatterns: list[URLPattern | URLResolver] = [
    path("budgets/", api.BudgetListView.as_view(), name="budget-list"),
    path("budgets/preview/", api.BudgetPreviewView.as_view(), name="budget-preview"),
    path("budgets/<uuid:public_id>/", api.BudgetView.as_view(), name="budget"),
    path(
        "budgets/<uuid:public_id>/overrides/",
        api.BudgetOverridesView.as_view(),
        name="budget-override-list",
    ),
    path("teams/<str:slug>/budget/", api.TeamBudgetView.as_view(), name="team-budget"),
]
