from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from portal.web import home, team, try_it

app_name = "portal"

urlpatterns: list[URLPattern | URLResolver] = [
    path("", home.HomePage.as_view(), name="home"),
    path("theme/", home.choose_theme, name="theme"),
    path("teams/", team.TeamListPage.as_view(), name="team-list"),
    path("teams/<slug:slug>/", team.TeamDetailPage.as_view(), name="team-detail"),
    path("endpoints/<uuid:public_id>/try/", try_it.TryItPage.as_view(), name="endpoint-try"),
]
