from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from jobs import api, reports, template_api, views

app_name = "jobs"

_PAGE = "runs/<uuid:public_id>/"

urlpatterns: list[URLPattern | URLResolver] = [
    path("runs/", views.RunListPage.as_view(), name="run-list"),
    path("runs/new/", views.RunNewPage.as_view(), name="run-new"),
    path("runs/import/", views.RunImportPage.as_view(), name="run-import"),
    path("teams/<slug:slug>/runs/", views.RunListPage.as_view(), name="team-run-list"),
    path("teams/<slug:slug>/runs/new/", views.RunNewPage.as_view(), name="team-run-new"),
    path(_PAGE, views.RunDetailPage.as_view(), name="run-detail"),
    path(f"{_PAGE}cancel/", views.RunCancelPage.as_view(), name="run-cancel"),
    path(f"{_PAGE}suspend/", views.RunSuspendPage.as_view(), name="run-suspend"),
    path(f"{_PAGE}resume/", views.RunResumePage.as_view(), name="run-resume"),
    path(f"{_PAGE}retry/", views.RunRetryPage.as_view(), name="run-retry"),
    path(f"{_PAGE}time-limit/", views.RunTimeLimitPage.as_view(), name="run-time-limit"),
]

_RUN = "training-runs/<uuid:public_id>/"

api_urlpatterns: list[URLPattern | URLResolver] = [
    path("templates/", template_api.TemplateListView.as_view(), name="template-list"),
    path("templates/<str:name>/", template_api.TemplateView.as_view(), name="template"),
    path("training-runs/", api.TrainingRunListView.as_view(), name="training-run-list"),
    path("training-runs/preview/", api.TrainingRunPreviewView.as_view(), name="training-run-preview"),
    path("training-runs/import/", api.TrainingRunImportView.as_view(), name="training-run-import"),
    path(_RUN, api.TrainingRunDetailView.as_view(), name="training-run"),
    path(f"{_RUN}cancel/", api.TrainingRunCancelView.as_view(), name="training-run-cancel"),
    path(f"{_RUN}suspend/", api.TrainingRunSuspendView.as_view(), name="training-run-suspend"),
    path(f"{_RUN}resume/", api.TrainingRunResumeView.as_view(), name="training-run-resume"),
    path(f"{_RUN}retry/", api.TrainingRunRetryView.as_view(), name="training-run-retry"),
    path(f"{_RUN}clone/", api.TrainingRunCloneView.as_view(), name="training-run-clone"),
    path(f"{_RUN}events/", api.TrainingRunEventsView.as_view(), name="training-run-events"),
    path(f"{_RUN}pods/", api.TrainingRunPodsView.as_view(), name="training-run-pods"),
    path(f"{_RUN}logs/", api.TrainingRunLogsView.as_view(), name="training-run-logs"),
    path(f"{_RUN}manifests/", api.TrainingRunManifestsView.as_view(), name="training-run-manifests"),
    path(f"{_RUN}waiting/", api.TrainingRunWaitingView.as_view(), name="training-run-waiting"),
    path(f"{_RUN}decisions/", api.TrainingRunDecisionsView.as_view(), name="training-run-decisions"),
    path(f"{_RUN}cost/", api.TrainingRunCostView.as_view(), name="training-run-cost"),
    path(f"{_RUN}checkpoints/", reports.CheckpointsView.as_view(), name="training-run-checkpoints"),
    path(f"{_RUN}progress/", reports.ProgressView.as_view(), name="training-run-progress"),
]
