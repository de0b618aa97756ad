from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from advisor import api

app_name = "advisor"

api_urlpatterns: list[URLPattern | URLResolver] = [
    path("advice/", api.AdviceView.as_view(), name="advice"),
]
