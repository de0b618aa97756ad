from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from controller import advice_api, cluster_api, page_secrets

app_name = "controller"

urlpatterns: list[URLPattern | URLResolver] = [
    path("teams/<slug:slug>/secrets/", page_secrets.SecretWritePage.as_view(), name="secret-write"),
    path(
        "teams/<slug:slug>/secrets/<str:name>/delete/",
        page_secrets.SecretDeletePage.as_view(),
        name="secret-delete",
    ),
]

api_urlpatterns: list[URLPattern | URLResolver] = [
    path("advice/", advice_api.AdviceView.as_view(), name="advice"),
    path("teams/<str:slug>/volumes/", cluster_api.TeamVolumesView.as_view(), name="volume-list"),
    path("teams/<str:slug>/secrets/", cluster_api.TeamSecretsView.as_view(), name="secret-list"),
    path("teams/<str:slug>/secrets/<str:name>/", cluster_api.TeamSecretView.as_view(), name="secret"),
    path("cluster/capacity/", cluster_api.CapacityView.as_view(), name="capacity-list"),
    path("cluster/preflight/", cluster_api.PreflightView.as_view(), name="preflight-list"),
]
