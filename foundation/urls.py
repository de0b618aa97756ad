from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from foundation.http import health

app_name = "foundation"

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
]

api_urlpatterns: list[URLPattern | URLResolver] = []
