from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from controller import advice_api, cluster_api, page_secrets, page_strays, page_volumes

app_name = "controller"

urlpatterns: list[URLPattern | URLResolver] = [
    path("teams/<slug:slug>/secrets/", page_secrets.SecretWritePage.as_view(), name="secret-write"),
    path(
        "teams/<slug:slug>/secrets/<str:name>/delete/",
        page_secrets.SecretDeletePage.as_view(),
        name="secret-delete",
    ),
    path("cluster/strays/", page_strays.StraysPage.as_view(), name="strays"),
    path("teams/<slug:slug>/volumes/", page_volumes.VolumesPage.as_view(), name="volumes"),
]

api_urlpatterns: list[URLPattern | URLResolver] = [
    path("advice/", advice_api.AdviceView.as_view(), name="advice"),
    path("teams/<str:slug>/volumes/", cluster_api.TeamVolumesView.as_view(), name="volume-list"),
    path("teams/<str:slug>/secrets/", cluster_api.TeamSecretsView.as_view(), name="secret-list"),
    path("teams/<str:slug>/secrets/<str:name>/", cluster_api.TeamSecretView.as_view(), name="secret"),
    path("cluster/capacity/", cluster_api.CapacityView.as_view(), name="capacity-list"),
    path("cluster/strays/", cluster_api.StraysView.as_view(), name="stray-list"),
    path("cluster/strays/delete/", cluster_api.StraysDeleteView.as_view(), name="stray-delete"),
    path("cluster/preflight/", cluster_api.PreflightView.as_view(), name="preflight-list"),
]
