from __future__ import annotations

from django.urls import URLPattern, URLResolver, path
from rest_framework.routers import SimpleRouter

from inference.api import endpoints, revisions
from inference.pages import endpoints as endpoint_pages
from inference.pages import scaling_actions as scaling_pages

app_name = "inference"

_PAGE = "endpoints/<uuid:public_id>/"

urlpatterns: list[URLPattern | URLResolver] = [
    path("endpoints/", endpoint_pages.EndpointListPage.as_view(), name="endpoint-list"),
    path("endpoints/export.csv", endpoint_pages.EndpointExportPage.as_view(), name="endpoint-export"),
    path("endpoints/bulk/", endpoint_pages.EndpointBulkPage.as_view(), name="endpoint-bulk"),
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

_router = SimpleRouter(use_regex_path=False)
_router.register("endpoints", endpoints.EndpointViewSet, basename="endpoint")
_router.register(
    "endpoints/<uuid:public_id>/revisions", revisions.RevisionViewSet, basename="endpoint-revision"
)

api_urlpatterns: list[URLPattern | URLResolver] = [*_router.urls]
