from __future__ import annotations

from django.urls import URLPattern, URLResolver, path
from rest_framework.routers import SimpleRouter

from jobs.api import outputs, reports, sweeps, templates
from jobs.api import runs as runs_api
from jobs.pages import commands, runs
from jobs.pages import sweeps as sweep_pages

app_name = "jobs"

_PAGE = "runs/<uuid:public_id>/"
_SWEEP = "sweeps/<uuid:public_id>/"

urlpatterns: list[URLPattern | URLResolver] = [
    path("runs/", runs.RunListPage.as_view(), name="run-list"),
    path("runs/bulk/", runs.RunBulkPage.as_view(), name="run-bulk"),
    path("runs/export.csv", runs.RunExportPage.as_view(), name="run-export"),
    path("runs/new/", runs.RunNewPage.as_view(), name="run-new"),
    path("runs/import/", runs.RunImportPage.as_view(), name="run-import"),
    path("teams/<slug:slug>/runs/", runs.RunListPage.as_view(), name="team-run-list"),
    path("teams/<slug:slug>/runs/new/", runs.RunNewPage.as_view(), name="team-run-new"),
    path(_PAGE, runs.RunDetailPage.as_view(), name="run-detail"),
    path(f"{_PAGE}cancel/", commands.RunCancelPage.as_view(), name="run-cancel"),
    path(f"{_PAGE}suspend/", commands.RunSuspendPage.as_view(), name="run-suspend"),
    path(f"{_PAGE}resume/", commands.RunResumePage.as_view(), name="run-resume"),
    path(f"{_PAGE}retry/", commands.RunRetryPage.as_view(), name="run-retry"),
    path("sweeps/", sweep_pages.SweepListPage.as_view(), name="sweep-list"),
    path("teams/<slug:slug>/sweeps/", sweep_pages.SweepListPage.as_view(), name="team-sweep-list"),
    path(_SWEEP, sweep_pages.SweepPage.as_view(), name="sweep-detail"),
    path(f"{_SWEEP}cancel/", sweep_pages.SweepCancelPage.as_view(), name="sweep-cancel"),
    path(f"{_SWEEP}parallel/", sweep_pages.SweepParallelPage.as_view(), name="sweep-parallel"),
    path(f"{_PAGE}time-limit/", commands.RunTimeLimitPage.as_view(), name="run-time-limit"),
]

_router = SimpleRouter(use_regex_path=False)
_router.register("training-runs", runs_api.TrainingRunViewSet, basename="training-run")
_RUN = "training-runs/<uuid:public_id>/"

api_urlpatterns: list[URLPattern | URLResolver] = [
    path("templates/", templates.TemplateListView.as_view(), name="template-list"),
    path("templates/<str:name>/", templates.TemplateView.as_view(), name="template"),
    path("sweeps/", sweeps.SweepListView.as_view(), name="sweep-list"),
    path(_SWEEP, sweeps.SweepView.as_view(), name="sweep"),
    path(f"{_SWEEP}cancel/", sweeps.SweepCancelView.as_view(), name="sweep-cancel"),
    path(f"{_SWEEP}waiting/", sweeps.SweepWaitingView.as_view(), name="sweep-waiting"),
    *_router.urls,
    path(f"{_RUN}checkpoints/", reports.CheckpointsView.as_view(), name="training-run-checkpoints"),
    path(f"{_RUN}outputs/", outputs.OutputsView.as_view(), name="training-run-outputs"),
    path(f"{_RUN}progress/", reports.ProgressView.as_view(), name="training-run-progress"),
]
