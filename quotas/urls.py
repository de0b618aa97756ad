from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from quotas.api import changes, cohorts, decisions, queues, quotas

app_name = "quotas"

urlpatterns: list[URLPattern | URLResolver] = []

_CHANGE = "quota-changes/<uuid:public_id>/"
_REQUEST = "quota-requests/<uuid:public_id>/"
_DECISION = "decisions/<uuid:public_id>/"

api_urlpatterns: list[URLPattern | URLResolver] = [
    path("teams/<str:slug>/quotas/", quotas.TeamQuotasView.as_view(), name="quota-list"),
    path("teams/<str:slug>/usage/", quotas.TeamUsageView.as_view(), name="usage-list"),
    path("teams/<str:slug>/policy/", quotas.TeamPolicyView.as_view(), name="team-policy"),
    path("queues/<str:slug>/", queues.QueueView.as_view(), name="queue"),
    path("queues/<str:slug>/stop/", queues.QueueStopView.as_view(), name="queue-stop"),
    path("queues/<str:slug>/start/", queues.QueueStartView.as_view(), name="queue-start"),
    path("cohorts/", cohorts.CohortListView.as_view(), name="cohort-list"),
    path("cohorts/<str:name>/", cohorts.CohortView.as_view(), name="cohort"),
    path("cohorts/<str:name>/limits/", cohorts.CohortLimitsView.as_view(), name="cohort-limits-list"),
    path("quota-changes/", changes.QuotaChangesView.as_view(), name="quota-change-list"),
    path("quota-changes/preview/", changes.QuotaChangesPreviewView.as_view(), name="quota-change-preview"),
    path(_CHANGE, changes.QuotaChangeView.as_view(), name="quota-change"),
    path(f"{_CHANGE}undo/", changes.QuotaChangeUndoView.as_view(), name="quota-change-undo"),
    path("quota-requests/", changes.QuotaRequestListView.as_view(), name="quota-request-list"),
    path(_REQUEST, changes.QuotaRequestView.as_view(), name="quota-request"),
    path(f"{_REQUEST}approve/", changes.QuotaRequestApproveView.as_view(), name="quota-request-approve"),
    path(f"{_REQUEST}deny/", changes.QuotaRequestDenyView.as_view(), name="quota-request-deny"),
    path(f"{_REQUEST}withdraw/", changes.QuotaRequestWithdrawView.as_view(), name="quota-request-withdraw"),
    path(_DECISION, decisions.DecisionView.as_view(), name="decision"),
    path(f"{_DECISION}replay/", decisions.DecisionReplayView.as_view(), name="decision-replay"),
]
