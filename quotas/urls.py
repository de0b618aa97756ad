from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from quotas import api, change_api, decision_api

app_name = "quotas"

urlpatterns: list[URLPattern | URLResolver] = []

_CHANGE = "quota-changes/<uuid:public_id>/"
_REQUEST = "quota-requests/<uuid:public_id>/"
_DECISION = "decisions/<uuid:public_id>/"

api_urlpatterns: list[URLPattern | URLResolver] = [
    path("teams/<str:slug>/quotas/", api.TeamQuotasView.as_view(), name="quota-list"),
    path("teams/<str:slug>/usage/", api.TeamUsageView.as_view(), name="usage-list"),
    path("teams/<str:slug>/policy/", api.TeamPolicyView.as_view(), name="team-policy"),
    path("queues/<str:slug>/", api.QueueView.as_view(), name="queue"),
    path("queues/<str:slug>/stop/", api.QueueStopView.as_view(), name="queue-stop"),
    path("queues/<str:slug>/start/", api.QueueStartView.as_view(), name="queue-start"),
    path("cohorts/", api.CohortListView.as_view(), name="cohort-list"),
    path("cohorts/<str:name>/", api.CohortView.as_view(), name="cohort"),
    path("cohorts/<str:name>/limits/", api.CohortLimitsView.as_view(), name="cohort-limits-list"),
    path("quota-changes/", change_api.QuotaChangesView.as_view(), name="quota-change-list"),
    path("quota-changes/preview/", change_api.QuotaChangesPreviewView.as_view(), name="quota-change-preview"),
    path(_CHANGE, change_api.QuotaChangeView.as_view(), name="quota-change"),
    path(f"{_CHANGE}undo/", change_api.QuotaChangeUndoView.as_view(), name="quota-change-undo"),
    path("quota-requests/", change_api.QuotaRequestListView.as_view(), name="quota-request-list"),
    path(_REQUEST, change_api.QuotaRequestView.as_view(), name="quota-request"),
    path(f"{_REQUEST}approve/", change_api.QuotaRequestApproveView.as_view(), name="quota-request-approve"),
    path(f"{_REQUEST}deny/", change_api.QuotaRequestDenyView.as_view(), name="quota-request-deny"),
    path(
        f"{_REQUEST}withdraw/", change_api.QuotaRequestWithdrawView.as_view(), name="quota-request-withdraw"
    ),
    path(_DECISION, decision_api.DecisionView.as_view(), name="decision"),
    path(f"{_DECISION}replay/", decision_api.DecisionReplayView.as_view(), name="decision-replay"),
]
