from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from inference import api, revision_api, scaler_pages, views

app_name = "inference"

_PAGE = "endpoints/<uuid:public_id>/"

urlpatterns: list[URLPattern | URLResolver] = [
    path("endpoints/", views.EndpointListPage.as_view(), name="endpoint-list"),
    path("endpoints/new/", views.EndpointNewPage.as_view(), name="endpoint-new"),
    path("teams/<slug:slug>/endpoints/", views.EndpointListPage.as_view(), name="team-endpoint-list"),
    path("teams/<slug:slug>/endpoints/new/", views.EndpointNewPage.as_view(), name="team-endpoint-new"),
    path(_PAGE, views.EndpointDetailPage.as_view(), name="endpoint-detail"),
    path(f"{_PAGE}update/", views.EndpointUpdatePage.as_view(), name="endpoint-update"),
    path(f"{_PAGE}rollback/", views.EndpointRollbackPage.as_view(), name="endpoint-rollback"),
    path(f"{_PAGE}stop/", views.EndpointStopPage.as_view(), name="endpoint-stop"),
    path(f"{_PAGE}start/", views.EndpointStartPage.as_view(), name="endpoint-start"),
    path(f"{_PAGE}scale/", scaler_pages.EndpointScalePage.as_view(), name="endpoint-scale"),
    path(
        f"{_PAGE}pause-scaler/", scaler_pages.EndpointPauseScalerPage.as_view(), name="endpoint-pause-scaler"
    ),
    path(
        f"{_PAGE}resume-scaler/",
        scaler_pages.EndpointResumeScalerPage.as_view(),
        name="endpoint-resume-scaler",
    ),
    path(f"{_PAGE}delete/", views.EndpointDeletePage.as_view(), name="endpoint-delete"),
]

_ENDPOINT = "endpoints/<uuid:public_id>/"
_REVISIONS = f"{_ENDPOINT}revisions/"

api_urlpatterns: list[URLPattern | URLResolver] = [
    path("endpoints/", api.EndpointListView.as_view(), name="endpoint-list"),
    path("endpoints/preview/", api.EndpointPreviewView.as_view(), name="endpoint-preview"),
    path(_ENDPOINT, api.EndpointDetailView.as_view(), name="endpoint"),
    path(f"{_ENDPOINT}stop/", api.EndpointStopView.as_view(), name="endpoint-stop"),
    path(f"{_ENDPOINT}start/", api.EndpointStartView.as_view(), name="endpoint-start"),
    path(f"{_ENDPOINT}scale/", api.EndpointScaleView.as_view(), name="endpoint-scale"),
    path(f"{_ENDPOINT}pause-scaler/", api.EndpointPauseScalerView.as_view(), name="endpoint-pause-scaler"),
    path(f"{_ENDPOINT}resume-scaler/", api.EndpointResumeScalerView.as_view(), name="endpoint-resume-scaler"),
    path(f"{_ENDPOINT}scaling/", api.EndpointScalingView.as_view(), name="endpoint-scaling"),
    path(f"{_ENDPOINT}events/", api.EndpointEventsView.as_view(), name="endpoint-events"),
    path(f"{_ENDPOINT}pods/", api.EndpointPodsView.as_view(), name="endpoint-pods"),
    path(f"{_ENDPOINT}logs/", api.EndpointLogsView.as_view(), name="endpoint-logs"),
    path(f"{_ENDPOINT}manifests/", api.EndpointManifestsView.as_view(), name="endpoint-manifests"),
    path(f"{_ENDPOINT}waiting/", api.EndpointWaitingView.as_view(), name="endpoint-waiting"),
    path(f"{_ENDPOINT}decisions/", api.EndpointDecisionsView.as_view(), name="endpoint-decisions"),
    path(f"{_ENDPOINT}cost/", api.EndpointCostView.as_view(), name="endpoint-cost"),
    path(f"{_ENDPOINT}rollback/", revision_api.EndpointRollbackView.as_view(), name="endpoint-rollback"),
    path(_REVISIONS, revision_api.EndpointRevisionsView.as_view(), name="endpoint-revisions"),
    path(
        f"{_REVISIONS}preview/",
        revision_api.EndpointRevisionPreviewView.as_view(),
        name="endpoint-revision-preview",
    ),
    path(f"{_REVISIONS}<int:number>/", revision_api.EndpointRevisionView.as_view(), name="endpoint-revision"),
    path(
        f"{_REVISIONS}<int:number>/diff/",
        revision_api.EndpointRevisionDiffView.as_view(),
        name="endpoint-revision-diff",
    ),
]
