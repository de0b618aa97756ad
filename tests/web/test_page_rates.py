"""How often pages may be asked for: by user, and by address of who is not signed in."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from foundation.clock import freeze
from foundation.http.rates import Kind
from tests.api.every_operation import NOW
from tests.factories.teams import api_client, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("servers")]


@pytest.fixture
def three_a_minute(settings):
    settings.REST_RATES = {kind.value: 1000 for kind in Kind} | {Kind.PAGES.value: 3}
    with freeze(NOW):
        yield


def signed_in(name="ana", address="203.0.113.1"):
    client = Client(REMOTE_ADDR=address)
    client.force_login(make_user(name))
    return client


def test_who_asks_for_pages_too_often_gets_a_page_that_says_how_long(
    three_a_minute, django_assert_num_queries
):
    ana = signed_in()
    assert [ana.get("/profile/").status_code for _ in range(3)] == [200, 200, 200]
    refused = ana.get("/profile/")
    assert (refused.status_code, refused["Retry-After"]) == (429, "20")
    assert "Too many requests" in refused.content.decode()
    assert "Try again in 20 s." in refused.content.decode()
    with django_assert_num_queries(0):
        again = ana.get("/runs/")
    assert (again.status_code, again["Retry-After"]) == (429, "20")
    assert ana.post("/runs/new/", {}).status_code == 429
    with freeze(NOW + timedelta(seconds=20)):
        assert ana.get("/profile/").status_code == 200


def test_rest_and_others_are_not_held_by_it(three_a_minute):
    ana = signed_in()
    assert [ana.get("/profile/").status_code for _ in range(4)][-1] == 429
    assert ana.get("/api/v1/me/").status_code == 200
    assert signed_in("bo").get("/profile/").status_code == 200
    assert api_client(make_user("cy")).get("/api/v1/me/").status_code == 200
    assert Client(REMOTE_ADDR="203.0.113.1").get("/sign-in/").status_code == 200


def test_who_is_not_signed_in_is_counted_by_address_whatever_cookie_comes_with_it(three_a_minute, settings):
    for number in range(3):
        stranger = Client(REMOTE_ADDR="203.0.113.9")
        stranger.cookies[settings.SESSION_COOKIE_NAME] = f"invented{number}"
        assert stranger.get("/sign-in/").status_code == 200
    assert Client(REMOTE_ADDR="203.0.113.9").get("/sign-in/").status_code == 429
    assert Client(REMOTE_ADDR="203.0.113.10").get("/sign-in/").status_code == 200
    assert signed_in("bo", address="203.0.113.9").get("/profile/").status_code == 200


def test_rest_that_was_refused_leaves_the_pages(three_a_minute, settings):
    settings.REST_RATES = settings.REST_RATES | {Kind.READS.value: 1}
    ana = signed_in()
    assert [ana.get("/api/v1/me/").status_code for _ in range(2)] == [200, 429]
    assert ana.get("/profile/").status_code == 200
