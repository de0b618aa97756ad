from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from tests.examples.batch_inference import api, views

app_name = "batch_inference"

_PAGE = "batches/<uuid:public_id>/"

urlpatterns: list[URLPattern | URLResolver] = [
    path("batches/", views.BatchListPage.as_view(), name="batch-list"),
    path("batches/new/", views.BatchNewPage.as_view(), name="batch-new"),
    path(_PAGE, views.BatchDetailPage.as_view(), name="batch-detail"),
    path(f"{_PAGE}cancel/", views.BatchCancelPage.as_view(), name="batch-cancel"),
]

_BATCH = "batch-inferences/<uuid:public_id>/"

api_urlpatterns: list[URLPattern | URLResolver] = [
    path("batch-inferences/", api.BatchListView.as_view(), name="batch-list"),
    path("batch-inferences/preview/", api.BatchPreviewView.as_view(), name="batch-preview"),
    path(_BATCH, api.BatchDetailView.as_view(), name="batch"),
    path(f"{_BATCH}cancel/", api.BatchCancelView.as_view(), name="batch-cancel"),
    path(f"{_BATCH}events/", api.BatchEventsView.as_view(), name="batch-events"),
    path(f"{_BATCH}pods/", api.BatchPodsView.as_view(), name="batch-pods"),
    path(f"{_BATCH}logs/", api.BatchLogsView.as_view(), name="batch-logs"),
    path(f"{_BATCH}manifests/", api.BatchManifestsView.as_view(), name="batch-manifests"),
    path(f"{_BATCH}waiting/", api.BatchWaitingView.as_view(), name="batch-waiting"),
    path(f"{_BATCH}cost/", api.BatchCostView.as_view(), name="batch-cost"),
]
