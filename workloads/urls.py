from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from workloads import api

app_name = "workloads"

urlpatterns: list[URLPattern | URLResolver] = []

api_urlpatterns: list[URLPattern | URLResolver] = [
    path("flavors/", api.FlavorListView.as_view(), name="flavor-list"),
    path("flavors/<str:name>/", api.FlavorView.as_view(), name="flavor"),
    path("cluster/nodes/", api.NodeListView.as_view(), name="node-list"),
]
