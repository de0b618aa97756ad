from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from teams import member_views, views
from teams.api import people, platform, tokens, trail

app_name = "teams"

urlpatterns: list[URLPattern | URLResolver] = [
    path("sign-in/", views.sign_in, name="sign-in"),
    path("sign-in/link/<str:token>/", views.sign_in_link, name="sign-in-link"),
    path("sign-out/", views.sign_out, name="sign-out"),
    path("profile/", views.profile, name="profile"),
    path("profile/password/", views.password, name="password"),
    path("profile/tokens/<uuid:token_id>/revoke/", views.token_revoke, name="token-revoke"),
    path("teams/<slug:slug>/members/", member_views.MemberAddPage.as_view(), name="member-add"),
    path(
        "teams/<slug:slug>/members/<str:username>/", member_views.MemberRolePage.as_view(), name="member-role"
    ),
    path(
        "teams/<slug:slug>/members/<str:username>/remove/",
        member_views.MemberRemovePage.as_view(),
        name="member-remove",
    ),
]

api_urlpatterns: list[URLPattern | URLResolver] = [
    path("me/", people.CallerView.as_view(), name="me"),
    path("teams/", people.TeamListView.as_view(), name="team-list"),
    path("teams/<str:slug>/", people.TeamView.as_view(), name="team"),
    path("teams/<str:slug>/members/", people.MemberListView.as_view(), name="member-list"),
    path("teams/<str:slug>/members/<str:username>/", people.MemberView.as_view(), name="member"),
    path("tokens/", tokens.TokenListView.as_view(), name="token-list"),
    path("tokens/exchange/", tokens.TokenExchangeView.as_view(), name="token-exchange"),
    path("tokens/<uuid:token_id>/", tokens.TokenView.as_view(), name="token"),
    path("audit/", trail.AuditListView.as_view(), name="audit-list"),
    path("audit/export.csv", trail.AuditExportView.as_view(), name="audit-export"),
    path("settings/", platform.SettingsView.as_view(), name="settings"),
]
