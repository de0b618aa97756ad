from __future__ import annotations

from django.urls import URLPattern, URLResolver, path
from rest_framework.routers import SimpleRouter

from tests.examples.batch_inference import api, views

app_name = "batch_inference"

_PAGE = "batches/<uuid:public_id>/"

urlpatterns: list[URLPattern | URLResolver] = [
    path("batches/", views.BatchListPage.as_view(), name="batch-list"),
    path("batches/new/", views.BatchNewPage.as_view(), name="batch-new"),
    path(_PAGE, views.BatchDetailPage.as_view(), name="batch-detail"),
    path(f"{_PAGE}cancel/", views.BatchCancelPage.as_view(), name="batch-cancel"),
]

_router = SimpleRouter(use_regex_path=False)
_router.register("batch-inferences", api.BatchViewSet, basename="batch")

api_urlpatterns: list[URLPattern | URLResolver] = [*_router.urls]
