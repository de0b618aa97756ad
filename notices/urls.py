from __future__ import annotations

from django.urls import URLPattern, URLResolver, path

from notices import api, pages

app_name = "notices"

_ONE = "notices/<uuid:public_id>/"

urlpatterns: list[URLPattern | URLResolver] = [
    path("notices/", pages.NoticeListPage.as_view(), name="list"),
    path("notices/new/", pages.SubscriptionNewPage.as_view(), name="new"),
    path(_ONE, pages.SubscriptionPage.as_view(), name="subscription"),
    path(f"{_ONE}secret/", pages.SubscriptionSecretPage.as_view(), name="secret"),
    path(f"{_ONE}test/", pages.SubscriptionTestPage.as_view(), name="test"),
    path(f"{_ONE}delete/", pages.SubscriptionDeletePage.as_view(), name="delete"),
    path("notices/sent/<uuid:public_id>/replay/", pages.NoticeReplayPage.as_view(), name="replay"),
    path("teams/<slug:slug>/notices/", pages.NoticeListPage.as_view(), name="team-list"),
    path("teams/<slug:slug>/notices/new/", pages.SubscriptionNewPage.as_view(), name="team-new"),
]

api_urlpatterns: list[URLPattern | URLResolver] = [
    path("subscriptions/", api.SubscriptionListView.as_view(), name="subscription-list"),
    path("subscriptions/<uuid:public_id>/", api.SubscriptionView.as_view(), name="subscription"),
    path(
        "subscriptions/<uuid:public_id>/secret/",
        api.SubscriptionSecretView.as_view(),
        name="subscription-secret",
    ),
    path(
        "subscriptions/<uuid:public_id>/test/", api.SubscriptionTestView.as_view(), name="subscription-test"
    ),
    path("notices/", api.NoticeListView.as_view(), name="notice-list"),
    path("notices/<uuid:public_id>/", api.NoticeView.as_view(), name="notice"),
    path("notices/<uuid:public_id>/replay/", api.NoticeReplayView.as_view(), name="notice-replay"),
]
