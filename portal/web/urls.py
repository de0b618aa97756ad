from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from portal.web import (
    advice,
    endpoint_access,
    home,
    quota_changes,
    quota_cohorts,
    quota_requests,
    quota_teams,
    quotas,
    team,
    team_quota,
    try_it,
)

app_name = "portal"

urlpatterns: list[URLPattern | URLResolver] = [
    path("", home.HomePage.as_view(), name="home"),
    path("theme/", home.choose_theme, name="theme"),
    path("what-fits/", advice.AdvicePage.as_view(), name="what-fits"),
    path("teams/", team.TeamListPage.as_view(), name="team-list"),
    path("teams/<slug:slug>/", team.TeamDetailPage.as_view(), name="team-detail"),
    path("teams/<slug:slug>/quota/", team_quota.TeamQuotaPage.as_view(), name="team-quota"),
    path("teams/<slug:slug>/quota/queue/", team_quota.QueuePage.as_view(), name="team-queue"),
    path(
        "teams/<slug:slug>/quota/requests/<uuid:public_id>/withdraw/",
        team_quota.WithdrawPage.as_view(),
        name="team-quota-withdraw",
    ),
    path("quotas/", quotas.ConsolePage.as_view(), name="quota-console"),
    path("quotas/draft/", quotas.DraftPage.as_view(), name="quota-draft"),
    path("quotas/changes/", quota_changes.ChangeSetListPage.as_view(), name="quota-changes"),
    path("quotas/changes/<uuid:public_id>/", quota_changes.ChangeSetPage.as_view(), name="quota-change-set"),
    path("quotas/requests/", quota_requests.RequestListPage.as_view(), name="quota-requests"),
    path(
        "quotas/requests/<uuid:public_id>/",
        quota_requests.RequestDecisionPage.as_view(),
        name="quota-request-decide",
    ),
    path("quotas/cohorts/", quota_cohorts.CohortListPage.as_view(), name="quota-cohorts"),
    path("quotas/cohorts/<uuid:public_id>/", quota_cohorts.CohortPage.as_view(), name="quota-cohort"),
    path("quotas/teams/", quota_teams.TeamPolicyListPage.as_view(), name="quota-teams"),
    path("quotas/teams/<slug:slug>/", quota_teams.TeamPolicyPage.as_view(), name="quota-team"),
    path(
        "endpoints/<uuid:public_id>/tokens/",
        endpoint_access.EndpointTokensPage.as_view(),
        name="endpoint-tokens",
    ),
    path(
        "endpoints/<uuid:public_id>/tokens/<uuid:token_id>/revoke/",
        endpoint_access.EndpointTokenRevokePage.as_view(),
        name="endpoint-token-revoke",
    ),
    path("endpoints/<uuid:public_id>/try/", try_it.TryItPage.as_view(), name="endpoint-try"),
]
