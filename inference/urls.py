from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from inference.api import endpoints, revisions
from inference.pages import endpoints as endpoint_pages
from inference.pages import scaling_actions as scaling_pages

app_name = "inference"

_PAGE = "endpoints/<uuid:public_id>/"

urlpatterns: list[URLPattern | URLResolver] = [
    path("endpoints/", endpoint_pages.EndpointListPage.as_view(), name="endpoint-list"),
    path("endpoints/new/", endpoint_pages.EndpointNewPage.as_view(), name="endpoint-new"),
    path(
        "teams/<slug:slug>/endpoints/", endpoint_pages.EndpointListPage.as_view(), name="team-endpoint-list"
    ),
    path(
        "teams/<slug:slug>/endpoints/new/", endpoint_pages.EndpointNewPage.as_view(), name="team-endpoint-new"
    ),
    path(_PAGE, endpoint_pages.EndpointDetailPage.as_view(), name="endpoint-detail"),
    path(f"{_PAGE}update/", endpoint_pages.EndpointUpdatePage.as_view(), name="endpoint-update"),
    path(f"{_PAGE}rollback/", endpoint_pages.EndpointRollbackPage.as_view(), name="endpoint-rollback"),
    path(f"{_PAGE}stop/", endpoint_pages.EndpointStopPage.as_view(), name="endpoint-stop"),
    path(f"{_PAGE}start/", endpoint_pages.EndpointStartPage.as_view(), name="endpoint-start"),
    path(f"{_PAGE}scale/", scaling_pages.EndpointScalePage.as_view(), name="endpoint-scale"),
    path(
        f"{_PAGE}pause-scaler/", scaling_pages.EndpointPauseScalerPage.as_view(), name="endpoint-pause-scaler"
    ),
    path(
        f"{_PAGE}resume-scaler/",
        scaling_pages.EndpointResumeScalerPage.as_view(),
        name="endpoint-resume-scaler",
    ),
    path(f"{_PAGE}delete/", endpoint_pages.EndpointDeletePage.as_view(), name="endpoint-delete"),
]

_ENDPOINT = "endpoints/<uuid:public_id>/"
_REVISIONS = f"{_ENDPOINT}revisions/"

api_urlpatterns: list[URLPattern | URLResolver] = [
    path("endpoints/", endpoints.EndpointListView.as_view(), name="endpoint-list"),
    path("endpoints/preview/", endpoints.EndpointPreviewView.as_view(), name="endpoint-preview"),
    path(_ENDPOINT, endpoints.EndpointDetailView.as_view(), name="endpoint"),
    path(f"{_ENDPOINT}stop/", endpoints.EndpointStopView.as_view(), name="endpoint-stop"),
    path(f"{_ENDPOINT}start/", endpoints.EndpointStartView.as_view(), name="endpoint-start"),
    path(f"{_ENDPOINT}scale/", endpoints.EndpointScaleView.as_view(), name="endpoint-scale"),
    path(
        f"{_ENDPOINT}pause-scaler/", endpoints.EndpointPauseScalerView.as_view(), name="endpoint-pause-scaler"
    ),
    path(
        f"{_ENDPOINT}resume-scaler/",
        endpoints.EndpointResumeScalerView.as_view(),
        name="endpoint-resume-scaler",
    ),
    path(f"{_ENDPOINT}scaling/", endpoints.EndpointScalingView.as_view(), name="endpoint-scaling"),
    path(f"{_ENDPOINT}events/", endpoints.EndpointEventsView.as_view(), name="endpoint-events"),
    path(f"{_ENDPOINT}pods/", endpoints.EndpointPodsView.as_view(), name="endpoint-pods"),
    path(f"{_ENDPOINT}logs/", endpoints.EndpointLogsView.as_view(), name="endpoint-logs"),
    path(f"{_ENDPOINT}manifests/", endpoints.EndpointManifestsView.as_view(), name="endpoint-manifests"),
    path(f"{_ENDPOINT}waiting/", endpoints.EndpointWaitingView.as_view(), name="endpoint-waiting"),
    path(f"{_ENDPOINT}decisions/", endpoints.EndpointDecisionsView.as_view(), name="endpoint-decisions"),
    path(f"{_ENDPOINT}cost/", endpoints.EndpointCostView.as_view(), name="endpoint-cost"),
    path(f"{_ENDPOINT}rollback/", revisions.EndpointRollbackView.as_view(), name="endpoint-rollback"),
    path(_REVISIONS, revisions.EndpointRevisionsView.as_view(), name="endpoint-revisions"),
    path(
        f"{_REVISIONS}preview/",
        revisions.EndpointRevisionPreviewView.as_view(),
        name="endpoint-revision-preview",
    ),
    path(f"{_REVISIONS}<int:number>/", revisions.EndpointRevisionView.as_view(), name="endpoint-revision"),
    path(
        f"{_REVISIONS}<int:number>/diff/",
        revisions.EndpointRevisionDiffView.as_view(),
        name="endpoint-revision-diff",
    ),
]
