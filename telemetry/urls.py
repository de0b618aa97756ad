from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from telemetry import waste_api

app_name = "telemetry"

urlpatterns: list[URLPattern | URLResolver] = []

api_urlpatterns: list[URLPattern | URLResolver] = [
    path("idle/", waste_api.IdleView.as_view(), name="idle-list"),
    path("alerts/", waste_api.AlertsView.as_view(), name="alert-list"),
    path("alert-rules/", waste_api.AlertRulesView.as_view(), name="alert-rule-list"),
    path("alert-rules/<str:name>/", waste_api.AlertRuleView.as_view(), name="alert-rule"),
]
