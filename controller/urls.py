from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from controller import cluster_api

app_name = "controller"

urlpatterns: list[URLPattern | URLResolver] = []

api_urlpatterns: list[URLPattern | URLResolver] = [
    path("teams/<str:slug>/volumes/", cluster_api.TeamVolumesView.as_view(), name="volume-list"),
    path("cluster/capacity/", cluster_api.CapacityView.as_view(), name="capacity-list"),
    path("cluster/preflight/", cluster_api.PreflightView.as_view(), name="preflight-list"),
]
