from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from gateway import views

app_name = "gateway"

urlpatterns: list[URLPattern | URLResolver] = [
    path("live-ticket/", views.live_ticket, name="live-ticket"),
]

api_urlpatterns: list[URLPattern | URLResolver] = [
    path("stream/", views.StreamView.as_view(), name="stream"),
    path(
        "endpoints/<uuid:public_id>/invoke/", views.InvokeRootView.as_view(), {"path": ""}, name="invoke-root"
    ),
    path("endpoints/<uuid:public_id>/invoke/<path:path>", views.InvokeView.as_view(), name="invoke"),
]
