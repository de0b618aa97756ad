from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from gateway import api, views

app_name = "gateway"

_ENDPOINT = "endpoints/<uuid:public_id>/"

urlpatterns: list[URLPattern | URLResolver] = [
    path("live-ticket/", views.live_ticket, name="live-ticket"),
]

api_urlpatterns: list[URLPattern | URLResolver] = [
    path(f"{_ENDPOINT}tokens/", api.EndpointTokenListView.as_view(), name="endpoint-tokens"),
    path(f"{_ENDPOINT}tokens/<uuid:token_id>/", api.EndpointTokenView.as_view(), name="endpoint-token"),
    path(f"{_ENDPOINT}metrics/", api.EndpointMetricsView.as_view(), name="endpoint-metrics"),
    path(
        "teams/<str:slug>/endpoint-tokens/",
        api.TeamEndpointTokenListView.as_view(),
        name="team-endpoint-tokens",
    ),
    path(
        "teams/<str:slug>/endpoint-tokens/<uuid:token_id>/",
        api.TeamEndpointTokenView.as_view(),
        name="team-endpoint-token",
    ),
    path("stream/", views.StreamView.as_view(), name="stream"),
    path(
        "endpoints/<uuid:public_id>/invoke/", views.InvokeRootView.as_view(), {"path": ""}, name="invoke-root"
    ),
    path("endpoints/<uuid:public_id>/invoke/<path:path>", views.InvokeView.as_view(), name="invoke"),
]
