from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from console.api import closing, cluster, comparisons
from console.api import secrets as secrets_api
from console.api import volumes as volumes_api
from console.pages import explained, preflight, secrets, strays, views, volumes

app_name = "console"

urlpatterns: list[URLPattern | URLResolver] = [
    path("teams/<slug:slug>/secrets/", secrets.SecretWritePage.as_view(), name="secret-write"),
    path(
        "teams/<slug:slug>/secrets/<str:name>/delete/",
        secrets.SecretDeletePage.as_view(),
        name="secret-delete",
    ),
    path("cluster/strays/", strays.StraysPage.as_view(), name="strays"),
    path("cluster/preflight/", preflight.PreflightPage.as_view(), name="preflight"),
    path("why/<uuid:public_id>/", explained.ExplainedPage.as_view(), name="why"),
    path("compare/", explained.ComparePage.as_view(), name="compare"),
    path("views/", views.SavedViewsPage.as_view(), name="saved-views"),
    path("views/<uuid:public_id>/delete/", views.SavedViewDeletePage.as_view(), name="saved-view-delete"),
    path("teams/<slug:slug>/volumes/", volumes.VolumesPage.as_view(), name="volumes"),
]

api_urlpatterns: list[URLPattern | URLResolver] = [
    path("teams/<str:slug>/volumes/", volumes_api.TeamVolumesView.as_view(), name="volume-list"),
    path("teams/<str:slug>/secrets/", secrets_api.TeamSecretsView.as_view(), name="secret-list"),
    path("teams/<str:slug>/secrets/<str:name>/", secrets_api.TeamSecretView.as_view(), name="secret"),
    path("teams/<str:slug>/close/", closing.TeamCloseView.as_view(), name="team-close"),
    path("teams/<str:slug>/reopen/", closing.TeamReopenView.as_view(), name="team-reopen"),
    path("compare/", comparisons.CompareView.as_view(), name="compare"),
    path("cluster/capacity/", cluster.CapacityView.as_view(), name="capacity-list"),
    path("cluster/capacity/nodes/", cluster.CapacityNodesView.as_view(), name="capacity-node-list"),
    path("cluster/strays/", cluster.StraysView.as_view(), name="stray-list"),
    path("cluster/strays/delete/", cluster.StraysDeleteView.as_view(), name="stray-delete"),
    path("cluster/preflight/", cluster.PreflightView.as_view(), name="preflight-list"),
]
