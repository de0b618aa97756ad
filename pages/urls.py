from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from pages import advice, attention, audit, duties, home
from pages.cluster import node, settings
from pages.cluster import pages as cluster
from pages.costs import capacity as capacity_costs
from pages.costs import line
from pages.costs import pages as costs
from pages.endpoints import access, try_it
from pages.gpus import rules, waste
from pages.quotas import changes, cohorts, files, pages, requests, teams
from pages.teams import closing, quota, team, tokens

app_name = "portal"

urlpatterns: list[URLPattern | URLResolver] = [
    path("", home.HomePage.as_view(), name="home"),
    path("duties/", duties.DutiesPage.as_view(), name="duties"),
    path("attention/<uuid:public_id>/", attention.AttentionPage.as_view(), name="attention"),
    path("theme/", home.choose_theme, name="theme"),
    path("audit/", audit.AuditPage.as_view(), name="audit"),
    path("what-fits/", advice.AdvicePage.as_view(), name="what-fits"),
    path("costs/", costs.CostsPage.as_view(), name="costs"),
    path("costs/this-month/", line.MonthLine.as_view(), name="costs-line"),
    path("costs/capacity/", capacity_costs.CapacityCostsPage.as_view(), name="costs-capacity"),
    path("idle/", waste.IdlePage.as_view(), name="idle"),
    path("idle/rules/<str:name>/", rules.AlertRulePage.as_view(), name="alert-rule"),
    path("cluster/", cluster.ClusterPage.as_view(), name="cluster"),
    path("cluster/nodes/<str:name>/", node.NodePage.as_view(), name="cluster-node"),
    path("capacity/", cluster.CapacityPage.as_view(), name="capacity"),
    path("settings/", settings.SettingsPage.as_view(), name="settings"),
    path("teams/", team.TeamListPage.as_view(), name="team-list"),
    path("teams/<slug:slug>/", team.TeamDetailPage.as_view(), name="team-detail"),
    path("teams/<slug:slug>/close/", closing.TeamClosePage.as_view(), name="team-close"),
    path("teams/<slug:slug>/reopen/", closing.TeamReopenPage.as_view(), name="team-reopen"),
    path("teams/<slug:slug>/endpoint-tokens/", tokens.TeamTokensPage.as_view(), name="team-endpoint-tokens"),
    path(
        "teams/<slug:slug>/endpoint-tokens/<uuid:token_id>/revoke/",
        tokens.TeamTokenRevokePage.as_view(),
        name="team-endpoint-token-revoke",
    ),
    path("teams/<slug:slug>/quota/", quota.TeamQuotaPage.as_view(), name="team-quota"),
    path("teams/<slug:slug>/quota/queue/", quota.QueuePage.as_view(), name="team-queue"),
    path(
        "teams/<slug:slug>/quota/requests/<uuid:public_id>/withdraw/",
        quota.WithdrawPage.as_view(),
        name="team-quota-withdraw",
    ),
    path("quotas/", pages.ConsolePage.as_view(), name="quota-console"),
    path("quotas/export.csv", files.QuotaExport.as_view(), name="quota-export"),
    path("quotas/import/", files.QuotaImport.as_view(), name="quota-import"),
    path("quotas/draft/", pages.DraftPage.as_view(), name="quota-draft"),
    path("quotas/changes/", changes.ChangeSetListPage.as_view(), name="quota-changes"),
    path("quotas/changes/<uuid:public_id>/", changes.ChangeSetPage.as_view(), name="quota-change-set"),
    path("quotas/requests/", requests.RequestListPage.as_view(), name="quota-requests"),
    path(
        "quotas/requests/<uuid:public_id>/",
        requests.RequestPage.as_view(),
        name="quota-request",
    ),
    path("quotas/cohorts/", cohorts.CohortListPage.as_view(), name="quota-cohorts"),
    path("quotas/cohorts/<uuid:public_id>/", cohorts.CohortPage.as_view(), name="quota-cohort"),
    path("quotas/teams/", teams.TeamPolicyListPage.as_view(), name="quota-teams"),
    path("quotas/teams/<slug:slug>/", teams.TeamPolicyPage.as_view(), name="quota-team"),
    path(
        "endpoints/<uuid:public_id>/tokens/",
        access.EndpointTokensPage.as_view(),
        name="endpoint-tokens",
    ),
    path(
        "endpoints/<uuid:public_id>/tokens/<uuid:token_id>/revoke/",
        access.EndpointTokenRevokePage.as_view(),
        name="endpoint-token-revoke",
    ),
    path("endpoints/<uuid:public_id>/try/", try_it.TryItPage.as_view(), name="endpoint-try"),
]
