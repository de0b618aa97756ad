from __future__ import annotations

from django.urls import URLPattern, URLResolver, path
from rest_framework.routers import SimpleRouter

from jobs import api, command_views, reports, template_api, views

app_name = "jobs"

_PAGE = "runs/<uuid:public_id>/"

urlpatterns: list[URLPattern | URLResolver] = [
    path("runs/", views.RunListPage.as_view(), name="run-list"),
    path("runs/new/", views.RunNewPage.as_view(), name="run-new"),
    path("runs/import/", views.RunImportPage.as_view(), name="run-import"),
    path("teams/<slug:slug>/runs/", views.RunListPage.as_view(), name="team-run-list"),
    path("teams/<slug:slug>/runs/new/", views.RunNewPage.as_view(), name="team-run-new"),
    path(_PAGE, views.RunDetailPage.as_view(), name="run-detail"),
    path(f"{_PAGE}cancel/", command_views.RunCancelPage.as_view(), name="run-cancel"),
    path(f"{_PAGE}suspend/", command_views.RunSuspendPage.as_view(), name="run-suspend"),
    path(f"{_PAGE}resume/", command_views.RunResumePage.as_view(), name="run-resume"),
    path(f"{_PAGE}retry/", command_views.RunRetryPage.as_view(), name="run-retry"),
    path(f"{_PAGE}time-limit/", command_views.RunTimeLimitPage.as_view(), name="run-time-limit"),
]

_router = SimpleRouter(use_regex_path=False)
_router.register("training-runs", api.TrainingRunViewSet, basename="training-run")
_RUN = "training-runs/<uuid:public_id>/"

api_urlpatterns: list[URLPattern | URLResolver] = [
    path("templates/", template_api.TemplateListView.as_view(), name="template-list"),
    path("templates/<str:name>/", template_api.TemplateView.as_view(), name="template"),
    *_router.urls,
    path(f"{_RUN}checkpoints/", reports.CheckpointsView.as_view(), name="training-run-checkpoints"),
    path(f"{_RUN}progress/", reports.ProgressView.as_view(), name="training-run-progress"),
]
